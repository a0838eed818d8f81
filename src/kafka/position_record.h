// The records of the position topic: one key a slot, the newest value counts.
//
// Key {"v":1,"database":…,"slot":…}; value {"v":1,"kind":"witness"|"position","system_id":…,
// "timeline":…,"lsn":…,"flushed_lsn":…,"writer":…,"written_at":…}, within a split transaction
// "partial_commit_lsn" and "partial_rows", with a dead letter that was sent again "retried_letter".
// The system is not in the key, so that a record of another system is found and judged. Reading is
// strict; another version is a configuration error. Pure. Format and reasons:
// docs/adr/0013-witness-and-stored-position.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/relay/position.h"

namespace outrider {

constexpr int kPositionVersion = 1;

std::string encode_position_key(const SlotIdentity& identity);
std::string encode_position(const StoredPosition& position, WallTime written_at);

enum class PositionKeyIs : std::uint8_t {
  ours,
  anothers,  ///< Of another slot or database.
  foreign,   ///< Not written by an Outrider.
};

/// A configuration error if another version of Outrider wrote it and it may be ours.
Result<PositionKeyIs> judge_position_key(std::string_view key, const SlotIdentity& identity);

/// `whose`: database and slot, as the key says.
Result<StoredPosition> decode_position(std::string_view value, const SlotIdentity& whose);

}  // namespace outrider
