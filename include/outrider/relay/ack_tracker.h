// AckTracker: which positions may be confirmed. The only writer of the flushed position.
//
// Owns a ring of transactions whose rows are not all settled, in commit order. Each outbox row of a
// transaction takes one sequence, by its index; a row is settled when its record is acknowledged or
// its dead letter is durable. The flushed position moves to the commit end of the front transaction
// once that is committed and settled, and never otherwise. A transaction without rows merges into
// the one before it, so foreign transactions during an outage do not grow the ring. After a lost
// link or producer the ring stays and says, row by row, what of a transaction that is sent again is
// still wanted: nothing that was acknowledged goes out twice. Thread: loop. Limits: the caller's
// flow gate bounds `span()`. Errors: a server that sends something else than before (`fatal`);
// everything else that must hold is a CHECK. Pure: no I/O, no clock. See docs/adr/0003.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "outrider/base/clock.h"
#include "outrider/base/lsn.h"
#include "outrider/base/result.h"
#include "outrider/model/dead_letter.h"
#include "outrider/relay/position.h"

namespace outrider {

class AckTracker {
 public:
  enum class Place : std::uint8_t { sink, dead_letters };

  /// The stream runs from `flushed`. The first call sets the flushed position. A later one (the
  /// link was lost and is back) may only name a position that is not ahead of what is flushed: a
  /// server ahead of us confirmed something that we did not (`fatal`).
  Result<> stream_started(Lsn flushed);

  /// What is stored beside the records says that everything before this point is in; returns how
  /// many rows in the ring that settled.
  std::uint64_t apply_stored(const ResumePoint& point);

  /// A transaction begins; true: all of it was settled before, leave out everything up to and
  /// including its commit. `fatal` when transactions run backwards, or when one that was partly
  /// relayed is not sent again.
  Result<bool> begin(Lsn commit_lsn, WallTime commit_time);

  struct Row {
    std::uint64_t sequence = 0;
    RowPlace place;
    bool wanted = true;  ///< Not settled and not under way: hand it over, then take_row().
  };
  /// The next outbox row of the open transaction. `fatal` for a row that was not there before.
  Result<Row> next_row() const;
  /// Kept for whoever wants to know what is under way and since when.
  enum class Partition : std::uint8_t {
    unknown,  ///< The client's own choice.
    by_key,   ///< `partition` is the murmur2 hash of the key.
    given,    ///< `partition` is its number.
  };
  struct HandOver {
    std::uint16_t topic = 0;  ///< The caller's number for it.
    MonoTime at{};            ///< Only that of a transaction's first row is kept.
    Partition how = Partition::unknown;
    std::uint32_t partition = 0;
  };
  /// That row is handed over. Sequences count from 1; one is used again only for the same row.
  void take_row(std::uint32_t bytes, Place place, const HandOver& with);
  void take_row(std::uint32_t bytes, Place place) { take_row(bytes, place, HandOver{}); }
  /// That row is not wanted, go on to the next.
  void pass_row();

  /// `fatal` for a transaction that has become shorter.
  Result<> commit(Lsn commit_end_lsn);

  /// The broker has the record in an open transaction: its bytes are not ours any more.
  void accepted(std::uint64_t sequence);

  /// One row is settled. CHECK: the sequence is under way.
  void acknowledge(std::uint64_t sequence);

  struct Finished {
    WallTime commit_time{};
    std::uint64_t records = 0;
    MonoTime since{};  ///< When its first row was handed over.
  };
  /// Move the flushed position over the front transaction if it is settled; call until nothing.
  std::optional<Finished> pop_finished();

  /// The server has sent everything before `wal_end`. With nothing in flight that is flushed at
  /// once; else it becomes the end of the newest transaction in flight; within a transaction it
  /// means nothing. Kept rather than dropped, since an idle server may not say it again for long.
  void server_sent_all_before(Lsn wal_end);

  /// The database link is lost: what is in the ring stays, an open transaction stays as partial.
  void link_lost();

  /// The producer is replaced: its rows under way are wanted again, once the stream comes again
  /// from flushed_lsn(). Implies link_lost() when that is so.
  void producer_lost();

  /// Another relay held the slot and confirmed up to `flushed`: forget everything in flight and go
  /// on from there.
  void hand_over(Lsn flushed);

