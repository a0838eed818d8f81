// Text from outside made safe for one line of log or one label: pure functions over UTF-8.
//
// Input is any bytes; output is always valid UTF-8 without control characters or line separators
// (C0, DEL, C1, U+2028, U+2029), so that nobody can forge a line or drive a terminal. Invalid
// sequences become U+FFFD, one a byte. Thread: any. Errors: none.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace outrider {

/// How a text is written into its surroundings.
enum class EscapeStyle {
  plain,   ///< A message in a text line: only what would break the line is escaped.
  quoted,  ///< Between double quotes in a text line or a JSON string.
};

/// Append `text` to `out`, escaped with JSON's escapes; at most `bytes_max` bytes of the text, the
/// rest is replaced by "…".
void append_escaped(std::string& out, std::string_view text, EscapeStyle style,
                    std::size_t bytes_max);

/// `text` as valid UTF-8, cut at `bytes_max` bytes; control characters stay.
std::string valid_utf8(std::string_view text, std::size_t bytes_max);

}  // namespace outrider
