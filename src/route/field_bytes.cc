#include "route/field_bytes.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace outrider {
namespace {

/// Memory of one huge value is given back when the next is small.
constexpr std::size_t kScratchKeptMax = 1024 * 1024;

constexpr std::uint8_t kNoDigit = 0xFF;

constexpr std::array<std::uint8_t, 256> make_digit_table() {
  std::array<std::uint8_t, 256> table{};
  for (std::size_t c = 0; c < table.size(); ++c) {
    table[c] = c >= '0' && c <= '9'   ? static_cast<std::uint8_t>(c - '0')
               : c >= 'a' && c <= 'f' ? static_cast<std::uint8_t>(c - 'a' + 10)
               : c >= 'A' && c <= 'F' ? static_cast<std::uint8_t>(c - 'A' + 10)
                                      : kNoDigit;
  }
  return table;
}

constexpr std::array<std::uint8_t, 256> kDigits = make_digit_table();

bool decode_hex(std::string_view hex, std::string& bytes) {
  if (bytes.capacity() > kScratchKeptMax && hex.size() / 2 <= kScratchKeptMax) {
    std::string().swap(bytes);
  }
  bytes.resize(hex.size() / 2);
  unsigned bad = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    unsigned high = kDigits[static_cast<unsigned char>(hex[2 * i])];
    unsigned low = kDigits[static_cast<unsigned char>(hex[2 * i + 1])];
    bad |= high | low;
    bytes[i] = static_cast<char>(static_cast<unsigned char>(high << 4 | low));
  }
  return (bad & 0xF0) == 0;
}

}  // namespace

tl::unexpected<Error> refuse_field(const Field& field, const std::string& reason,
                                   const std::string& hint) {
  return fail(ErrorKind::poison,
              "column \"" + field.column.name + "\" of table " + field.table + " " + reason, hint);
}

Result<std::optional<std::string_view>> field_text(const Field& field) {
  switch (field.value.state) {
    case ColumnValue::State::null:
      return std::optional<std::string_view>();
    case ColumnValue::State::text:
      return std::optional(field.value.text);
    case ColumnValue::State::unchanged_toast:
      break;
  }
  return refuse_field(field, "was not sent by the server because it did not change",
                      "publish only inserts of the outbox table");
}

Result<std::optional<std::string_view>> field_bytes(const Field& field, std::string& scratch) {
  if (field.column.type_oid != kByteaOid || field.value.state != ColumnValue::State::text) {
    return field_text(field);
  }
  if (field.value.text.size() % 2 != 0) {
    return refuse_field(field, "is bytea with an odd number of hexadecimal digits",
                        "report this row, a server does not send such a value");
  }
  if (!decode_hex(field.value.text, scratch)) {
    return refuse_field(field, "is bytea with a character that is no hexadecimal digit",
                        "report this row, a server does not send such a value");
  }
  return std::optional<std::string_view>(scratch);
}

Result<std::optional<std::string_view>> field_header(const Field& field, std::string& scratch) {
  if (field.column.type_oid == kBoolOid && field.value.state == ColumnValue::State::text) {
    if (field.value.text == "t") {
      return std::optional<std::string_view>("true");
    }
    if (field.value.text == "f") {
      return std::optional<std::string_view>("false");
    }
  }
  return field_bytes(field, scratch);
}

}  // namespace outrider
