// Positions outside PostgreSQL: what the relay writes down in Kafka about its slot, and what is
// judged from it.
//
// At least once: a *witness*, the highest position that may have been confirmed, durable before the
// slot is confirmed past it. Exactly once: the *stored position*, written in the same Kafka
// transaction as the records before it, which is the witness as well. Plain data.
// Rules: docs/adr/0013-witness-and-stored-position.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "outrider/base/lsn.h"

namespace outrider {

/// Names the slot whose positions are meant; positions of different identities do not compare.
struct SlotIdentity {
  std::string system_id;
  std::string database;
  std::string slot;
  std::uint32_t timeline = 0;  ///< Of the server now; a promotion raises it.

  bool operator==(const SlotIdentity&) const = default;
};

/// From where a stream goes on: everything committed before `lsn` is in, and the first
/// `partial_rows` outbox rows of the transaction whose commit record starts at `partial_commit_lsn`
/// (at or after `lsn`; only when a transaction had to be split).
struct ResumePoint {
  Lsn lsn;
  Lsn partial_commit_lsn;
  std::uint64_t partial_rows = 0;
  /// The dead letter that was sent again in the same Kafka transaction; 0: none.
  std::int64_t retried_letter = 0;

  bool operator==(const ResumePoint&) const = default;
};

struct StoredPosition {
  SlotIdentity identity;
  ResumePoint point;  ///< Of a witness: `lsn` is the reserved one, which may be ahead of the WAL.
  Lsn flushed;        ///< What the relay had flushed when it wrote this: surely in Kafka.
  bool exactly_once = false;  ///< Written with the records; else a witness.
  std::string writer;         ///< The process that wrote it, by a random name.
};

}  // namespace outrider
