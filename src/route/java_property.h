// Java's character properties in PCRE2's words: \p{Lower}, \p{IsLatin}, \p{Lu} and their like.
//
// Java's POSIX properties are ASCII only, so they become PCRE2's POSIX classes; the properties that
// PCRE2 has under the same names are Unicode's. Scripts, categories and the binary properties of
// java.util.regex.Pattern are known; blocks and java… methods are not. Pure.
#pragma once

#include <string>
#include <string_view>

namespace outrider {

/// Empty if there is no such property here. `name` is what stands between the braces.
std::string pcre2_property(std::string_view name, bool negated, bool in_class);

/// Whether (?i) changes what the property matches, which Java and PCRE2 see differently.
bool is_cased_property(std::string_view name);

}  // namespace outrider
