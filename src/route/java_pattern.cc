#include "route/java_pattern.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "route/java_property.h"

namespace outrider {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

std::optional<std::uint32_t> parse_number(std::string_view digits, std::uint32_t base) {
  if (digits.empty() || digits.size() > 8) {
    return std::nullopt;
  }
  std::uint32_t value = 0;
  for (char c : digits) {
    std::uint32_t digit = 99;
    if (is_digit(c)) {
      digit = static_cast<std::uint32_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint32_t>(c - 'a') + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = static_cast<std::uint32_t>(c - 'A') + 10;
    }
    if (digit >= base) {
      return std::nullopt;
    }
    value = value * base + digit;
  }
  return value;
}

std::string code_point(std::uint32_t code) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string digits;
  do {
    digits.insert(digits.begin(), kDigits[code & 0xF]);
    code >>= 4;
  } while (code != 0);
  return "\\x{" + digits + "}";
}

/// Java's line terminators are fewer than those of any setting of PCRE2 that has them all.
constexpr std::string_view kDot = "[^\\n\\r\\x{85}\\x{2028}\\x{2029}]";

/// One pass from left to right; each function consumes one construct.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  Result<JavaPattern> run();

 private:
  Result<> take_one();
  bool skip_comment();
  Result<> put_non_ascii(const std::string& character);
  Result<> take_in_class();
  Result<> take_group();
  Result<> take_named_group();
  Result<> take_flags();
  Result<> take_repetition();
  Result<> take_escape();
  Result<> take_plain_escape(char letter);
  Result<> take_quoted();
  Result<> take_unicode();
  Result<> take_hexadecimal();
  Result<> take_octal();
  Result<> take_control();
  Result<> take_back_reference();
  Result<> take_property();
  Result<> put_property(std::string_view name, bool negated);

  Result<std::uint32_t> four_digits(std::size_t from);

  bool has(std::size_t ahead) const { return at_ + ahead < in_.size(); }
  char peek(std::size_t ahead) const { return has(ahead) ? in_[at_ + ahead] : '\0'; }
  void copy(std::size_t bytes) {
    out_.pcre2.append(in_.substr(at_, bytes));
    at_ += bytes;
  }
  Result<> put_code(std::uint32_t code) {
    if (code > 0x7F) {
      return put_non_ascii(code_point(code));
    }
    out_.pcre2.append(code_point(code));
    return {};
  }
  tl::unexpected<Error> refuse(const std::string& reason) const {
    return fail(ErrorKind::configuration,
                "route.pattern: " + reason + " at byte " + std::to_string(at_),
                "write the pattern in Java's regular expression syntax without this construct");
  }

  std::string_view in_;
  std::size_t at_ = 0;
  JavaPattern out_;
  bool in_class_ = false;
  bool class_empty_ = false;
  bool caseless_ = false;
  bool dot_all_ = false;
  bool comments_ = false;
};

Result<JavaPattern> Translator::run() {
  if (in_.size() > kJavaPatternBytesMax) {
    return refuse("the pattern is longer than " + std::to_string(kJavaPatternBytesMax) + " bytes");
  }
  if (in_.substr(0, 4) == "(?x)") {
    comments_ = true;
    at_ = 4;
  }
  while (at_ < in_.size()) {
    if (comments_ && skip_comment()) {
      continue;
    }
    OUTRIDER_TRY(in_class_ ? take_in_class() : take_one());
  }
  return std::move(out_);
}

Result<> Translator::take_one() {
  char c = in_[at_];
  if (c == '\\') {
    return take_escape();
  }
  if (c == '(') {
    return take_group();
  }
  if (c == '{') {
    return take_repetition();
  }
  if (c == '[') {
    in_class_ = true;
    class_empty_ = true;
    copy(peek(1) == '^' ? 2 : 1);
    return {};
  }
  if (c == '.' && !dot_all_) {
    out_.pcre2.append(kDot);
    ++at_;
    return {};
  }
  if (!is_ascii(c)) {
    std::size_t size = 1;
    while (has(size) && (static_cast<unsigned char>(peek(size)) & 0xC0) == 0x80) {
      ++size;
    }
    at_ += size;
    return put_non_ascii(std::string(in_.substr(at_ - size, size)));
  }
  copy(1);
  return {};
}

// Within (?x) white space and comments mean nothing, also inside character classes.
bool Translator::skip_comment() {
  constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";
  if (kWhiteSpace.find(in_[at_]) != std::string_view::npos) {
    ++at_;
    return true;
  }
  if (in_[at_] != '#') {
    return false;
  }
  at_ = std::min(in_.find_first_of("\n\r", at_), in_.size());
  return true;
}

// Java folds only ASCII under (?i), PCRE2 all letters.
Result<> Translator::put_non_ascii(const std::string& character) {
  if (caseless_ && in_class_) {
    return refuse("(?i) before a character class with characters outside ASCII");
  }
  out_.pcre2.append(caseless_ ? "(?-i:" + character + ")" : character);
  return {};
}

