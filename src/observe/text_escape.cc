#include "observe/text_escape.h"

#include <cstdint>

namespace outrider {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr std::string_view kEllipsis = "\xE2\x80\xA6";
constexpr std::uint32_t kInvalid = 0xFFFFFFFF;

struct CodePoint {
  std::uint32_t value = kInvalid;
  std::size_t size = 1;
};

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// The code point at the front of a text that is not empty (RFC 3629: no overlong forms, no
/// surrogates, nothing over U+10FFFF). An invalid byte has size one.
CodePoint front_code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) {
    return {lead, 1};
  }
  std::size_t size = 0;
  std::uint32_t least = 0;
  std::uint32_t value = 0;
  if ((lead & 0xE0U) == 0xC0U) {
    size = 2;
    least = 0x80;
    value = lead & 0x1FU;
  } else if ((lead & 0xF0U) == 0xE0U) {
    size = 3;
    least = 0x800;
    value = lead & 0x0FU;
  } else if ((lead & 0xF8U) == 0xF0U) {
    size = 4;
    least = 0x10000;
    value = lead & 0x07U;
  }
  if (size == 0 || text.size() < size) {
    return {};
  }
  for (std::size_t i = 1; i < size; ++i) {
    if (!is_continuation(text[i])) {
      return {};
    }
    value = (value << 6) | (static_cast<unsigned char>(text[i]) & 0x3FU);
  }
  if (value < least || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    return {};
  }
  return {value, size};
}

void append_unicode_escape(std::string& out, std::uint32_t value) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) {
    out += kHex[(value >> shift) & 0xFU];
  }
}

/// True when the code point was written as an escape.
bool append_escape(std::string& out, std::uint32_t value, EscapeStyle style) {
  switch (value) {
    case '\n':
      out += "\\n";
      return true;
    case '\r':
      out += "\\r";
      return true;
    case '\t':
      out += "\\t";
      return true;
    case '"':
    case '\\':
      if (style == EscapeStyle::plain) {
        return false;
      }
      out += '\\';
      out += static_cast<char>(value);
      return true;
    default:
      break;
  }
  const bool control = value < 0x20 || (value >= 0x7F && value <= 0x9F);
  const bool separator = value == 0x2028 || value == 0x2029;
  if (control || separator) {
    append_unicode_escape(out, value);
  }
  return control || separator;
}

/// `text` without the bytes over the limit; never cuts inside a character.
std::string_view cut(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) {
    return text;
  }
  std::size_t end = bytes_max;
  for (int back = 0; back < 3 && end > 0 && is_continuation(text[end]); ++back) {
    --end;
  }
  return text.substr(0, end);
}

template <typename Each>
void for_each_code_point(std::string_view text, Each&& each) {
  while (!text.empty()) {
    const CodePoint next = front_code_point(text);
    each(next.value, next.value == kInvalid ? kReplacement : text.substr(0, next.size));
    text.remove_prefix(next.size);
  }
}

}  // namespace

void append_escaped(std::string& out, std::string_view text, EscapeStyle style,
                    std::size_t bytes_max) {
  const std::string_view kept = cut(text, bytes_max);
  for_each_code_point(kept, [&](std::uint32_t value, std::string_view bytes) {
    if (value == kInvalid || !append_escape(out, value, style)) {
      out += bytes;
    }
  });
  if (kept.size() < text.size()) {
    out += kEllipsis;
  }
}

std::string valid_utf8(std::string_view text, std::size_t bytes_max) {
  std::string result;
  for_each_code_point(cut(text, bytes_max),
                      [&](std::uint32_t, std::string_view bytes) { result += bytes; });
  return result;
}

}  // namespace outrider
