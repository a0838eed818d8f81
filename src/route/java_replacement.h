// JavaReplacement: the replacement string of java.util.regex.Matcher, taken apart once.
//
// "$1" takes further digits only while a group of that number exists, "${name}" is a named group,
// a backslash makes the next character literal (Java SE API, Matcher.appendReplacement). Pure.
// Errors: `configuration`, for everything that Java would only find out at the first row.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "outrider/base/result.h"
#include "route/java_pattern.h"

namespace outrider {

class JavaReplacement {
 public:
  struct Piece {
    bool is_group = false;
    std::uint32_t group = 0;
    std::string literal;
  };

  static Result<JavaReplacement> create(std::string_view text, const JavaPattern& pattern);

  const std::vector<Piece>& pieces() const { return pieces_; }

  /// All literal text in one: what every replaced value contains.
  std::string literal_text() const;

 private:
  void add_literal(char c);
  void add_group(std::uint32_t group);

  std::vector<Piece> pieces_;
};

}  // namespace outrider
