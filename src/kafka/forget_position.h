// forget_position(): remove what the position topic says about one slot, for a planned move.
//
// After pg_upgrade, on another database or another Kafka cluster the stored position is right to
// disagree with the slot; this writes a tombstone for it, so that the next start adopts the slot as
// it is. A command, not part of the relay: blocks up to kForgetTimeoutMs. Not while a relay runs:
// it would write its position again. Errors: configuration or transient, with a hint.
#pragma once

#include "kafka/producer_config.h"
#include "outrider/base/result.h"
#include "outrider/relay/position.h"

namespace outrider {

constexpr int kForgetTimeoutMs = 30'000;

/// Only database and slot of the identity count.
Result<> forget_position(const ProducerSettings& settings, const SlotIdentity& identity);

}  // namespace outrider
