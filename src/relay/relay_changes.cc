// What the relay does with each kind of change; the turn and the phases are in relay.cc.
#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "outrider/base/check.h"
#include "outrider/relay/relay.h"

namespace outrider {
namespace {

constexpr const char* kProtocolHint =
    "this is a fault of the output plugin or of the relay; report it";

std::uint64_t bytes_of(const Insert& insert) {
  std::uint64_t bytes = 0;
  for (const ColumnValue& value : insert.values) {
    bytes += value.text.size();
  }
  return bytes;
}

}  // namespace

std::uint32_t in_flight_size(const KafkaRecord& record) {
  std::uint64_t size =
      kRecordOverheadBytes + record.key.value_or("").size() + record.value.value_or("").size();
  for (const RecordHeader& header : record.headers) {
    size += header.name.size() + header.value.value_or("").size();
  }
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(size, std::numeric_limits<std::uint32_t>::max()));
}

bool Relay::handle(const Change& change, Now now) {
  if (const auto* insert = std::get_if<Insert>(&change)) {
    return handle_insert(*insert, now);
  }
  if (const auto* begin = std::get_if<Begin>(&change)) {
    return handle_begin(*begin, now);
  }
  if (const auto* commit = std::get_if<Commit>(&change)) {
    return handle_commit(*commit, now);
  }
  if (const auto* keepalive = std::get_if<Keepalive>(&change)) {
    tracker_.server_sent_all_before(keepalive->wal_end);
    reply_wanted_ = reply_wanted_ || keepalive->reply_requested;
  } else if (const auto* skipped = std::get_if<Skipped>(&change)) {
    handle_skipped(*skipped);
  } else if (std::holds_alternative<LogicalMessage>(change)) {
    ++counters_.messages;
  } else if (const auto* start = std::get_if<StreamStart>(&change)) {
    handle_start(*start, now);
  } else if (phase_ == Phase::finishing) {
    OUTRIDER_CHECK(std::holds_alternative<StreamEnd>(change), "every kind of change is handled");
    confirmed_all_ = drain_ && tracker_.in_flight_records() == 0 && !tracker_.unfinished();
    source_.close();
    enter(Phase::stopped);
  } else {
    lose_source(Error{ErrorKind::transient, "the server ended the stream", "", ""}, now);
  }
  return true;
}

bool Relay::handle_begin(const Begin& begin, Now now) {
  auto settled = tracker_.begin(begin.commit_lsn, begin.commit_time);
  if (!settled) {
    lose_source(std::move(settled).error(), now);
    return true;
  }
  settled_before_ = *settled;
  rows_in_transaction_ = 0;
  context_ = RowContext{begin.xid, begin.commit_lsn, begin.commit_time, 0};
  return true;
}

bool Relay::handle_insert(const Insert& insert, Now now) {
  if (!tracker_.in_transaction()) {
    lose_source(Error{ErrorKind::fatal, "a row came outside a transaction", kProtocolHint, ""},
                now);
    return true;
  }
  if (settled_before_) {
    ++counters_.known_rows;
    return true;
  }
  context_.index_in_transaction = rows_in_transaction_;
  row_.event = OutboxEvent{};
  raw_row_.clear();
  row_bytes_ = bytes_of(insert);
  auto mapped = mapper_.map(insert, context_, row_);
  if (mapped && *mapped == MapOutcome::not_outbox) {
    ++counters_.other_tables;
    return true;
  }
  return handle_row(mapped ? nullptr : &insert, mapped ? nullptr : &mapped.error(), now);
}

bool Relay::handle_undecodable(Now now) {
  if (settled_before_) {
    ++counters_.known_rows;
    return true;
  }
  row_.event = OutboxEvent{};
  row_bytes_ = raw_row_.size();
  return handle_row(nullptr, &*undecodable_, now);
}

bool Relay::handle_row(const Insert* unmapped, const Error* fault, Now now) {
  auto row = tracker_.next_row();
  if (!row) {
    lose_source(std::move(row).error(), now);
    return true;
  }
  if (!row->wanted) {
    tracker_.pass_row();
    ++counters_.known_rows;
  } else if (!settle_row(*row, unmapped, fault, now)) {
    return false;
  }
  if (stop_error_) {
    return true;
  }
  if (row->wanted) {
    note_received(*row);
  }
  ++rows_in_transaction_;
  if (tracker_.at_newest() && tracker_.in_flight(AckTracker::Place::dead_letters) == 0) {
    mark(ResumePoint{context_.commit_lsn, context_.commit_lsn, rows_in_transaction_, 0}, false,
         now);
  }
  return true;
}

bool Relay::handle_commit(const Commit& commit, Now now) {
  if (!tracker_.in_transaction()) {
    lose_source(Error{ErrorKind::fatal, "a commit came outside a transaction", kProtocolHint, ""},
                now);
    return true;
  }
  if (sink_.transactional() && tracker_.in_flight(AckTracker::Place::dead_letters) > 0) {
    return false;  // A position that covers a dead letter must not be stored before it is durable.
  }
  if (!settled_before_) {
    ++(rows_in_transaction_ > 0 ? counters_.transactions : counters_.empty_transactions);
  }
  const bool newest = tracker_.at_newest();
  if (auto committed = tracker_.commit(commit.commit_end_lsn); !committed) {
    lose_source(std::move(committed).error(), now);
    return true;
  }
  if (newest) {
    mark(ResumePoint{commit.commit_end_lsn, Lsn{}, 0, 0}, true, now);
  }
  settle(now);
  return true;
}

/// Positions only grow; what comes again after a lost link was marked before.
void Relay::mark(const ResumePoint& point, bool whole, Now now) {
  if (!sink_.transactional() || point.lsn < marked_.lsn ||
      (point.lsn == marked_.lsn && point.partial_rows <= marked_.partial_rows)) {
    return;
  }
  marked_ = point;
  sink_.mark(point, whole, now);
}

void Relay::handle_skipped(const Skipped& skipped) {
  switch (skipped.what) {
    case Skipped::What::update:
      ++counters_.updates;
      break;
    case Skipped::What::remove:
      ++counters_.deletes;
      break;
    case Skipped::What::truncate:
      ++counters_.truncates;
      break;
    case Skipped::What::other:
      break;
  }
}

}  // namespace outrider
