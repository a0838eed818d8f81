// AckTracker: which positions may be confirmed. The only writer of the flushed position.
//
// Owns a ring of transactions whose records are not all acknowledged, in commit order. The flushed
// position moves to the commit end of the front transaction once that is committed and has nothing
// open, and never otherwise. A transaction without records merges into the one before it, so
// foreign transactions during an outage do not grow the ring. After a lost database link the
// tracker keeps what it knows and says, for each transaction the server sends again, how much of it
// is known. Thread: loop. Limits: the caller's flow gate bounds `span()`. Errors: only begin() can
// fail, by what the server sends; everything else that must hold is a CHECK. Pure: no I/O, no
// clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "outrider/base/clock.h"
#include "outrider/base/lsn.h"
#include "outrider/base/result.h"

namespace outrider {

class AckTracker {
 public:
  /// The stream runs from `flushed`. The first call sets the flushed position. A later one (the
  /// link was lost and is back) may only name a position that is not ahead of what is flushed or
  /// known: a server ahead of us confirmed something that we did not (`fatal`).
  Result<> stream_started(Lsn flushed);

  /// How much of a transaction that begins has been seen before.
  struct Known {
    bool whole = false;            ///< Leave out all of it, up to and including its commit.
    std::uint64_t first_rows = 0;  ///< Leave out this many of its outbox rows, then go on.
  };

  /// A transaction begins. `fatal` when transactions run backwards, or when one that was partly
  /// relayed is not sent again.
  Result<Known> begin(Lsn commit_lsn, WallTime commit_time);

  /// One record of the open transaction is handed to the sink; gives back its sequence. Sequences
  /// count from 1 and are never used twice.
  std::uint64_t add_record(std::uint32_t bytes);

  /// The sequence the next add_record() will give.
  std::uint64_t next_sequence() const { return next_sequence_; }

  void commit(Lsn commit_end_lsn);

  /// One record is durable. CHECK: the sequence is in flight.
  void acknowledge(std::uint64_t sequence);

  struct Finished {
    WallTime commit_time{};
    std::uint64_t records = 0;
  };
  /// Move the flushed position over the front transaction if it is finished; call until nothing.
  std::optional<Finished> pop_finished();

  /// The server has sent everything before `wal_end`. With nothing in flight that is flushed at
  /// once; else it becomes the end of the newest transaction in flight; within a transaction it
  /// means nothing. Kept rather than dropped, since an idle server may not say it again for long.
  void server_sent_all_before(Lsn wal_end);

  /// The database link is lost: what is in the ring stays, an open transaction stays as partial.
  void link_lost();

  /// The producer is replaced: forget everything in flight; the stream restarts at flushed_lsn().
  void rewind();

  /// Another relay held the slot and confirmed up to `flushed`: forget everything in flight and go
  /// on from there.
  void hand_over(Lsn flushed);

  Lsn flushed_lsn() const { return flushed_lsn_; }
  Lsn received_lsn() const { return received_lsn_; }
  bool in_transaction() const { return in_transaction_; }
  /// Some records of a transaction are handed over, its commit is not seen yet.
  bool has_partial() const { return !ring_.empty() && !ring_.back().committed; }
  /// Nothing in flight and no transaction begun.
  bool idle() const { return ring_.empty() && !in_transaction_; }
  /// Records from the oldest unacknowledged one to the newest: what the flow gate bounds.
  std::uint64_t span() const { return sizes_.size(); }
  std::uint64_t in_flight_records() const { return in_flight_records_; }
  std::uint64_t in_flight_bytes() const { return in_flight_bytes_; }
  std::size_t open_transactions() const { return ring_.size(); }
  std::optional<WallTime> oldest_commit_time() const;
  /// The transaction that a sequence in flight belongs to.
  Lsn commit_lsn_of(std::uint64_t sequence) const;

 private:
  struct Transaction {
    Lsn commit_lsn;
    Lsn commit_end_lsn;
    WallTime commit_time{};
    std::uint64_t first_sequence = 0;
    std::uint64_t records = 0;
    std::uint64_t open_records = 0;
    bool committed = false;
  };

  void set_flushed(Lsn lsn);
  std::size_t index_of(std::uint64_t sequence) const;

  std::deque<Transaction> ring_;
  /// Bytes of each record from first_sequence_ on; kAcknowledged once it is.
  std::deque<std::uint32_t> sizes_;
  std::uint64_t first_sequence_ = 1;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t in_flight_records_ = 0;
  std::uint64_t in_flight_bytes_ = 0;

  bool started_ = false;
  Lsn flushed_lsn_;
  Lsn received_lsn_;
  /// Highest commit record of which every outbox row or the first ones have been handed to the sink
  /// since the last rewind. Never a flushed position: the next commit record may begin right there.
  Lsn known_commit_lsn_;

  bool in_transaction_ = false;
  bool open_is_known_ = false;    ///< Replaying a transaction that is wholly known.
  bool open_is_in_ring_ = false;  ///< The open transaction has an entry (the last one).
  Lsn open_commit_lsn_;
  WallTime open_commit_time_{};
};

}  // namespace outrider
