// What the relay does with each kind of change; the turn and the phases are in relay.cc.
#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "outrider/base/check.h"
#include "outrider/relay/relay.h"

namespace outrider {
namespace {

/// librdkafka's message, header list and queue entry beside the content (measured, ADR 0004).
constexpr std::uint64_t kRecordOverheadBytes = 400;
constexpr int kStatusesPerServerTimeout = 3;
constexpr const char* kProtocolHint =
    "this is a fault of the output plugin or of the relay; report it";

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
    handle_commit(*commit, now);
  } else if (const auto* keepalive = std::get_if<Keepalive>(&change)) {
    tracker_.server_sent_all_before(keepalive->wal_end);
    reply_wanted_ = reply_wanted_ || keepalive->reply_requested;
  } else if (const auto* skipped = std::get_if<Skipped>(&change)) {
    handle_skipped(*skipped);
  } else if (std::holds_alternative<LogicalMessage>(change)) {
    ++counters_.messages;
  } else if (const auto* start = std::get_if<StreamStart>(&change)) {
    take_over_from_another(*start, now);
    if (auto started = tracker_.stream_started(start->confirmed_flush_lsn); !started) {
      lose_source(std::move(started).error(), now);
      return true;
    }
    handle_start(*start);
    last_status_at_ = now.mono;
  } else if (phase_ == Phase::finishing) {
    OUTRIDER_CHECK(std::holds_alternative<StreamEnd>(change), "every kind of change is handled");
    confirmed_all_ = drain_ && tracker_.in_flight_records() == 0 && !tracker_.has_partial();
    source_.close();
    enter(Phase::stopped);
  } else {
    lose_source(Error{ErrorKind::transient, "the server ended the stream", "", ""}, now);
  }
  return true;
}

void Relay::take_over_from_another(const StreamStart& start, Now now) {
  if (!start.after_standby || !ever_streamed_ ||
      start.confirmed_flush_lsn <= tracker_.flushed_lsn()) {
    return;
  }
  // Another relay held the slot meanwhile and relayed what this one had in flight.
  if (tracker_.in_flight_records() > 0) {
    sink_.restart(now);
  }
  tracker_.hand_over(start.confirmed_flush_lsn);
}

void Relay::handle_start(const StreamStart& start) {
  status_interval_ = options_.status_interval;
  if (start.wal_sender_timeout.count() > 0) {
    status_interval_ =
        std::min(status_interval_, start.wal_sender_timeout / kStatusesPerServerTimeout);
  }
  observer_.on_stream_start(start.confirmed_flush_lsn, ever_streamed_);
  if (!ever_streamed_) {
    start_lsn_ = start.confirmed_flush_lsn;
  }
  ever_streamed_ = true;
  link_up_ = true;
  confirmed_lsn_ = start.confirmed_flush_lsn;
  reply_wanted_ = true;
  backoff_.reset();
  if (phase_ == Phase::starting) {
    enter(Phase::streaming);
  }
}

bool Relay::handle_begin(const Begin& begin, Now now) {
  auto known = tracker_.begin(begin.commit_lsn, begin.commit_time);
  if (!known) {
    lose_source(std::move(known).error(), now);
    return true;
  }
  known_ = *known;
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
  if (known_.whole) {
    ++counters_.known_rows;
    return true;
  }
  context_.index_in_transaction = rows_in_transaction_;
  auto mapped = mapper_.map(insert, context_, row_);
  if (!mapped) {
    refuse_row(std::move(mapped).error(), now);
    return true;
  }
  if (*mapped == MapOutcome::not_outbox) {
    ++counters_.other_tables;
    return true;
  }
  if (rows_in_transaction_ < known_.first_rows) {
    ++rows_in_transaction_;
    ++counters_.known_rows;
    return true;
  }
  auto produced = sink_.produce(row_.record, tracker_.next_sequence(), now);
  if (!produced) {
    refuse_row(std::move(produced).error(), now);
    return true;
  }
  if (*produced == ProduceStatus::busy) {
    return false;
  }
  const std::uint32_t size = in_flight_size(row_.record);
  tracker_.add_record(size);
  ++rows_in_transaction_;
  ++counters_.events;
  counters_.bytes += size - kRecordOverheadBytes;
  return true;
}

void Relay::handle_commit(const Commit& commit, Now now) {
  if (!tracker_.in_transaction()) {
    lose_source(Error{ErrorKind::fatal, "a commit came outside a transaction", kProtocolHint, ""},
                now);
    return;
  }
  if (!known_.whole) {
    ++(rows_in_transaction_ > 0 ? counters_.transactions : counters_.empty_transactions);
  }
  tracker_.commit(commit.commit_end_lsn);
  settle(now);
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

void Relay::refuse_row(Error error, Now now) {
  ++counters_.refused;
  observer_.on_row_refused(row_.event, context_.commit_lsn, error);
  stop_with(std::move(error), now);
}

}  // namespace outrider
