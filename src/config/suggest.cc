#include "config/suggest.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr std::size_t kPrefixBytesMin = 5;

std::size_t least(const std::vector<std::size_t>& row) {
  return *std::min_element(row.begin(), row.end());
}

}  // namespace

std::size_t edit_distance(std::string_view from, std::string_view to, std::size_t limit) {
  const std::size_t longer = std::max(from.size(), to.size());
  if (longer - std::min(from.size(), to.size()) >= limit) {
    return limit;
  }
  std::vector<std::size_t> before(to.size() + 1);
  std::vector<std::size_t> last(to.size() + 1);
  std::vector<std::size_t> row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) {
    last[j] = j;
  }
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      std::size_t swap_cost = from[i - 1] == to[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + swap_cost});
      if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
    // The next row comes from these two, and no step makes it less.
    if (std::min(least(before), least(last)) >= limit) {
      return limit;
    }
  }
  return std::min(last[to.size()], limit);
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  if (word.size() > kSuggestBytesMax) {
    return best;
  }
  for (const std::string& candidate : candidates) {
    std::size_t distance = edit_distance(word, candidate, best_distance);
    if (word.size() >= kPrefixBytesMin && candidate.size() > word.size() + 1) {
      // A name that was cut short: compare with the beginning of the candidate.
      std::string_view begin = std::string_view(candidate).substr(0, word.size() + 1);
      distance = std::min(distance, edit_distance(word, begin, best_distance) + 1);
    }
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace outrider
