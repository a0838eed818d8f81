#include "outrider/relay/ack_tracker.h"

#include <algorithm>
#include <limits>

#include "outrider/base/check.h"

namespace outrider {
namespace {

constexpr std::uint32_t kAcknowledged = std::numeric_limits<std::uint32_t>::max();

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

Result<AckTracker::Known> AckTracker::begin(Lsn commit_lsn, WallTime commit_time) {
  OUTRIDER_CHECK(started_, "a transaction begins inside a started stream");
  if (in_transaction_) {
    return fail(ErrorKind::fatal,
                "transaction " + commit_lsn.to_string() + " begins inside transaction " +
                    open_commit_lsn_.to_string(),
                "this is a fault of the output plugin or of the relay; report it");
  }
  Known known;
  const bool partial = has_partial();
  if (commit_lsn < flushed_lsn_ || (commit_lsn <= known_commit_lsn_ && !partial)) {
    known.whole = true;
  } else if (partial && commit_lsn == ring_.back().commit_lsn) {
    known.first_rows = ring_.back().records;
  } else if (partial && commit_lsn > ring_.back().commit_lsn) {
    return fail(ErrorKind::fatal,
                "transaction " + ring_.back().commit_lsn.to_string() +
                    " was partly relayed and is not sent again",
                "the server has lost or changed its history (restored, or failed over to a standby "
                "that lacked it); compare the records of that transaction with the table");
  } else if (partial) {
    known.whole = true;
  }
  in_transaction_ = true;
  open_is_known_ = known.whole;
  open_is_in_ring_ = !known.whole && partial;
  open_commit_lsn_ = commit_lsn;
  open_commit_time_ = commit_time;
  return known;
}

std::uint64_t AckTracker::add_record(std::uint32_t bytes) {
  OUTRIDER_CHECK(in_transaction_ && !open_is_known_, "records belong to an open transaction");
  if (!open_is_in_ring_) {
    ring_.push_back(
        Transaction{open_commit_lsn_, Lsn{}, open_commit_time_, next_sequence_, 0, 0, false});
    open_is_in_ring_ = true;
    known_commit_lsn_ = open_commit_lsn_;
  }
  Transaction& transaction = ring_.back();
  ++transaction.records;
  ++transaction.open_records;
  ++in_flight_records_;
  bytes = std::min(bytes, kAcknowledged - 1);
  in_flight_bytes_ += bytes;
  sizes_.push_back(bytes);
  return next_sequence_++;
}

void AckTracker::commit(Lsn commit_end_lsn) {
  OUTRIDER_CHECK(in_transaction_, "a commit ends an open transaction");
  received_lsn_ = std::max(received_lsn_, commit_end_lsn);
  in_transaction_ = false;
  if (open_is_known_) {
    return;
  }
  known_commit_lsn_ = std::max(known_commit_lsn_, open_commit_lsn_);
  if (open_is_in_ring_) {
    ring_.back().committed = true;
    ring_.back().commit_end_lsn = commit_end_lsn;
  } else if (ring_.empty()) {
    set_flushed(commit_end_lsn);
  } else {
    ring_.back().commit_end_lsn = std::max(ring_.back().commit_end_lsn, commit_end_lsn);
  }
}

void AckTracker::acknowledge(std::uint64_t sequence) {
  OUTRIDER_CHECK(sequence >= first_sequence_ && sequence < next_sequence_,
                 "an ack names a record in flight");
  std::uint32_t& size = sizes_[sequence - first_sequence_];
  OUTRIDER_CHECK(size != kAcknowledged, "a record is acknowledged once");
  in_flight_bytes_ -= size;
  --in_flight_records_;
  size = kAcknowledged;
  Transaction& transaction = ring_[index_of(sequence)];
  OUTRIDER_CHECK(transaction.open_records > 0, "an ack closes an open record");
  --transaction.open_records;
  while (!sizes_.empty() && sizes_.front() == kAcknowledged) {
    sizes_.pop_front();
    ++first_sequence_;
  }
}

std::optional<AckTracker::Finished> AckTracker::pop_finished() {
  if (ring_.empty() || !ring_.front().committed || ring_.front().open_records != 0) {
    return std::nullopt;
  }
  Transaction transaction = ring_.front();
  ring_.pop_front();
  set_flushed(transaction.commit_end_lsn);
  return Finished{transaction.commit_time, transaction.records};
}

void AckTracker::server_sent_all_before(Lsn wal_end) {
  received_lsn_ = std::max(received_lsn_, wal_end);
  if (in_transaction_ || has_partial()) {
    return;
  }
  if (!ring_.empty()) {
    ring_.back().commit_end_lsn = std::max(ring_.back().commit_end_lsn, wal_end);
  } else if (wal_end > flushed_lsn_) {
    set_flushed(wal_end);
  }
}

void AckTracker::link_lost() {
  in_transaction_ = false;
  open_is_known_ = false;
  open_is_in_ring_ = false;
}

void AckTracker::rewind() {
  link_lost();
  ring_.clear();
  sizes_.clear();
  first_sequence_ = next_sequence_;
  in_flight_records_ = 0;
  in_flight_bytes_ = 0;
  known_commit_lsn_ = Lsn{};
}

void AckTracker::hand_over(Lsn flushed) {
  rewind();
  set_flushed(flushed);
}

std::optional<WallTime> AckTracker::oldest_commit_time() const {
  if (ring_.empty()) {
    return std::nullopt;
  }
  return ring_.front().commit_time;
}

Lsn AckTracker::commit_lsn_of(std::uint64_t sequence) const {
  return ring_[index_of(sequence)].commit_lsn;
}

void AckTracker::set_flushed(Lsn lsn) {
  OUTRIDER_CHECK(lsn >= flushed_lsn_, "the flushed position never goes back");
  flushed_lsn_ = lsn;
  received_lsn_ = std::max(received_lsn_, lsn);
}

std::size_t AckTracker::index_of(std::uint64_t sequence) const {
  OUTRIDER_CHECK(!ring_.empty() && sequence >= ring_.front().first_sequence,
                 "a record in flight has a transaction");
  auto after = std::upper_bound(ring_.begin(), ring_.end(), sequence,
                                [](std::uint64_t value, const Transaction& transaction) {
                                  return value < transaction.first_sequence;
                                });
  return static_cast<std::size_t>(after - ring_.begin()) - 1;
}

}  // namespace outrider
