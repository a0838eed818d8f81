#include "outrider/base/json_reader.h"

#include <cstring>

namespace outrider {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_special(char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; }

/// The first byte that ends a run of plain string bytes: quote, backslash or control character.
/// Eight bytes at a time: a payload is mostly plain, and this is where the time goes.
char* find_special(char* at, const char* end) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  constexpr std::uint64_t kHighs = 0x8080808080808080;
  while (end - at >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    std::uint64_t quotes = word ^ (kOnes * '"');
    std::uint64_t slashes = word ^ (kOnes * '\\');
    std::uint64_t found = ((quotes - kOnes) & ~quotes) | ((slashes - kOnes) & ~slashes) |
                          ((word - kOnes * 0x20) & ~word);
    if ((found & kHighs) != 0) {
      break;
    }
    at += 8;
  }
  while (at != end && !is_special(*at)) {
    ++at;
  }
  return at;
}

void put_byte(char*& put, std::uint32_t byte) { *put++ = static_cast<char>(byte & 0xFFU); }

/// At most four bytes for what took six or twelve in the escape: always fits in place.
void put_utf8(char*& put, std::uint32_t code) {
  if (code < 0x80) {
    put_byte(put, code);
  } else if (code < 0x800) {
    put_byte(put, 0xC0U | (code >> 6U));
    put_byte(put, 0x80U | (code & 0x3FU));
  } else if (code < 0x10000) {
    put_byte(put, 0xE0U | (code >> 12U));
    put_byte(put, 0x80U | ((code >> 6U) & 0x3FU));
    put_byte(put, 0x80U | (code & 0x3FU));
  } else {
    put_byte(put, 0xF0U | (code >> 18U));
    put_byte(put, 0x80U | ((code >> 12U) & 0x3FU));
    put_byte(put, 0x80U | ((code >> 6U) & 0x3FU));
    put_byte(put, 0x80U | (code & 0x3FU));
  }
}

}  // namespace

bool JsonReader::wrong(const char* why) {
  if (why_ == nullptr) {
    why_ = why;
  }
  return false;
}

void JsonReader::skip_space() {
  while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) {
    ++at_;
  }
}

bool JsonReader::open(char bracket) {
  skip_space();
  if (!ok() || at_ == end_ || *at_ != bracket) {
    return wrong(bracket == '{' ? "an object is expected" : "an array is expected");
  }
  ++at_;
  return true;
}

bool JsonReader::at_bracket(char bracket) {
  skip_space();
  return ok() && at_ != end_ && *at_ == bracket;
}

bool JsonReader::more(char close, bool& first) {
  skip_space();
  if (!ok() || at_ == end_) {
    return wrong("it ends early");
  }
  if (*at_ == close) {
    ++at_;
    return false;
  }
  if (!first) {
    if (*at_ != ',') {
      return wrong("a comma is expected");
    }
    ++at_;
    skip_space();
  }
  first = false;
  return true;
}

bool JsonReader::next_member(bool& first, std::string_view& key) {
  if (!more('}', first)) {
    return false;
  }
  if (at_ == end_ || *at_ != '"') {
    return wrong("a key is expected");
  }
  if (!string(key)) {
    return false;
  }
  skip_space();
  if (at_ == end_ || *at_ != ':') {
    return wrong("a colon is expected");
  }
  ++at_;
  return true;
}

bool JsonReader::next_element(bool& first) { return more(']', first); }

bool JsonReader::finish() {
  skip_space();
  if (!ok() || at_ != end_) {
    return wrong("bytes follow the object");
  }
  return true;
}

bool JsonReader::value_at(int depth, JsonValue& out) {
  skip_space();
  if (!ok() || at_ == end_) {
    return wrong("it ends early");
  }
  switch (*at_) {
    case '"':
      out.kind = JsonValue::Kind::string;
      return string(out.text);
    case 'n':
      out.kind = JsonValue::Kind::null;
      return literal("null");
    case 't':
    case 'f':
      out.kind = JsonValue::Kind::boolean;
      out.truth = *at_ == 't';
      return literal(out.truth ? "true" : "false");
    case '{':
    case '[':
      out.kind = JsonValue::Kind::nested;
      return skip_nested(depth + 1);
    default:
      out.kind = JsonValue::Kind::number;
      return number(out.text);
  }
}

