// Reads synchronous_standby_names as the server does (manual, "synchronous_standby_names"):
//   [FIRST | ANY] n ( name, … )   |   n ( name, … )   |   name, …
// A name is an identifier, a number, "quoted" with doubled quotes, or *.
#include <algorithm>
#include <string_view>

#include "postgres/preflight.h"

namespace outrider {

namespace {

struct Token {
  std::string text;
  bool quoted = false;
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_without_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$' || static_cast<unsigned char>(c) >= 0x80;
}

std::string take_quoted(std::string_view text, std::size_t& at) {
  std::string name;
  while (++at < text.size()) {
    if (text[at] == '"') {
      if (at + 1 >= text.size() || text[at + 1] != '"') {
        break;
      }
      ++at;
    }
    name += text[at];
  }
  ++at;
  return name;
}

std::vector<Token> tokens_of(std::string_view text) {
  std::vector<Token> tokens;
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      tokens.push_back({take_quoted(text, at), true});
    } else if (is_name_character(c)) {
      const std::size_t begin = at;
      while (at < text.size() && is_name_character(text[at])) {
        ++at;
      }
      tokens.push_back({std::string(text.substr(begin, at - begin)), false});
    } else {
      ++at;
      if (c == '*' || c == '(' || c == ')' || c == ',') {
        tokens.push_back({std::string(1, c), false});
      }
    }
  }
  return tokens;
}

}  // namespace

bool counts_as_synchronous(const std::string& synchronous_standby_names,
                           const std::string& application_name) {
  const std::vector<Token> tokens = tokens_of(synchronous_standby_names);
  // What stands before an opening parenthesis is the method and the number, not a name.
  auto begin = tokens.begin();
  const auto open = std::find_if(tokens.begin(), tokens.end(), [](const Token& token) {
    return !token.quoted && token.text == "(";
  });
  if (open != tokens.end()) {
    begin = open + 1;
  }
  return std::any_of(begin, tokens.end(), [&](const Token& token) {
    const bool is_punctuation =
        !token.quoted && (token.text == "," || token.text == "(" || token.text == ")");
    return !is_punctuation &&
           (token.text == "*" || equal_without_case(token.text, application_name));
  });
}

}  // namespace outrider
