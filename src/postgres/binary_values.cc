#include "postgres/binary_values.h"

#include <chrono>
#include <cstddef>

#include "outrider/base/byte_reader.h"
#include "outrider/model/change.h"

namespace outrider {
namespace {

/// From 1970 to 2000.
constexpr std::chrono::microseconds kEpochShift = std::chrono::seconds(946'684'800);

void append(std::string& out, std::uint64_t value, int bytes) {
  for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) {
    out += static_cast<char>((value >> shift) & 0xff);
  }
}

void append_int4(std::string& out, std::size_t value) { append(out, value, 4); }

// Number of dimensions, whether there are NULLs, OID of the items; for each dimension its length
// and first index; for each item its length, or -1 for NULL, and its bytes.
std::string array_head(std::uint32_t item_oid, std::size_t items, bool has_null) {
  std::string out;
  append_int4(out, items == 0 ? 0 : 1);
  append_int4(out, has_null ? 1 : 0);
  append(out, item_oid, 4);
  if (items > 0) {
    append_int4(out, items);
    append_int4(out, 1);
  }
  return out;
}

}  // namespace

std::string binary_int4(std::int32_t value) {
  std::string out;
  append(out, static_cast<std::uint32_t>(value), 4);
  return out;
}

std::string binary_int8(std::int64_t value) {
  std::string out;
  append(out, static_cast<std::uint64_t>(value), 8);
  return out;
}

std::string binary_bool(bool value) { return std::string(1, value ? '\1' : '\0'); }

std::string binary_timestamptz(WallTime time) {
  return binary_int8((time.time_since_epoch() - kEpochShift).count());
}

std::string binary_bytea_array(const std::vector<std::optional<std::string_view>>& items) {
  bool has_null = false;
  for (const auto& item : items) {
    has_null = has_null || !item;
  }
  std::string out = array_head(kByteaOid, items.size(), has_null);
  for (const auto& item : items) {
    if (!item) {
      append(out, 0xffffffffU, 4);
      continue;
    }
    append_int4(out, item->size());
    out += *item;
  }
  return out;
}

std::string binary_int8_array(const std::vector<std::int64_t>& items) {
  std::string out = array_head(kInt8Oid, items.size(), false);
  for (const std::int64_t item : items) {
    append_int4(out, 8);
    append(out, static_cast<std::uint64_t>(item), 8);
  }
  return out;
}

std::optional<std::int32_t> read_int4(std::string_view bytes) {
  ByteReader reader(bytes);
  const std::int32_t value = reader.i32();
  return reader.ok() && reader.left() == 0 ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> read_int8(std::string_view bytes) {
  ByteReader reader(bytes);
  const std::int64_t value = reader.i64();
  return reader.ok() && reader.left() == 0 ? std::optional(value) : std::nullopt;
}

std::optional<WallTime> read_timestamptz(std::string_view bytes) {
  const std::optional<std::int64_t> value = read_int8(bytes);
  // Infinity, and what would not fit once the epoch is shifted.
  if (!value || *value > INT64_MAX - kEpochShift.count()) {
    return std::nullopt;
  }
  return WallTime(std::chrono::microseconds(*value) + kEpochShift);
}

std::optional<std::vector<std::optional<std::string>>> read_bytea_array(std::string_view bytes) {
  ByteReader reader(bytes);
  const std::int32_t dimensions = reader.i32();
  (void)reader.i32();
  const std::uint32_t item_oid = reader.u32();
  std::vector<std::optional<std::string>> items;
  if (!reader.ok() || item_oid != kByteaOid || dimensions < 0 || dimensions > 1) {
    return std::nullopt;
  }
  if (dimensions == 1) {
    const std::int32_t count = reader.i32();
    (void)reader.i32();
    for (std::int32_t i = 0; i < count && reader.ok(); ++i) {
      const std::int32_t length = reader.i32();
      if (length < 0) {
        items.emplace_back(std::nullopt);
      } else {
        items.emplace_back(std::string(reader.bytes(static_cast<std::size_t>(length))));
      }
    }
  }
  return reader.ok() && reader.left() == 0 ? std::optional(std::move(items)) : std::nullopt;
}

}  // namespace outrider
