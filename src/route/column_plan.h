// ColumnPlan: what one layout of one table means to the mapper, worked out once.
//
// For a table that is not ours it only says so. For an outbox table whose columns no longer carry
// what the configuration needs it holds the error that each of its rows gets, and still knows the
// columns by which a log names the row. Pure data; owned by the mapper.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "outrider/model/change.h"
#include "outrider/route/outbox_layout.h"

namespace outrider {

/// The columns by which people know a row, each if there is one.
struct NamedColumns {
  std::optional<std::size_t> id;
  std::optional<std::size_t> event_type;
  std::optional<std::size_t> aggregate_type;
  std::optional<std::size_t> aggregate_id;
  std::optional<std::size_t> payload;
};

/// By mapping or, where a mapping is empty, by the names that are recognised. Never fails.
NamedColumns find_named_columns(std::span<const Column> columns, const ColumnMapping& mapping);

struct ColumnPlan {
  QualifiedName name;  ///< The outbox table, or the table itself where it is not ours.
  bool is_outbox = false;
  std::string table;  ///< `name` in SQL syntax.
  NamedColumns named;
  std::optional<OutboxLayout> layout;
  Error fault;  ///< Why there is no layout.
};

ColumnPlan make_column_plan(const QualifiedName& name, std::span<const Column> columns,
                            const OutboxConfig& outbox, const RouteConfig& route);

}  // namespace outrider
