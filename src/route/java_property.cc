#include "route/java_property.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace outrider {
namespace {

struct NamePair {
  std::string_view java;
  std::string_view pcre2;
};

// Java's POSIX properties are ASCII only, and so are PCRE2's POSIX classes without UCP; the
// properties that PCRE2 has under the same names are Unicode's.
constexpr std::array<NamePair, 13> kPosixClasses{{{"Lower", "lower"},
                                                  {"Upper", "upper"},
                                                  {"ASCII", "ascii"},
                                                  {"Alpha", "alpha"},
                                                  {"Digit", "digit"},
                                                  {"Alnum", "alnum"},
                                                  {"Punct", "punct"},
                                                  {"Graph", "graph"},
                                                  {"Print", "print"},
                                                  {"Blank", "blank"},
                                                  {"Cntrl", "cntrl"},
                                                  {"XDigit", "xdigit"},
                                                  {"Space", "space"}}};

constexpr std::array<NamePair, 10> kBinaryProperties{{{"Alphabetic", "Alphabetic"},
                                                      {"Ideographic", "Ideographic"},
                                                      {"Letter", "L"},
                                                      {"Lowercase", "Lowercase"},
                                                      {"Uppercase", "Uppercase"},
                                                      {"Titlecase", "Lt"},
                                                      {"Punctuation", "P"},
                                                      {"Control", "Cc"},
                                                      {"White_Space", "White_Space"},
                                                      {"Digit", "Nd"}}};

template <std::size_t N>
std::string_view find_name(const std::array<NamePair, N>& table, std::string_view java) {
  for (const NamePair& pair : table) {
    if (pair.java == java) {
      return pair.pcre2;
    }
  }
  return {};
}

bool is_category(std::string_view name) {
  return (name.size() == 1 || (name.size() == 2 && name[1] >= 'a' && name[1] <= 'z')) &&
         name[0] >= 'A' && name[0] <= 'Z';
}

}  // namespace

bool is_cased_property(std::string_view name) {
  constexpr std::array<std::string_view, 9> kCased{
      "Lu", "Ll", "Lt", "Lower", "Upper", "Lowercase", "Uppercase", "Titlecase", "LC"};
  std::string_view bare = name.substr(0, 2) == "Is" ? name.substr(2) : name;
  return std::find(kCased.begin(), kCased.end(), bare) != kCased.end();
}

std::string pcre2_property(std::string_view name, bool negated, bool in_class) {
  if (std::string_view posix = find_name(kPosixClasses, name); !posix.empty()) {
    std::string item = (negated ? "[:^" : "[:") + std::string(posix) + ":]";
    return in_class ? item : "[" + item + "]";
  }
  std::string property;
  std::string_view bare = name.substr(0, 2) == "Is" ? name.substr(2) : name;
  if (bare == "LC") {
    property = "L&";
  } else if (is_category(bare)) {
    property = bare;
  } else if (bare.size() != name.size() && !find_name(kBinaryProperties, bare).empty()) {
    property = find_name(kBinaryProperties, bare);
  } else if (bare.size() != name.size()) {
    property = "sc:" + std::string(bare);
  } else if (name.substr(0, 7) == "script=") {
    property = "sc:" + std::string(name.substr(7));
  } else if (name.substr(0, 3) == "sc=") {
    property = "sc:" + std::string(name.substr(3));
  } else {
    return {};
  }
  return (negated ? "\\P{" : "\\p{") + property + "}";
}

}  // namespace outrider
