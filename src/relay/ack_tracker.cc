#include "outrider/relay/ack_tracker.h"

#include <algorithm>
#include <utility>

#include "outrider/base/check.h"

namespace outrider {
namespace {

constexpr const char* kHistoryHint =
    "the server has lost or changed its history (restored, or failed over to a standby that lacked "
    "it); compare the records of that transaction with the table";

}  // namespace

Result<> AckTracker::stream_started(Lsn flushed) {
  OUTRIDER_CHECK(!in_transaction_, "a stream starts between transactions");
  if (!started_) {
    started_ = true;
    set_flushed(flushed);
    return {};
  }
  if (flushed > flushed_lsn_) {
    return fail(ErrorKind::fatal,
                "the slot's confirmed position is " + flushed.to_string() +
                    ", ahead of this relay's own " + flushed_lsn_.to_string(),
                "somebody else advanced the slot; rows between the two positions may be missing in "
                "Kafka; check them, then restart the relay");
  }
  return {};
}

std::uint64_t AckTracker::apply_stored(const ResumePoint& point) {
  OUTRIDER_CHECK(started_ && !in_transaction_, "a position is applied between transactions");
  resume_ = point;
  std::uint64_t settled = 0;
  for (Transaction& transaction : ring_) {
    std::uint64_t in = 0;
    if (transaction.committed && transaction.commit_lsn < point.lsn) {
      in = transaction.records;
    } else if (transaction.commit_lsn == point.partial_commit_lsn) {
      in = std::min(transaction.records, point.partial_rows);
    }
    for (std::uint64_t i = 0; i < in; ++i) {
      const std::uint64_t sequence = transaction.first_sequence + i;
      if (!is_settled(sequence) && row(sequence).state != State::at_dead_letters) {
        settle(transaction, row(sequence));
        ++settled;
      }
    }
  }
  drop_settled_rows();
  if (ring_.empty() && point.lsn > flushed_lsn_) {
    set_flushed(point.lsn);
  }
  return settled;
}

Result<bool> AckTracker::begin(Lsn commit_lsn, WallTime commit_time) {
  OUTRIDER_CHECK(started_, "a transaction begins inside a started stream");
  if (in_transaction_) {
    return fail(ErrorKind::fatal,
                "transaction " + commit_lsn.to_string() + " begins inside transaction " +
                    open_commit_lsn_.to_string(),
                "this is a fault of the output plugin or of the relay; report it");
  }
  open_is_settled_ = commit_lsn < flushed_lsn_;
  open_entry_ = open_is_settled_ ? kNone : find(commit_lsn);
  open_is_empty_ = false;
  if (!open_is_settled_ && open_entry_ == kNone && !ring_.empty()) {
    const Transaction& newest = ring_.back();
    open_is_empty_ = commit_lsn < std::max(newest.commit_lsn, newest.commit_end_lsn);
    if (!open_is_empty_ && !newest.committed) {
      return fail(ErrorKind::fatal,
                  "transaction " + newest.commit_lsn.to_string() +
                      " was partly relayed and is not sent again",
                  kHistoryHint);
    }
  }
  in_transaction_ = true;
  open_index_ = 0;
  open_commit_lsn_ = commit_lsn;
  open_commit_time_ = commit_time;
  return open_is_settled_;
}

Result<AckTracker::Row> AckTracker::next_row() const {
  OUTRIDER_CHECK(in_transaction_ && !open_is_settled_, "rows belong to an open transaction");
  Row next{next_sequence_, {open_commit_lsn_, open_index_}, true};
  const bool known = open_entry_ != kNone && open_index_ < ring_[open_entry_].records;
  if (known) {
    next.sequence = ring_[open_entry_].first_sequence + open_index_;
    next.wanted =
        !is_settled(next.sequence) && rows_[next.sequence - first_sequence_].state == State::lost;
  } else if (open_is_empty_ || (open_entry_ != kNone && ring_[open_entry_].committed)) {
    return fail(ErrorKind::fatal,
                "transaction " + open_commit_lsn_.to_string() +
                    " was sent again with more outbox rows than before",
                kHistoryHint);
  } else {
    next.wanted =
        open_commit_lsn_ != resume_.partial_commit_lsn || open_index_ >= resume_.partial_rows;
  }
  return next;
}

void AckTracker::take_row(std::uint32_t bytes, Place place, const HandOver& with) {
  const bool known = open_entry_ != kNone && open_index_ < ring_[open_entry_].records;
  if (!known) {
    if (open_entry_ == kNone) {
      ring_.push_back(Transaction{open_commit_lsn_, Lsn{}, open_commit_time_, next_sequence_, 0, 0,
                                  false, MonoTime{}});
      open_entry_ = ring_.size() - 1;
    }
    OUTRIDER_CHECK(open_entry_ == ring_.size() - 1, "new rows belong to the newest transaction");
    ++ring_.back().records;
    ++ring_.back().open_records;
    rows_.push_back(RowState{});
    ++next_sequence_;
  }
  Transaction& transaction = ring_[open_entry_];
  if (transaction.since == MonoTime{}) {
    transaction.since = with.at;
  }
  RowState& taken = row(transaction.first_sequence + open_index_);
  if (known) {
    OUTRIDER_CHECK(taken.state == State::lost, "a row is handed over again only when it was lost");
    --lost_records_;
  }
  taken.bytes = bytes;
  taken.topic = with.topic;
  taken.how = with.how;
  taken.partition = with.partition;
  taken.state = place == Place::sink ? State::at_sink : State::at_dead_letters;
  ++in_flight_[static_cast<std::size_t>(place)];
  in_flight_bytes_ += bytes;
  ++open_index_;
}

void AckTracker::pass_row() {
  const bool known = open_entry_ != kNone && open_index_ < ring_[open_entry_].records;
  if (!known) {
    // In before this process knew of it: takes its place, settled from the start.
    take_row(0, Place::sink);
    settle(ring_.back(), rows_.back());
    drop_settled_rows();
    return;
  }
  ++open_index_;
}

Result<> AckTracker::commit(Lsn commit_end_lsn) {
  OUTRIDER_CHECK(in_transaction_, "a commit ends an open transaction");
  received_lsn_ = std::max(received_lsn_, commit_end_lsn);
  in_transaction_ = false;
  const std::size_t entry = std::exchange(open_entry_, kNone);
  replaying_ = replaying_ && !ring_.empty() && open_commit_lsn_ < ring_.back().commit_lsn;
  if (open_is_settled_ || open_is_empty_) {
    return {};
  }
  if (entry == kNone) {
    if (ring_.empty()) {
      set_flushed(std::max(flushed_lsn_, commit_end_lsn));
    } else {
      ring_.back().commit_end_lsn = std::max(ring_.back().commit_end_lsn, commit_end_lsn);
    }
    return {};
  }
  Transaction& transaction = ring_[entry];
  if (open_index_ < transaction.records) {
    return fail(ErrorKind::fatal,
                "transaction " + open_commit_lsn_.to_string() +
                    " was sent again with fewer outbox rows than before",
                kHistoryHint);
  }
  if (!transaction.committed) {
    transaction.committed = true;
    transaction.commit_end_lsn = commit_end_lsn;
  }
  return {};
}

void AckTracker::accepted(std::uint64_t sequence) {
  OUTRIDER_CHECK(under_way(sequence, Place::sink), "what is accepted is under way");
  in_flight_bytes_ -= std::exchange(row(sequence).bytes, 0);
}

void AckTracker::acknowledge(std::uint64_t sequence) {
  OUTRIDER_CHECK(sequence >= first_sequence_ && sequence < next_sequence_,
                 "an ack names a row in flight");
  RowState& acknowledged = row(sequence);
  OUTRIDER_CHECK(
      acknowledged.state == State::at_sink || acknowledged.state == State::at_dead_letters,
      "a row is acknowledged once");
  settle(ring_[index_of(sequence)], acknowledged);
  drop_settled_rows();
}

/// The row is not under way any more.
void AckTracker::leave(RowState& row) {
  if (row.state == State::lost) {
    --lost_records_;
  } else {
    --in_flight_[row.state == State::at_sink ? 0 : 1];
    in_flight_bytes_ -= row.bytes;
  }
}

void AckTracker::settle(Transaction& transaction, RowState& row) {
  OUTRIDER_CHECK(transaction.open_records > 0, "an ack closes an open row");
  leave(row);
  row.state = State::settled;
  --transaction.open_records;
}

void AckTracker::drop_settled_rows() {
  while (!rows_.empty() && rows_.front().state == State::settled) {
    rows_.pop_front();
    ++first_sequence_;
  }
}

bool AckTracker::under_way(std::uint64_t sequence, Place place) const {
  return sequence >= first_sequence_ && sequence < next_sequence_ &&
         rows_[sequence - first_sequence_].state ==
             (place == Place::sink ? State::at_sink : State::at_dead_letters);
}

bool AckTracker::is_settled(std::uint64_t sequence) const {
  return sequence < first_sequence_ || rows_[sequence - first_sequence_].state == State::settled;
}

std::optional<AckTracker::Finished> AckTracker::pop_finished() {
  if (ring_.empty() || !ring_.front().committed || ring_.front().open_records != 0 ||
      open_entry_ == 0) {
    return std::nullopt;
  }
  Transaction transaction = ring_.front();
  ring_.pop_front();
  if (open_entry_ != kNone) {
    --open_entry_;
  }
  set_flushed(transaction.commit_end_lsn);
  return Finished{transaction.commit_time, transaction.records, transaction.since};
}

void AckTracker::server_sent_all_before(Lsn wal_end) {
  received_lsn_ = std::max(received_lsn_, wal_end);
  if (in_transaction_ || has_partial() || lost_records_ > 0) {
    return;
  }
  if (!ring_.empty()) {
    ring_.back().commit_end_lsn = std::max(ring_.back().commit_end_lsn, wal_end);
  } else if (wal_end > flushed_lsn_) {
    set_flushed(wal_end);
  }
}

void AckTracker::link_lost() {
  replaying_ = !ring_.empty();
  in_transaction_ = false;
  open_is_settled_ = false;
  open_is_empty_ = false;
  open_entry_ = kNone;
}

void AckTracker::producer_lost() {
  for (RowState& row : rows_) {
    if (row.state == State::at_sink) {
      leave(row);
      row.state = State::lost;
      ++lost_records_;
    }
  }
  if (lost_records_ > 0) {
    link_lost();
  }
}

void AckTracker::hand_over(Lsn flushed) {
  link_lost();
  ring_.clear();
  rows_.clear();
  first_sequence_ = next_sequence_;
  in_flight_[0] = in_flight_[1] = 0;
  in_flight_bytes_ = 0;
  lost_records_ = 0;
  resume_ = ResumePoint{};
  set_flushed(flushed);
}

std::optional<WallTime> AckTracker::oldest_commit_time() const {
  if (!ring_.empty()) {
    return ring_.front().commit_time;
  }
  return in_transaction_ && !open_is_settled_ ? std::optional(open_commit_time_) : std::nullopt;
}

std::optional<AckTracker::Front> AckTracker::front() const {
  if (rows_.empty()) {
    return std::nullopt;
  }
  const RowState& row = rows_.front();  // What is settled at the front was dropped.
  const Place place = row.state == State::at_dead_letters ? Place::dead_letters : Place::sink;
  return Front{place_of(first_sequence_),
               ring_[index_of(first_sequence_)].commit_time,
               row.topic,
               place,
               row.how,
               row.partition};
}

RowPlace AckTracker::place_of(std::uint64_t sequence) const {
  const Transaction& transaction = ring_[index_of(sequence)];
  return RowPlace{transaction.commit_lsn, sequence - transaction.first_sequence};
}

void AckTracker::set_flushed(Lsn lsn) {
  OUTRIDER_CHECK(lsn >= flushed_lsn_, "the flushed position never goes back");
  flushed_lsn_ = lsn;
  received_lsn_ = std::max(received_lsn_, lsn);
}

std::size_t AckTracker::index_of(std::uint64_t sequence) const {
  OUTRIDER_CHECK(!ring_.empty() && sequence >= ring_.front().first_sequence,
                 "a row in flight has a transaction");
  auto after = std::upper_bound(ring_.begin(), ring_.end(), sequence,
                                [](std::uint64_t value, const Transaction& transaction) {
                                  return value < transaction.first_sequence;
                                });
  return static_cast<std::size_t>(after - ring_.begin()) - 1;
}

std::size_t AckTracker::find(Lsn commit_lsn) const {
  auto at = std::lower_bound(
      ring_.begin(), ring_.end(), commit_lsn,
      [](const Transaction& transaction, Lsn lsn) { return transaction.commit_lsn < lsn; });
  if (at == ring_.end() || at->commit_lsn != commit_lsn) {
    return kNone;
  }
  return static_cast<std::size_t>(at - ring_.begin());
}

}  // namespace outrider
