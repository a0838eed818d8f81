// QueryResult: the rows of one SQL statement, copied out of libpq.
//
// Plain data, so that everything that judges rows can be tested without a server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace outrider {

struct QueryResult {
  std::vector<std::string> columns;
  std::vector<std::vector<std::optional<std::string>>> rows;

  /// Index of a column; the statement is ours, so a missing one is our bug (CHECK).
  std::size_t column(std::string_view name) const;
  /// Value by row and column name; nothing for NULL.
  const std::optional<std::string>& value(std::size_t row, std::string_view name) const;
  /// As `value`, with NULL as empty text.
  std::string text(std::size_t row, std::string_view name) const;
  /// Nothing for NULL, or for a text that is not wholly an integer.
  std::optional<std::int64_t> number(std::size_t row, std::string_view name) const;
};

}  // namespace outrider
