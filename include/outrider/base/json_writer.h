// JsonWriter: builds one line of JSON text; commas and escapes are its business.
//
// Output is always valid UTF-8 on one line: bytes that are no UTF-8 become U+FFFD, one a byte, and
// control characters become escapes, so that it may go to a terminal. Owns the text. Thread: any.
// Errors: none; brackets that do not match are the caller's bug (CHECK). Source: RFC 8259.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace outrider {

class JsonWriter {
 public:
  JsonWriter& open_object() { return open('{'); }
  JsonWriter& close_object() { return close('}'); }
  JsonWriter& open_array() { return open('['); }
  JsonWriter& close_array() { return close(']'); }

  /// The name of the next value; only within an object.
  JsonWriter& name(std::string_view name);

  JsonWriter& text(std::string_view value);
  JsonWriter& number(std::int64_t value);
  JsonWriter& number(std::uint64_t value);
  JsonWriter& boolean(bool value);
  JsonWriter& null();
  /// A value that is JSON already.
  JsonWriter& raw(std::string_view json);

  /// Everything so far; whole once every bracket is closed.
  const std::string& json() const { return json_; }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void begin_value();

  std::string json_;
  std::vector<char> open_;  ///< Closing brackets that are due.
  bool first_ = true;       ///< No comma before the next value.
};

/// RFC 3629: no overlong forms, no surrogates, nothing over U+10FFFF.
bool is_utf8(std::string_view text);

/// `text` in double quotes, escaped for JSON.
std::string json_quoted(std::string_view text);

}  // namespace outrider
