// Outbox layouts: which column of a table is what, by mapping or recognised by the columns' names.
//
// Pure functions, shared by the mapper (each layout seen in the stream) and by preflight (the table
// as the catalogue has it), so that both judge alike.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "outrider/model/change.h"

namespace outrider {

/// Indexes into the table's columns.
struct OutboxLayout {
  std::size_t id = 0;
  std::size_t aggregate_id = 0;
  std::size_t payload = 0;
  std::optional<std::size_t> event_type;
  std::optional<std::size_t> aggregate_type;
  std::optional<std::size_t> route_by;  ///< Absent with one fixed topic.
  std::vector<std::size_t> headers;     ///< As many as OutboxConfig::headers.
};

/// Errors are `configuration` and name every column that is missing and the columns there are.
Result<OutboxLayout> find_outbox_layout(std::span<const Column> columns, const OutboxConfig& outbox,
                                        const RouteConfig& route);

/// "schema.table" in SQL syntax (quotes, doubled quotes, dots inside quotes) to a name. An
/// unquoted part is folded to lower case as PostgreSQL does; a missing schema means "public".
Result<QualifiedName> parse_table_name(const std::string& text);

/// The reverse: quoted where SQL needs it.
std::string quote_table_name(const QualifiedName& name);
std::string quote_identifier(const std::string& name);

}  // namespace outrider
