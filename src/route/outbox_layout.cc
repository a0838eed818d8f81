#include "outrider/route/outbox_layout.h"

#include <array>
#include <string_view>

#include "route/column_plan.h"

namespace outrider {
namespace {

// The names that are recognised, the first that the table has wins.
constexpr std::array<std::string_view, 1> kIdNames = {"id"};
constexpr std::array<std::string_view, 3> kEventTypeNames = {"event_type", "type", "eventtype"};
constexpr std::array<std::string_view, 2> kAggregateTypeNames = {"aggregate_type", "aggregatetype"};
constexpr std::array<std::string_view, 2> kAggregateIdNames = {"aggregate_id", "aggregateid"};
constexpr std::array<std::string_view, 1> kPayloadNames = {"payload"};

std::optional<std::size_t> find_column(std::span<const Column> columns, std::string_view name) {
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == name) {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<std::size_t> find_role(std::span<const Column> columns, const std::string& mapped,
                                     std::span<const std::string_view> names) {
  if (!mapped.empty()) {
    return find_column(columns, mapped);
  }
  for (std::string_view name : names) {
    if (std::optional<std::size_t> found = find_column(columns, name)) {
      return found;
    }
  }
  return std::nullopt;
}

std::string joined(std::span<const Column> columns) {
  std::string list;
  for (const Column& column : columns) {
    list += (list.empty() ? "\"" : ", \"") + column.name + "\"";
  }
  return list.empty() ? "none" : list;
}

/// Collects what is missing, so that one start names it all.
class Missing {
 public:
  void add_column(const std::string& option, const std::string& column) {
    add("no column \"" + column + "\" (" + option + ")");
  }

  void add_role(const std::string& option, const std::string& mapped,
                std::span<const std::string_view> names) {
    if (!mapped.empty()) {
      return add_column(option, mapped);
    }
    std::string tried;
    for (std::string_view name : names) {
      tried += (tried.empty() ? "\"" : " or \"") + std::string(name) + "\"";
    }
    add("no column " + tried + " (" + option + ")");
  }

  const std::string& text() const { return text_; }

 private:
  void add(const std::string& what) { text_ += (text_.empty() ? "" : "; ") + what; }

  std::string text_;
};

std::optional<std::size_t> find_route_column(std::span<const Column> columns,
                                             const NamedColumns& named, const std::string& by) {
  if (by == "event_type") {
    return named.event_type;
  }
  if (by == "aggregate_type") {
    return named.aggregate_type;
  }
  return find_column(columns, by);
}

}  // namespace

NamedColumns find_named_columns(std::span<const Column> columns, const ColumnMapping& mapping) {
  return NamedColumns{find_role(columns, mapping.id, kIdNames),
                      find_role(columns, mapping.event_type, kEventTypeNames),
                      find_role(columns, mapping.aggregate_type, kAggregateTypeNames),
                      find_role(columns, mapping.aggregate_id, kAggregateIdNames),
                      find_role(columns, mapping.payload, kPayloadNames)};
}

Result<OutboxLayout> find_outbox_layout(std::span<const Column> columns, const OutboxConfig& outbox,
                                        const RouteConfig& route) {
  const ColumnMapping& mapping = outbox.columns;
  NamedColumns named = find_named_columns(columns, mapping);
  Missing missing;
  if (!named.id) {
    missing.add_role("outbox.columns.id", mapping.id, kIdNames);
  }
  if (!named.aggregate_id) {
    missing.add_role("outbox.columns.aggregate_id", mapping.aggregate_id, kAggregateIdNames);
  }
  if (!named.payload) {
    missing.add_role("outbox.columns.payload", mapping.payload, kPayloadNames);
  }
  // These two may be absent, unless somebody asked for them.
  bool routed = route.topic.empty();
  if (!named.event_type && (!mapping.event_type.empty() || (routed && route.by == "event_type"))) {
    missing.add_role("outbox.columns.event_type", mapping.event_type, kEventTypeNames);
  }
  if (!named.aggregate_type &&
      (!mapping.aggregate_type.empty() || (routed && route.by == "aggregate_type"))) {
    missing.add_role("outbox.columns.aggregate_type", mapping.aggregate_type, kAggregateTypeNames);
  }
  OutboxLayout layout;
  if (routed) {
    layout.route_by = find_route_column(columns, named, route.by);
    if (!layout.route_by && route.by != "event_type" && route.by != "aggregate_type") {
      missing.add_column("route.by", route.by);
    }
  }
  for (const HeaderColumn& header : outbox.headers) {
    std::optional<std::size_t> found = find_column(columns, header.column);
    if (!found) {
      missing.add_column("outbox.headers", header.column);
    }
    layout.headers.push_back(found.value_or(0));
  }
  if (!missing.text().empty()) {
    return fail(ErrorKind::configuration, missing.text() + "; the columns are " + joined(columns),
                "give these options the names of columns that the table has, or add the columns");
  }
  layout.id = *named.id;
  layout.aggregate_id = *named.aggregate_id;
  layout.payload = *named.payload;
  layout.event_type = named.event_type;
  layout.aggregate_type = named.aggregate_type;
  return layout;
}

}  // namespace outrider
