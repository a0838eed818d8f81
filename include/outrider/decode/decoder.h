// Decoder: the bytes of one XLogData message become one Change.
//
// Owns the relation cache of one connection and scratch memory for values; the Change it returns
// holds views into both and into `payload`, valid until the next call. Thread: loop. Errors: any
// malformed message is `poison` with the byte position, never a crash, never an exception; a
// message that we did not ask for is `Skipped`. Pure: no I/O, no clock.
#pragma once

#include <memory>
#include <span>

#include "outrider/base/result.h"
#include "outrider/model/change.h"

namespace outrider {

class Decoder {
 public:
  virtual ~Decoder() = default;

  /// Decode one message. `wal_start` is XLogData's dataStart; `payload` may be changed in place.
  virtual Result<Change> decode(Lsn wal_start, std::span<char> payload) = 0;

  /// A new connection begins: forget the relations. Layout ids go on counting.
  virtual void reset() = 0;
};

/// pgoutput, protocol version 1 without streaming (manual, "Logical Streaming Replication
/// Protocol" and "Logical Replication Message Formats").
std::unique_ptr<Decoder> make_pgoutput_decoder();

/// wal2json 2.x, format-version 2 with include-lsn, include-timestamp, include-type-oids, and
/// without include-types.
std::unique_ptr<Decoder> make_wal2json_decoder();

}  // namespace outrider
