#include "outrider/route/record_mapper.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "outrider/base/check.h"
#include "route/column_plan.h"
#include "route/field_bytes.h"
#include "route/topic_router.h"

namespace outrider {
namespace {

constexpr std::string_view kIdHeader = "id";

/// Layout ids are never used twice, so each reconnect brings new ones; past this all are forgotten.
constexpr std::size_t kPlansMax = 4096;

std::string_view text_or_empty(const Insert& insert, std::optional<std::size_t> column) {
  if (!column || insert.values[*column].state != ColumnValue::State::text) {
    return {};
  }
  return insert.values[*column].text;
}

class OutboxRecordMapper final : public RecordMapper {
 public:
  OutboxRecordMapper(OutboxConfig outbox, RouteConfig route, std::vector<QualifiedName> tables,
                     TopicRouter router)
      : outbox_(std::move(outbox)),
        route_(std::move(route)),
        tables_(std::move(tables)),
        router_(std::move(router)),
        header_scratch_(outbox_.headers.size()) {}

  Result<MapOutcome> map(const Insert& insert, const RowContext& context, MappedRow& row) override;

 private:
  const ColumnPlan& plan_of(const Insert& insert);
  ColumnPlan make_plan(const QualifiedName& name, const Relation& relation) const;

  Result<> fill_record(const ColumnPlan& plan, const Insert& insert, const RowContext& context,
                       KafkaRecord& record);
  Result<> fill_headers(const ColumnPlan& plan, const Insert& insert, KafkaRecord& record);
  Result<std::string_view> topic_of(const ColumnPlan& plan, const Insert& insert);

  OutboxConfig outbox_;
  RouteConfig route_;
  std::vector<QualifiedName> tables_;
  TopicRouter router_;

  std::unordered_map<std::uint64_t, ColumnPlan> plans_;
  std::uint64_t last_layout_id_ = 0;
  const ColumnPlan* last_plan_ = nullptr;