  Lsn flushed_lsn() const { return flushed_lsn_; }
  Lsn received_lsn() const { return received_lsn_; }
  bool in_transaction() const { return in_transaction_; }
  /// Some rows of a transaction are handed over, its commit is not seen yet.
  bool has_partial() const { return !ring_.empty() && !ring_.back().committed; }
  /// The stream stands within something that has to be read to its end: a transaction with rows,
  /// or a replay that has not reached the last lost row.
  bool unfinished() const {
    return has_partial() || lost_records_ > 0 || (in_transaction_ && open_entry_ != kNone) ||
           (replaying_ && !ring_.empty());
  }
  /// Nothing was handed over that lies behind the last row of the open transaction.
  bool at_newest() const {
    return open_entry_ != kNone && open_entry_ + 1 == ring_.size() &&
           open_index_ == ring_.back().records;
  }
  /// Nothing in flight and no transaction begun.
  bool idle() const { return ring_.empty() && !in_transaction_; }
  /// Rows from the oldest unsettled one to the newest: what the flow gate bounds.
  std::uint64_t span() const { return rows_.size(); }
  /// Rows handed over and not settled.
  std::uint64_t in_flight_records() const { return in_flight_[0] + in_flight_[1]; }
  std::uint64_t in_flight(Place place) const { return in_flight_[static_cast<std::size_t>(place)]; }
  std::uint64_t in_flight_bytes() const { return in_flight_bytes_; }
  /// Rows that were under way with a lost producer and have not come again.
  std::uint64_t lost_records() const { return lost_records_; }
  std::size_t open_transactions() const { return ring_.size(); }
  /// Of the oldest transaction that is not flushed, the open one included.
  std::optional<WallTime> oldest_commit_time() const;
  struct Front {
    RowPlace row;
    WallTime commit_time{};
    std::uint16_t topic = 0;
    Place place = Place::sink;
    Partition how = Partition::unknown;
    std::uint32_t partition = 0;
  };
  /// The oldest row that is not settled: nothing behind it can be flushed.
  std::optional<Front> front() const;
  /// False for a row that was forgotten by hand_over() meanwhile.
  bool under_way(std::uint64_t sequence, Place place) const;
  /// The row that a sequence under way belongs to.
  RowPlace place_of(std::uint64_t sequence) const;

 private:
  struct Transaction {
    Lsn commit_lsn;
    Lsn commit_end_lsn;
    WallTime commit_time{};
    std::uint64_t first_sequence = 0;
    std::uint64_t records = 0;
    std::uint64_t open_records = 0;  ///< Not settled, lost ones included.
    bool committed = false;
    MonoTime since{};
  };
  enum class State : std::uint8_t { at_sink, at_dead_letters, lost, settled };
  struct RowState {
    std::uint32_t bytes = 0;
    State state = State::settled;
    Partition how = Partition::unknown;
    std::uint16_t topic = 0;
    std::uint32_t partition = 0;
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void set_flushed(Lsn lsn);
  void settle(Transaction& transaction, RowState& row);
  void leave(RowState& row);
  void drop_settled_rows();
  std::size_t index_of(std::uint64_t sequence) const;
  std::size_t find(Lsn commit_lsn) const;
  RowState& row(std::uint64_t sequence) { return rows_[sequence - first_sequence_]; }
  bool is_settled(std::uint64_t sequence) const;

  std::deque<Transaction> ring_;
  std::deque<RowState> rows_;  ///< From first_sequence_ on.
  std::uint64_t first_sequence_ = 1;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t in_flight_[2] = {0, 0};
  std::uint64_t in_flight_bytes_ = 0;
  std::uint64_t lost_records_ = 0;

  bool started_ = false;
  Lsn flushed_lsn_;
  Lsn received_lsn_;
  ResumePoint resume_;  ///< Of a split transaction: its first rows are in.

  bool replaying_ = false;  ///< The link was lost and the stream has not reached the ring's end.
  bool in_transaction_ = false;
  bool open_is_settled_ = false;    ///< Replaying a transaction that lies before flushed_lsn_.
  bool open_is_empty_ = false;      ///< Replaying one that had no rows the first time.
  std::size_t open_entry_ = kNone;  ///< The open transaction's place in the ring.
  std::uint64_t open_index_ = 0;    ///< Of the next row.
  Lsn open_commit_lsn_;
  WallTime open_commit_time_{};
};

}  // namespace outrider
