// The nearest valid word to a mistyped one, by edit distance with swapped neighbours counted once.
//
// Pure; cost is the product of the lengths, and words longer than kSuggestBytesMax are not
// compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace outrider {

inline constexpr std::size_t kSuggestBytesMax = 200;

/// At most `limit`, where looking further would be in vain.
std::size_t edit_distance(std::string_view from, std::string_view to, std::size_t limit = SIZE_MAX);

/// The nearest candidate, or nothing if none is near (more than a third of the letters differ).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace outrider
