#include "postgres/timeline_history.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace outrider {
namespace {

std::string_view take_word(std::string_view& line) {
  const std::size_t from = line.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) {
    line = {};
    return {};
  }
  line.remove_prefix(from);
  const std::size_t size = std::min(line.find_first_of(" \t\r"), line.size());
  const std::string_view word = line.substr(0, size);
  line.remove_prefix(size);
  return word;
}

}  // namespace

std::map<std::uint32_t, Lsn> parse_timeline_history(std::string_view content) {
  std::map<std::uint32_t, Lsn> forks;
  while (!content.empty()) {
    std::string_view line = content.substr(0, content.find('\n'));
    content.remove_prefix(std::min(content.size(), line.size() + 1));
    const std::string_view number = take_word(line);
    const std::string_view position = take_word(line);
    std::uint32_t timeline = 0;
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), timeline);
    const std::optional<Lsn> lsn = Lsn::parse(position);
    if (error == std::errc{} && end == number.data() + number.size() && timeline > 0 && lsn) {
      forks[timeline] = *lsn;
    }
  }
  return forks;
}

}  // namespace outrider
