// RecordMapper: one inserted row becomes one Kafka record, or is no outbox row, or is poison.
//
// Owns the outbox tables' column plans (one per layout, found by layout id) and scratch memory for
// decoded values; the MappedRow it fills holds views into the row and into that scratch, valid
// until the next call. Only topics last longer: the view of a topic's name stays valid, at the same
// address for the same name, as long as the mapper lives, so a sink may keep its topic handles by
// that address; there are at most RouteConfig::topics_max. Thread: loop. Pure: no I/O, no clock.
// Errors: `poison` for a row that cannot be routed, with a reason an operator understands and never
// any payload text.
#pragma once

#include <cstdint>
#include <memory>

#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "outrider/model/change.h"
#include "outrider/model/kafka_record.h"

namespace outrider {

/// What a row's transaction adds to its record.
struct RowContext {
  std::uint32_t xid = 0;
  Lsn commit_lsn;
  WallTime commit_time{};
  std::uint64_t index_in_transaction = 0;  ///< Of the outbox rows, from 0.
};

enum class MapOutcome : std::uint8_t {
  event,       ///< `row` is filled.
  not_outbox,  ///< The row belongs to a table that is not ours.
};

class RecordMapper {
 public:
  virtual ~RecordMapper() = default;

  virtual Result<MapOutcome> map(const Insert& insert, const RowContext& context,
                                 MappedRow& row) = 0;
};

/// Errors are `configuration`: a bad table name, pattern, replacement, topic or header.
Result<std::unique_ptr<RecordMapper>> make_record_mapper(const OutboxConfig& outbox,
                                                         const RouteConfig& route);

}  // namespace outrider
