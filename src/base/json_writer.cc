#include "outrider/base/json_writer.h"

#include "outrider/base/check.h"

namespace outrider {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

/// Bytes of the valid sequence at the front of a text that is not empty; 0 if there is none.
std::size_t utf8_sequence(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) {
    return 1;
  }
  if (lead < 0xC2 || lead > 0xF4) {
    return 0;
  }
  const std::size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < size) {
    return 0;
  }
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) {
      return 0;
    }
  }
  const unsigned next = byte(1);
  const bool overlong = (lead == 0xE0 && next < 0xA0) || (lead == 0xF0 && next < 0x90);
  const bool outside = (lead == 0xED && next > 0x9F) || (lead == 0xF4 && next > 0x8F);
  return overlong || outside ? 0 : size;
}

void append_escape(std::string& out, unsigned byte) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u00";
  out += kHex[byte >> 4U];
  out += kHex[byte & 15U];
}

/// One byte below U+0080.
void append_ascii(std::string& out, char c) {
  const auto byte = static_cast<unsigned char>(c);
  if (c == '"' || c == '\\') {
    out += '\\';
    out += c;
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else if (byte < 0x20 || byte == 0x7F) {
    append_escape(out, byte);
  } else {
    out += c;
  }
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t size = utf8_sequence(text);
    if (size == 0) {
      return false;
    }
    text.remove_prefix(size);
  }
  return true;
}

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t size = utf8_sequence(text);
    if (size == 1) {
      append_ascii(out, text.front());
    } else if (size == 2 && text[0] == '\xC2' && static_cast<unsigned char>(text[1]) < 0xA0) {
      append_escape(out, static_cast<unsigned char>(text[1]));  // C1 drives terminals too.
    } else {
      out += size == 0 ? kReplacement : text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
  return out + '"';
}

void JsonWriter::begin_value() {
  if (!first_) {
    json_ += ',';
  }
  first_ = false;
}

JsonWriter& JsonWriter::open(char bracket) {
  begin_value();
  json_ += bracket;
  open_.push_back(bracket == '{' ? '}' : ']');
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  OUTRIDER_CHECK(!open_.empty() && open_.back() == bracket, "brackets do not match");
  open_.pop_back();
  json_ += bracket;
  first_ = false;
  return *this;
}

JsonWriter& JsonWriter::name(std::string_view name) {
  begin_value();
  json_ += json_quoted(name) + ':';
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::text(std::string_view value) { return raw(json_quoted(value)); }
JsonWriter& JsonWriter::number(std::int64_t value) { return raw(std::to_string(value)); }
JsonWriter& JsonWriter::number(std::uint64_t value) { return raw(std::to_string(value)); }
JsonWriter& JsonWriter::boolean(bool value) { return raw(value ? "true" : "false"); }
JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::raw(std::string_view json) {
  begin_value();
  json_ += json;
  return *this;
}

}  // namespace outrider