  std::string key_scratch_;
  std::string value_scratch_;
  std::vector<std::string> header_scratch_;
};

ColumnPlan OutboxRecordMapper::make_plan(const QualifiedName& name,
                                         const Relation& relation) const {
  if (std::find(tables_.begin(), tables_.end(), name) == tables_.end()) {
    ColumnPlan plan;
    plan.name = name;
    return plan;
  }
  return make_column_plan(name, relation.columns, outbox_, route_);
}

// A plan is for a layout and a name: a leaf keeps its layout when it becomes the partition of an
// outbox table, and only the name says whose row it is.
const ColumnPlan& OutboxRecordMapper::plan_of(const Insert& insert) {
  const Relation& relation = *insert.relation;
  const QualifiedName& name = insert.root != nullptr ? *insert.root : relation.name;
  if (last_plan_ != nullptr && last_layout_id_ == relation.layout_id && last_plan_->name == name) {
    return *last_plan_;
  }
  auto found = plans_.find(relation.layout_id);
  if (found == plans_.end()) {
    if (plans_.size() >= kPlansMax) {
      plans_.clear();
    }
    found = plans_.emplace(relation.layout_id, make_plan(name, relation)).first;
  } else if (found->second.name != name) {
    found->second = make_plan(name, relation);
  }
  last_layout_id_ = relation.layout_id;
  last_plan_ = &found->second;
  return *last_plan_;
}

Result<MapOutcome> OutboxRecordMapper::map(const Insert& insert, const RowContext& context,
                                           MappedRow& row) {
  OUTRIDER_CHECK(insert.relation != nullptr, "a decoder gives each insert its relation");
  const ColumnPlan& plan = plan_of(insert);
  if (!plan.is_outbox) {
    return MapOutcome::not_outbox;
  }
  row.event = OutboxEvent{};
  row.event.table = plan.table;
  if (insert.values.size() != insert.relation->columns.size()) {
    return fail(ErrorKind::poison,
                "row of table " + plan.table + " has " + std::to_string(insert.values.size()) +
                    " values for " + std::to_string(insert.relation->columns.size()) + " columns",
                "publish all columns of the outbox table");
  }
  row.event.event_id = text_or_empty(insert, plan.named.id);
  row.event.event_type = text_or_empty(insert, plan.named.event_type);
  row.event.aggregate_id = text_or_empty(insert, plan.named.aggregate_id);
  if (!plan.layout) {
    return fail(plan.fault);
  }
  OUTRIDER_TRY(fill_record(plan, insert, context, row.record));
  return MapOutcome::event;
}

Result<> OutboxRecordMapper::fill_record(const ColumnPlan& plan, const Insert& insert,
                                         const RowContext& context, KafkaRecord& record) {
  auto field = [&](std::size_t column) {
    return Field{insert.relation->columns[column], insert.values[column], plan.table};
  };
  OUTRIDER_TRY(record.topic, topic_of(plan, insert));
  OUTRIDER_TRY(record.key, field_bytes(field(plan.layout->aggregate_id), key_scratch_));
  OUTRIDER_TRY(record.value, field_bytes(field(plan.layout->payload), value_scratch_));
  OUTRIDER_TRY(fill_headers(plan, insert, record));
  record.timestamp_ms =
      std::chrono::floor<std::chrono::milliseconds>(context.commit_time).time_since_epoch().count();
  record.partition.reset();
  return {};
}

Result<> OutboxRecordMapper::fill_headers(const ColumnPlan& plan, const Insert& insert,
                                          KafkaRecord& record) {
  auto field = [&](std::size_t column) {
    return Field{insert.relation->columns[column], insert.values[column], plan.table};
  };
  record.headers.clear();
  OUTRIDER_TRY(std::optional<std::string_view> id, field_text(field(plan.layout->id)));
  if (!id) {
    return refuse_field(field(plan.layout->id), "is NULL, and consumers know an event by it",
                        "declare the column NOT NULL");
  }
  record.headers.push_back(RecordHeader{kIdHeader, id});
  for (std::size_t i = 0; i < outbox_.headers.size(); ++i) {
    OUTRIDER_TRY(std::optional<std::string_view> value,
                 field_header(field(plan.layout->headers[i]), header_scratch_[i]));
    record.headers.push_back(RecordHeader{outbox_.headers[i].header, value});
  }
  return {};
}

Result<std::string_view> OutboxRecordMapper::topic_of(const ColumnPlan& plan,
                                                      const Insert& insert) {
  if (std::optional<std::string_view> fixed = router_.fixed_topic()) {
    return *fixed;
  }
  OUTRIDER_CHECK(plan.layout->route_by.has_value(), "a layout without fixed topic has a route");
  std::size_t column = *plan.layout->route_by;
  Field field{insert.relation->columns[column], insert.values[column], plan.table};
  OUTRIDER_TRY(std::optional<std::string_view> value, field_text(field));
  if (!value) {
    return refuse_field(field, "is NULL, and the topic is made from it",
                        "declare the column NOT NULL, or set route.topic to one fixed topic");
  }
  Result<std::string_view> topic = router_.route(*value);
  if (!topic) {
    Error error = std::move(topic).error();
    error.message = "column \"" + field.column.name + "\" of table " + plan.table +
                    " gives no topic: " + error.message;
    return fail(std::move(error));
  }
  return topic;
}

Result<std::vector<QualifiedName>> parse_tables(const OutboxConfig& outbox) {
  std::vector<QualifiedName> tables;
  for (const std::string& text : outbox.tables) {
    OUTRIDER_TRY(QualifiedName name, parse_table_name(text));
    if (std::find(tables.begin(), tables.end(), name) != tables.end()) {
      return fail(ErrorKind::configuration,
                  "outbox.tables names " + quote_table_name(name) + " twice",
                  "name each outbox table once");
    }
    tables.push_back(std::move(name));
  }
  if (tables.empty()) {
    return fail(ErrorKind::configuration, "outbox.tables is empty",
                "name at least one outbox table");
  }
  return tables;
}

Result<> check_headers(OutboxConfig& outbox) {
  for (HeaderColumn& header : outbox.headers) {
    if (header.column.empty()) {
      return fail(ErrorKind::configuration, "outbox.headers has an entry without a column",
                  "name the column that the header is made from");
    }
    if (header.header.empty()) {
      header.header = header.column;
    }
    // Consumers take the last header of a name: a second one would break their deduplication.
    if (header.header == kIdHeader) {
      return fail(ErrorKind::configuration,
                  "outbox.headers uses the name \"id\", which carries the event's id",
                  "give the header of column \"" + header.column + "\" another name");
    }
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<RecordMapper>> make_record_mapper(const OutboxConfig& outbox,
                                                         const RouteConfig& route) {
  OutboxConfig checked = outbox;
  OUTRIDER_TRY(check_headers(checked));
  OUTRIDER_TRY(std::vector<QualifiedName> tables, parse_tables(checked));
  OUTRIDER_TRY(TopicRouter router, TopicRouter::create(route));
  return std::unique_ptr<RecordMapper>(std::make_unique<OutboxRecordMapper>(
      std::move(checked), route, std::move(tables), std::move(router)));
}

}  // namespace outrider