Result<> Translator::take_in_class() {
  char c = in_[at_];
  if (c == '\\') {
    class_empty_ = false;
    return take_escape();
  }
  if (c == '[') {
    return refuse("a character class within a character class");
  }
  if (c == '&' && peek(1) == '&') {
    return refuse("an intersection of character classes (&&)");
  }
  if (c == ']' && !class_empty_) {
    in_class_ = false;
  }
  class_empty_ = false;
  if (caseless_ && !is_ascii(c)) {
    return put_non_ascii({});
  }
  copy(1);
  return {};
}

Result<> Translator::take_group() {
  if (peek(1) == '*') {
    return refuse("\"(*\"");
  }
  if (peek(1) != '?') {
    ++out_.groups;
    copy(1);
    return {};
  }
  char kind = peek(2);
  if (kind == ':' || kind == '=' || kind == '!' || kind == '>') {
    copy(3);
    return {};
  }
  if (kind == '<') {
    if (peek(3) == '=' || peek(3) == '!') {
      copy(4);
      return {};
    }
    return take_named_group();
  }
  return take_flags();
}

Result<> Translator::take_named_group() {
  std::size_t end = at_ + 3;
  while (end < in_.size() && (is_letter(in_[end]) || is_digit(in_[end]))) {
    ++end;
  }
  std::string_view name = in_.substr(at_ + 3, end - at_ - 3);
  if (name.empty() || is_digit(name[0]) || end >= in_.size() || in_[end] != '>') {
    return refuse("a group name that is not letters and digits between < and >");
  }
  ++out_.groups;
  if (!out_.names.emplace(std::string(name), out_.groups).second) {
    return refuse("a second group named \"" + std::string(name) + "\"");
  }
  copy(end + 1 - at_);
  return {};
}

Result<> Translator::take_flags() {
  std::size_t end = at_ + 2;
  bool on = true;
  while (end < in_.size() && in_[end] != ')' && in_[end] != ':') {
    char flag = in_[end];
    if (flag == '-' && on) {
      on = false;
    } else if (flag == 'i') {
      caseless_ = caseless_ || on;
    } else if (flag == 's') {
      dot_all_ = dot_all_ || on;
    } else if (flag != 'm') {
      return refuse(
          "a group that begins with (? and is none of (?: (?= (?! (?> (?<, or a flag "
          "other than i, m and s");
    }
    ++end;
  }
  copy(end < in_.size() ? end + 1 - at_ : end - at_);
  return {};
}

Result<> Translator::take_repetition() {
  std::size_t end = at_ + 1;
  while (end < in_.size() && is_digit(in_[end])) {
    ++end;
  }
  bool counted = end > at_ + 1;
  if (counted && end < in_.size() && in_[end] == ',') {
    ++end;
    while (end < in_.size() && is_digit(in_[end])) {
      ++end;
    }
  }
  if (!counted || end >= in_.size() || in_[end] != '}') {
    return refuse("\"{\" that does not begin a repetition");
  }
  copy(end + 1 - at_);
  return {};
}

Result<> Translator::take_escape() {
  if (!has(1)) {
    return refuse("a backslash that escapes nothing");
  }
  char c = peek(1);
  if (is_digit(c) && c != '0') {
    return take_back_reference();
  }
  switch (c) {
    case 'Q':
      return take_quoted();
    case 'u':
      return take_unicode();
    case 'x':
      return take_hexadecimal();
    case '0':
      return take_octal();
    case 'c':
      return take_control();
    case 'p':
    case 'P':
      return take_property();
    default:
      break;
  }
  if (is_letter(c)) {
    return take_plain_escape(c);
  }
  if (!is_ascii(c)) {
    ++at_;
    return in_class_ ? take_in_class() : take_one();
  }
  copy(2);
  return {};
}

Result<> Translator::take_plain_escape(char letter) {
  constexpr std::string_view kAnywhere = "tnrfaedDsSwWhHvV";
  constexpr std::string_view kOutsideClasses = "bBAGZzRXk";
  bool known = kAnywhere.find(letter) != std::string_view::npos ||
               (!in_class_ && kOutsideClasses.find(letter) != std::string_view::npos);
  if (!known || (letter == 'b' && peek(2) == '{')) {
    return refuse(std::string("the escape \\") + letter);
  }
  if (letter == 'k') {
    std::size_t end = in_.find('>', at_);
    if (peek(2) != '<' || end == std::string_view::npos ||
        out_.names.find(in_.substr(at_ + 3, end - at_ - 3)) == out_.names.end()) {
      return refuse("\\k without the <name> of a group before it");
    }
  }
  copy(2);
  return {};
}

