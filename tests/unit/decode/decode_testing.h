// What the decoder tests share: bytes of pgoutput messages, recorded messages, changes as values.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "outrider/decode/decoder.h"

namespace outrider::testing {

/// Builds a message of big-endian fields.
class Bytes {
 public:
  explicit Bytes(char type) { bytes_.push_back(type); }

  Bytes& u8(std::uint64_t value) { return number(value, 1); }
  Bytes& u16(std::uint64_t value) { return number(value, 2); }
  Bytes& u32(std::uint64_t value) { return number(value, 4); }
  Bytes& u64(std::uint64_t value) { return number(value, 8); }
  Bytes& byte(char value) {
    bytes_.push_back(value);
    return *this;
  }
  Bytes& raw(std::string_view value) {
    bytes_.append(value);
    return *this;
  }
  Bytes& c_string(std::string_view value) { return raw(value).byte('\0'); }
  Bytes& text(std::string_view value) { return byte('t').u32(value.size()).raw(value); }

  std::string str() const { return bytes_; }

 private:
  Bytes& number(std::uint64_t value, unsigned size) {
    for (unsigned shift = size * 8; shift > 0; shift -= 8) {
      bytes_.push_back(static_cast<char>((value >> (shift - 8)) & 0xFFU));
    }
    return *this;
  }

  std::string bytes_;
};

/// A decoder and the buffer its last change points into. The buffer is exactly as long as the
/// message, so that AddressSanitizer sees a read past it.
class Session {
 public:
  explicit Session(std::unique_ptr<Decoder> decoder) : decoder_(std::move(decoder)) {}

  Result<Change> decode(std::string_view message) {
    buffer_ = std::make_unique<char[]>(message.size());
    message.copy(buffer_.get(), message.size());
    return decoder_->decode(Lsn::from_wire(1), {buffer_.get(), message.size()});
  }

  Decoder& decoder() { return *decoder_; }

 private:
  std::unique_ptr<Decoder> decoder_;
  std::unique_ptr<char[]> buffer_;
};

/// The change as `T`; a default one and a failure if it is an error or another kind.
template <typename T>
T expect_change(const Result<Change>& change) {
  if (!change.has_value()) {
    ADD_FAILURE() << describe(change.error());
    return {};
  }
  if (!std::holds_alternative<T>(*change)) {
    ADD_FAILURE() << "another kind of change: index " << change->index();
    return {};
  }
  return std::get<T>(*change);
}

/// The poison error's message; empty and a failure if there is none.
inline std::string expect_poison(const Result<Change>& change) {
  if (change.has_value()) {
    ADD_FAILURE() << "decoded to change " << change->index();
    return {};
  }
  EXPECT_EQ(change.error().kind, ErrorKind::poison);
  EXPECT_FALSE(change.error().hint.empty());
  return change.error().message;
}

/// A change that outlives its message, for comparing.
struct Row {
  QualifiedName table;
  std::vector<Column> columns;
  std::vector<std::optional<std::string>> values;

  bool operator==(const Row&) const = default;
};

inline Row to_row(const Insert& insert) {
  Row row;
  if (insert.relation == nullptr) {
    return row;
  }
  row.table = insert.relation->name;
  row.columns = insert.relation->columns;
  for (const ColumnValue& value : insert.values) {
    EXPECT_NE(value.state, ColumnValue::State::unchanged_toast);
    row.values.push_back(value.state == ColumnValue::State::text
                             ? std::optional<std::string>(value.text)
                             : std::nullopt);
  }
  return row;
}

inline std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

/// The messages of a fixture (see fixtures/capture.sql); the tests run in the tests folder.
inline std::vector<std::string> read_fixture(const std::string& name) {
  std::ifstream file("unit/decode/fixtures/" + name + ".txt");
  std::vector<std::string> messages;
  for (std::string line; std::getline(file, line);) {
    std::string message = line.substr(line.find(' ') + 1);
    messages.push_back(name == "pgoutput" ? from_hex(message) : message);
  }
  EXPECT_FALSE(messages.empty()) << name;
  return messages;
}

}  // namespace outrider::testing
