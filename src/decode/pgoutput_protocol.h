// The constants of pgoutput, protocol version 1 (PostgreSQL manual, "Logical Replication Message
// Formats"). Not the layouts: each stands above its parser in pgoutput_decoder.cc. Numbers on the
// wire are big-endian, strings end with a zero byte, timestamps count microseconds since 2000.
#pragma once

#include <cstdint>

namespace outrider::pgoutput {

/// First byte of a message.
enum MessageType : char {
  kBegin = 'B',
  kCommit = 'C',
  kOrigin = 'O',
  kRelation = 'R',
  kType = 'Y',
  kInsert = 'I',
  kUpdate = 'U',
  kDelete = 'D',
  kTruncate = 'T',
  kLogicalMessage = 'M',
  // Only with the `streaming` option, which is never asked for.
  kStreamStart = 'S',
  kStreamStop = 'E',
  kStreamCommit = 'c',
  kStreamAbort = 'A',
  kStreamPrepare = 'p',
  // Only with the `two_phase` option, which is never asked for.
  kBeginPrepare = 'b',
  kPrepare = 'P',
  kCommitPrepared = 'K',
  kRollbackPrepared = 'r',
};

/// Which tuple of a row follows.
enum TupleMarker : char { kNewTuple = 'N', kKeyTuple = 'K', kOldTuple = 'O' };

/// How one column of a tuple is sent.
enum ColumnKind : char {
  kNullColumn = 'n',
  kUnchangedColumn = 'u',
  kTextColumn = 't',
  kBinaryColumn = 'b',
};

/// Bit of a logical message's flags.
inline constexpr std::uint8_t kTransactionalFlag = 1;

/// Microseconds from 1970-01-01 to 2000-01-01, PostgreSQL's epoch.
inline constexpr std::int64_t kEpochOffsetMicroseconds = 946'684'800'000'000;

}  // namespace outrider::pgoutput
