// JavaPattern: a Java regular expression in PCRE2's syntax, with the same meaning.
//
// Route patterns are written for Debezium, whose engine is java.util.regex. Most constructs are
// alike; this translates those that are spelt differently (\uXXXX, octal, POSIX and Is… properties,
// back-references of several digits) and refuses those that PCRE2 would silently read otherwise
// (class union and intersection, verbs, flags d, u and U, and x but for a leading (?x)). Pure.
// Errors: `configuration`, with the byte position. Limit: kJavaPatternBytesMax. Known difference:
// under (?i) the letters k and s also match U+212A and U+017F, and after (?s) U+000B and U+000C
// end a line for "$", none of which a topic name can contain; \b sees ASCII words only, as Java
// does since version 19.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "outrider/base/result.h"

namespace outrider {

inline constexpr std::size_t kJavaPatternBytesMax = 4096;

struct JavaPattern {
  std::string pcre2;
  std::uint32_t groups = 0;  ///< Capturing groups, without group 0.
  std::map<std::string, std::uint32_t, std::less<>> names;
};

Result<JavaPattern> translate_java_pattern(std::string_view pattern);

}  // namespace outrider
