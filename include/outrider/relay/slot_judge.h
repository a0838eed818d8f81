// The judge of the slot: does what the server says about it agree with what is written in Kafka?
//
// Pure functions over plain facts. Every disagreement is a distinct fatal error with the bounds of
// what may be missing and what to do; nothing here moves a position.
// Rules: docs/adr/0013-witness-and-stored-position.md, docs/DELIVERY.md.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "outrider/model/change.h"
#include "outrider/relay/position.h"

namespace outrider {

struct SlotPolicy {
  bool witness = true;  ///< Positions are kept in Kafka at all.
  OnSlotLost on_slot_lost = OnSlotLost::stop;
  bool create = true;  ///< A slot that never was may be made (source.create_slot).
};

/// What to tell people about a slot that may be used.
struct SlotVerdict {
  bool adopted = false;  ///< Nothing was stored: this is the first time.
  std::vector<std::string> warnings;
};

/// The slot is missing; may a new one be made? `wal_end`: the server's.
Result<SlotVerdict> judge_missing_slot(const SlotIdentity& identity, Lsn wal_end,
                                       const std::optional<StoredPosition>& stored,
                                       const SlotPolicy& policy);

/// The stream runs from this slot; may rows be relayed?
Result<SlotVerdict> judge_slot(const SlotIdentity& identity, const StreamStart& start,
                               const std::optional<StoredPosition>& stored,
                               const SlotPolicy& policy);

}  // namespace outrider
