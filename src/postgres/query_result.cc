#include "postgres/query_result.h"

#include <algorithm>
#include <charconv>

#include "outrider/base/check.h"

namespace outrider {

std::size_t QueryResult::column(std::string_view name) const {
  auto found = std::find(columns.begin(), columns.end(), name);
  OUTRIDER_CHECK(found != columns.end(), "the statement is ours and names this column");
  return static_cast<std::size_t>(found - columns.begin());
}

const std::optional<std::string>& QueryResult::value(std::size_t row, std::string_view name) const {
  OUTRIDER_CHECK(row < rows.size(), "the caller has counted the rows");
  return rows[row][column(name)];
}

std::string QueryResult::text(std::size_t row, std::string_view name) const {
  return value(row, name).value_or(std::string());
}

std::optional<std::int64_t> QueryResult::number(std::size_t row, std::string_view name) const {
  const std::string digits = text(row, name);
  std::int64_t parsed = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole ? std::optional(parsed) : std::nullopt;
}

}  // namespace outrider
