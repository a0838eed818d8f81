#include "postgres/query_result.h"

#include <algorithm>

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

}  // namespace outrider
