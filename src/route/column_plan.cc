#include "route/column_plan.h"

#include <utility>

namespace outrider {

ColumnPlan make_column_plan(const QualifiedName& name, std::span<const Column> columns,
                            const OutboxConfig& outbox, const RouteConfig& route) {
  ColumnPlan plan;
  plan.name = name;
  plan.is_outbox = true;
  plan.table = quote_table_name(name);
  plan.named = find_named_columns(columns, outbox.columns);
  Result<OutboxLayout> layout = find_outbox_layout(columns, outbox, route);
  if (layout) {
    plan.layout = std::move(*layout);
    return plan;
  }
  // The table had its columns when the relay started: this is a migration's doing, and rows
  // written before or after it may be fine.
  plan.fault = Error{
      ErrorKind::poison,
      "table " + plan.table + " as it was when the row was written: " + layout.error().message,
      layout.error().hint,
      {}};
  return plan;
}

}  // namespace outrider
