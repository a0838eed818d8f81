#include "route/java_replacement.h"

#include <cstddef>
#include <utility>

namespace outrider {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
}

tl::unexpected<Error> refuse(const std::string& reason) {
  return fail(ErrorKind::configuration, "route.replacement: " + reason,
              "use ${name} or $1 for a group of route.pattern, and \\$ for a plain dollar sign");
}

/// A reference to a group, `text` beginning after the dollar sign.
struct Reference {
  std::uint32_t group = 0;
  std::size_t size = 0;
};

Result<Reference> parse_name(std::string_view text, const JavaPattern& pattern) {
  std::size_t end = 1;
  while (end < text.size() && is_name_character(text[end])) {
    ++end;
  }
  std::string_view name = text.substr(1, end - 1);
  if (name.empty() || end >= text.size() || text[end] != '}') {
    return refuse("\"${\" without a name of letters and digits and \"}\"");
  }
  auto found = pattern.names.find(name);
  if (found == pattern.names.end()) {
    return refuse("no group named \"" + std::string(name) + "\" in route.pattern");
  }
  return Reference{found->second, end + 1};
}

Result<Reference> parse_reference(std::string_view text, const JavaPattern& pattern) {
  if (text.empty()) {
    return refuse("\"$\" at the end refers to no group");
  }
  if (text[0] == '{') {
    return parse_name(text, pattern);
  }
  if (!is_digit(text[0])) {
    return refuse("\"$\" that is followed by neither a digit nor \"{\"");
  }
  std::uint32_t group = static_cast<std::uint32_t>(text[0] - '0');
  std::size_t size = 1;
  while (size < text.size() && is_digit(text[size])) {
    std::uint32_t longer = group * 10 + static_cast<std::uint32_t>(text[size] - '0');
    if (longer > pattern.groups) {
      break;
    }
    group = longer;
    ++size;
  }
  if (group > pattern.groups) {
    return refuse("no group " + std::to_string(group) + " in route.pattern");
  }
  return Reference{group, size};
}

}  // namespace

Result<JavaReplacement> JavaReplacement::create(std::string_view text, const JavaPattern& pattern) {
  JavaReplacement replacement;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] == '\\') {
      if (at + 1 == text.size()) {
        return refuse("a backslash at the end escapes nothing");
      }
      replacement.add_literal(text[at + 1]);
      at += 2;
    } else if (text[at] == '$') {
      OUTRIDER_TRY(Reference reference, parse_reference(text.substr(at + 1), pattern));
      replacement.add_group(reference.group);
      at += 1 + reference.size;
    } else {
      replacement.add_literal(text[at]);
      ++at;
    }
  }
  return replacement;
}

std::string JavaReplacement::literal_text() const {
  std::string text;
  for (const Piece& piece : pieces_) {
    text += piece.literal;
  }
  return text;
}

void JavaReplacement::add_literal(char c) {
  if (pieces_.empty() || pieces_.back().is_group) {
    pieces_.emplace_back();
  }
  pieces_.back().literal.push_back(c);
}

void JavaReplacement::add_group(std::uint32_t group) { pieces_.push_back(Piece{true, group, {}}); }

}  // namespace outrider
