// Messages inside the copy-both stream (manual, "Streaming Replication Protocol").
//
// Pure functions from bytes to structs and back: no I/O, no clock, no allocation. All integers are
// big-endian; times are microseconds since 2000-01-01 UTC on the wire. Errors: a message that is
// too short, or of a kind we did not ask for, is `fatal`: the server speaks another protocol.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <variant>

#include "outrider/base/clock.h"
#include "outrider/base/lsn.h"
#include "outrider/base/result.h"

namespace outrider {

inline constexpr std::size_t kXLogDataHeaderBytes = 25;
inline constexpr std::size_t kKeepaliveBytes = 18;
inline constexpr std::size_t kStandbyStatusBytes = 34;

/// One message of the output plugin.
struct XLogData {
  Lsn wal_start;
  Lsn wal_end;
  WallTime sent_at{};
  std::span<char> payload;  ///< A view into the message.
};

struct PrimaryKeepalive {
  Lsn wal_end;
  WallTime sent_at{};
  bool reply_requested = false;
};

using ServerMessage = std::variant<XLogData, PrimaryKeepalive>;

Result<ServerMessage> parse_server_message(std::span<char> message);

/// "Standby status update". Applied is reported as flushed: a relay has nothing between the two.
std::array<char, kStandbyStatusBytes> encode_standby_status(Lsn received_lsn, Lsn flushed_lsn,
                                                            WallTime now, bool reply_requested);

}  // namespace outrider
