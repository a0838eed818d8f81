// ByteReader: a bounded big-endian reader over somebody else's bytes.
//
// Reading past the end never touches memory outside: it returns zero and marks the reader failed,
// so a parser reads all fields and asks `ok()` once. Outlives: the bytes must outlive the views.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace outrider {

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  std::uint8_t u8() { return static_cast<std::uint8_t>(unsigned_of(1)); }
  std::uint16_t u16() { return static_cast<std::uint16_t>(unsigned_of(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(unsigned_of(4)); }
  std::uint64_t u64() { return unsigned_of(8); }
  std::int16_t i16() { return static_cast<std::int16_t>(u16()); }
  std::int32_t i32() { return static_cast<std::int32_t>(u32()); }
  std::int64_t i64() { return static_cast<std::int64_t>(u64()); }

  /// The next `size` bytes; empty and failed if fewer are left.
  std::string_view bytes(std::size_t size) {
    if (size > bytes_.size() - at_) {
      ok_ = false;
      at_ = bytes_.size();
      return {};
    }
    std::string_view view = bytes_.substr(at_, size);
    at_ += size;
    return view;
  }

  /// Up to the next zero byte, which is consumed but not part of the view.
  std::string_view c_string() {
    std::size_t end = bytes_.find('\0', at_);
    if (end == std::string_view::npos) {
      ok_ = false;
      at_ = bytes_.size();
      return {};
    }
    std::string_view view = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return view;
  }

  bool ok() const { return ok_; }
  std::size_t left() const { return bytes_.size() - at_; }
  /// Where the reader stands, counted from the start; for error messages.
  std::size_t at() const { return at_; }

 private:
  std::uint64_t unsigned_of(std::size_t size) {
    std::uint64_t value = 0;
    for (char byte : bytes(size)) {
      value = (value << 8) | static_cast<unsigned char>(byte);
    }
    return value;
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

}  // namespace outrider
