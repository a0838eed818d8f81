// SlotHealth: what the server says about our slot and its own WAL, as last asked.
//
// Plain values. Asked over the control connection every few seconds while the relay streams or
// waits as a standby; `seen_at` says how old it is, and nothing here may be shown as current when
// the connection that measured it is lost. Units: bytes and transactions (age()), as in
// pg_replication_slots and pg_stat_replication_slots (PostgreSQL manual, system views). A field
// that the server's version lacks, or that does not apply, has no value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "outrider/base/clock.h"
#include "outrider/base/lsn.h"

namespace outrider {

struct SlotHealth {
  MonoTime seen_at{};  ///< When it was asked: the answer is at least as new.
  WallTime seen_at_wall{};
  bool exists = false;
  bool active = false;
  bool server_in_recovery = false;
  Lsn wal_end;             ///< Where the server writes (or has replayed to, on a standby).
  Lsn confirmed_lsn;       ///< confirmed_flush_lsn.
  Lsn restart_lsn;         ///< WAL before it may be removed; none when it is lost.
  std::string wal_status;  ///< reserved, extended, unreserved, lost.
  std::optional<std::uint64_t> safe_wal_bytes;    ///< safe_wal_size; only with a limit set.
  std::optional<std::uint64_t> catalog_xmin_age;  ///< Transactions.
  std::optional<std::uint64_t> spilled_transactions;
  std::optional<std::uint64_t> spilled_bytes;
  std::optional<std::uint64_t> decoded_transactions;
  std::string invalidation_reason;  ///< 17 and later; 16 only knows "conflicting".

  /// WAL that the server keeps because of this slot.
  std::uint64_t retained_bytes() const {
    return restart_lsn.is_valid() ? bytes_between(restart_lsn, wal_end) : 0;
  }
  /// WAL that is not confirmed yet.
  std::uint64_t backlog_bytes() const {
    return confirmed_lsn.is_valid() ? bytes_between(confirmed_lsn, wal_end) : 0;
  }
};

}  // namespace outrider