bool JsonReader::skip_nested(int depth) {
  if (depth > kNestingMax) {
    return wrong("it is nested too deeply");
  }
  bool is_object = *at_++ == '{';
  bool first = true;
  std::string_view key;
  JsonValue ignored;
  while (is_object ? next_member(first, key) : next_element(first)) {
    if (!value_at(depth, ignored)) {
      return false;
    }
  }
  return ok();
}

bool JsonReader::literal(std::string_view word) {
  if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(word)) {
    return wrong("a value is expected");
  }
  at_ += word.size();
  return true;
}

bool JsonReader::digits() {
  if (at_ == end_ || !is_digit(*at_)) {
    return wrong("a digit is expected");
  }
  while (at_ != end_ && is_digit(*at_)) {
    ++at_;
  }
  return true;
}

bool JsonReader::number(std::string_view& out) {
  const char* start = at_;
  if (*at_ == '-') {
    ++at_;
  } else if (!is_digit(*at_)) {
    return wrong("a value is expected");
  }
  if (at_ != end_ && *at_ == '0') {
    ++at_;
  } else if (!digits()) {
    return false;
  }
  if (at_ != end_ && *at_ == '.') {
    ++at_;
    if (!digits()) {
      return false;
    }
  }
  if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
    ++at_;
    if (at_ != end_ && (*at_ == '+' || *at_ == '-')) {
      ++at_;
    }
    if (!digits()) {
      return false;
    }
  }
  out = {start, static_cast<std::size_t>(at_ - start)};
  return true;
}

bool JsonReader::string(std::string_view& out) {
  char* start = ++at_;
  char* put = start;
  while (true) {
    char* stop = find_special(at_, end_);
    auto run = static_cast<std::size_t>(stop - at_);
    if (put != at_) {
      std::memmove(put, at_, run);
    }
    put += run;
    at_ = stop;
    if (at_ == end_) {
      return wrong("a string has no end");
    }
    if (*at_ == '"') {
      ++at_;
      out = {start, static_cast<std::size_t>(put - start)};
      return true;
    }
    if (*at_ != '\\') {
      return wrong("a control character stands in a string");
    }
    if (!escape(put)) {
      return false;
    }
  }
}

bool JsonReader::escape(char*& put) {
  ++at_;
  if (at_ == end_) {
    return wrong("a string has no end");
  }
  char named = *at_;
  switch (named) {
    case '"':
    case '\\':
    case '/':
      break;
    case 'b':
      named = '\b';
      break;
    case 'f':
      named = '\f';
      break;
    case 'n':
      named = '\n';
      break;
    case 'r':
      named = '\r';
      break;
    case 't':
      named = '\t';
      break;
    case 'u':
      ++at_;
      return unicode_escape(put);
    default:
      return wrong("unknown escape in a string");
  }
  ++at_;
  *put++ = named;
  return true;
}

bool JsonReader::hex4(std::uint32_t& unit) {
  unit = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    if (at_ == end_) {
      return wrong("a string has no end");
    }
    char c = *at_;
    int digit = 0;
    if (is_digit(c)) {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else {
      return wrong("an escape has no four hex digits");
    }
    unit = unit * 16 + static_cast<std::uint32_t>(digit);
  }
  return true;
}

bool JsonReader::unicode_escape(char*& put) {
  std::uint32_t unit = 0;
  if (!hex4(unit)) {
    return false;
  }
  if (unit >= 0xD800 && unit < 0xE000) {
    // Half of a pair has no UTF-8 form. The server never writes one: what it escapes this way is
    // below U+0020, and a backslash of the value itself comes doubled.
    std::uint32_t low = 0;
    if (unit >= 0xDC00 || end_ - at_ < 2 || at_[0] != '\\' || at_[1] != 'u') {
      return wrong("an escape is half of a surrogate pair");
    }
    at_ += 2;
    if (!hex4(low)) {
      return false;
    }
    if (low < 0xDC00 || low >= 0xE000) {
      return wrong("an escape is half of a surrogate pair");
    }
    unit = 0x10000 + ((unit - 0xD800) << 10U) + (low - 0xDC00);
  }
  put_utf8(put, unit);
  return true;
}

}  // namespace outrider