Result<> Translator::take_quoted() {
  std::size_t end = in_.find("\\E", at_ + 2);
  std::string_view text = in_.substr(at_ + 2, end == std::string_view::npos ? end : end - at_ - 2);
  for (char c : text) {
    if (caseless_ && !is_ascii(c)) {
      return refuse("(?i) before quoted characters outside ASCII");
    }
    if (is_ascii(c) && !is_letter(c) && !is_digit(c)) {
      out_.pcre2.push_back('\\');
    }
    out_.pcre2.push_back(c);
  }
  at_ = end == std::string_view::npos ? in_.size() : end + 2;
  return {};
}

Result<std::uint32_t> Translator::four_digits(std::size_t from) {
  std::string_view digits = in_.substr(from, 4);
  std::optional<std::uint32_t> code = parse_number(digits, 16);
  if (digits.size() != 4 || !code) {
    return refuse("\\u without four hexadecimal digits");
  }
  return *code;
}

Result<> Translator::take_unicode() {
  OUTRIDER_TRY(std::uint32_t code, four_digits(at_ + 2));
  std::size_t size = 6;
  if (code >= 0xD800 && code <= 0xDBFF && peek(6) == '\\' && peek(7) == 'u') {
    OUTRIDER_TRY(std::uint32_t low, four_digits(at_ + 8));
    if (low >= 0xDC00 && low <= 0xDFFF) {
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      size = 12;
    }
  }
  if (code >= 0xD800 && code <= 0xDFFF) {
    return refuse("half of a surrogate pair");
  }
  OUTRIDER_TRY(put_code(code));
  at_ += size;
  return {};
}

Result<> Translator::take_hexadecimal() {
  std::string_view digits = in_.substr(at_ + 2, 2);
  std::size_t size = 4;
  if (peek(2) == '{') {
    std::size_t end = in_.find('}', at_ + 3);
    digits = in_.substr(at_ + 3, end == std::string_view::npos ? end : end - at_ - 3);
    size = digits.size() + 4;
  }
  std::optional<std::uint32_t> code = parse_number(digits, 16);
  bool complete = peek(2) == '{' ? at_ + size <= in_.size() : digits.size() == 2;
  if (!code || !complete || *code > 0x10FFFF || (*code >= 0xD800 && *code <= 0xDFFF)) {
    return refuse("\\x that names no character");
  }
  OUTRIDER_TRY(put_code(*code));
  at_ += size;
  return {};
}

Result<> Translator::take_octal() {
  std::size_t size = 0;
  std::uint32_t code = 0;
  while (size < 3 && peek(2 + size) >= '0' && peek(2 + size) <= '7') {
    std::uint32_t next = code * 8 + static_cast<std::uint32_t>(peek(2 + size) - '0');
    if (next > 0xFF) {
      break;
    }
    code = next;
    ++size;
  }
  if (size == 0) {
    return refuse("\\0 without octal digits");
  }
  OUTRIDER_TRY(put_code(code));
  at_ += 2 + size;
  return {};
}

Result<> Translator::take_control() {
  if (!has(2) || !is_ascii(peek(2))) {
    return refuse("\\c without a character");
  }
  OUTRIDER_TRY(put_code(static_cast<std::uint32_t>(peek(2)) ^ 64U));
  at_ += 3;
  return {};
}

// Java takes digits only as long as a group of that number has been opened before.
Result<> Translator::take_back_reference() {
  if (in_class_) {
    return refuse("a back-reference within a character class");
  }
  std::uint32_t group = static_cast<std::uint32_t>(peek(1) - '0');
  std::size_t size = 2;
  while (is_digit(peek(size))) {
    std::uint32_t longer = group * 10 + static_cast<std::uint32_t>(peek(size) - '0');
    if (longer > out_.groups) {
      break;
    }
    group = longer;
    ++size;
  }
  if (group > out_.groups) {
    return refuse("a reference to a group that does not come before it");
  }
  out_.pcre2.append("\\g{" + std::to_string(group) + "}");
  at_ += size;
  return {};
}

Result<> Translator::take_property() {
  bool negated = peek(1) == 'P';
  std::string_view name = in_.substr(at_ + 2, 1);
  std::size_t size = 3;
  if (peek(2) == '{') {
    std::size_t end = in_.find('}', at_ + 3);
    if (end == std::string_view::npos) {
      return refuse("a property without \"}\"");
    }
    name = in_.substr(at_ + 3, end - at_ - 3);
    size = end + 1 - at_;
  }
  OUTRIDER_TRY(put_property(name, negated));
  at_ += size;
  return {};
}

Result<> Translator::put_property(std::string_view name, bool negated) {
  if (caseless_ && is_cased_property(name)) {
    return refuse("(?i) before a property of case");
  }
  std::string property = pcre2_property(name, negated, in_class_);
  if (property.empty()) {
    return refuse("the property \"" + std::string(name) + "\"");
  }
  out_.pcre2.append(property);
  return {};
}

}  // namespace

Result<JavaPattern> translate_java_pattern(std::string_view pattern) {
  return Translator(pattern).run();
}

}  // namespace outrider
