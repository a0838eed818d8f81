// OutboxEvent and KafkaRecord: one outbox row, as the log names it and as Kafka gets it.
//
// Plain views into the change and the mapper's scratch memory; valid until the next row is mapped.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace outrider {

/// What a log line or a dead letter says about a row. Empty views where the row has no such value.
struct OutboxEvent {
  std::string_view table;  ///< "schema.table" of the outbox table (the root, if partitioned).
  std::string_view event_id;
  std::string_view event_type;
  std::string_view aggregate_id;
};

struct RecordHeader {
  std::string_view name;
  std::optional<std::string_view> value;  ///< Nothing is a null header, "" a zero-length one.
};

struct KafkaRecord {
  std::string_view topic;
  std::optional<std::string_view> key;    ///< Nothing is a null key.
  std::optional<std::string_view> value;  ///< Nothing is a tombstone.
  std::vector<RecordHeader> headers;      ///< In the order they are sent.
  std::int64_t timestamp_ms = 0;
  std::optional<std::int32_t> partition;  ///< Set only where a column names it.
};

struct MappedRow {
  OutboxEvent event;
  KafkaRecord record;
};

}  // namespace outrider
