#include "outrider/relay/relay.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "outrider/base/check.h"

namespace outrider {
namespace {

constexpr std::chrono::minutes kSinkLossWindow{1};

bool may_follow(Phase from, Phase to) {
  switch (from) {
    case Phase::starting:
      return to == Phase::streaming || to == Phase::backing_off || to == Phase::draining ||
             to == Phase::stopped;
    case Phase::streaming:
      return to == Phase::paused || to == Phase::backing_off || to == Phase::draining ||
             to == Phase::stopped;
    case Phase::paused:
      return to == Phase::streaming || to == Phase::backing_off || to == Phase::draining ||
             to == Phase::stopped;
    case Phase::backing_off:
      return to == Phase::starting || to == Phase::draining || to == Phase::stopped;
    case Phase::draining:
      return to == Phase::finishing || to == Phase::stopped;
    case Phase::finishing:
      return to == Phase::stopped;
    case Phase::stopped:
      return false;
  }
  return false;
}

}  // namespace

const char* to_string(Phase phase) {
  switch (phase) {
    case Phase::starting:
      return "starting";
    case Phase::streaming:
      return "streaming";
    case Phase::paused:
      return "paused";
    case Phase::backing_off:
      return "backing_off";
    case Phase::draining:
      return "draining";
    case Phase::finishing:
      return "finishing";
    case Phase::stopped:
      return "stopped";
  }
  return "unknown";
}

Relay::Relay(const RelayOptions& options, ChangeSource& source, EventSink& sink,
             RecordMapper& mapper, RelayObserver& observer)
    : options_(options),
      source_(source),
      sink_(sink),
      mapper_(mapper),
      observer_(observer),
      gate_(options.in_flight_records_max, options.in_flight_bytes_max),
      backoff_(options.reconnect_first, options.reconnect_max, options.random_seed),
      status_interval_(options.status_interval) {}

void Relay::turn(Now now) {
  if (phase_ == Phase::stopped) {
    return;
  }
  if (!opened_) {
    opened_ = true;
    source_.open(std::nullopt, now);
  }
  drive_sink(now);
  serve_reports(now);
  drive_source(now);
  pull_changes(now);
  advance_stop(now);
  send_status_if_due(now);
  update_reading();
}

void Relay::request_stop(Now now) {
  if (!stop_deadline_ && phase_ != Phase::stopped) {
    stop_deadline_ = now.mono + options_.shutdown_timeout;
    advance_stop(now);
  }
}

void Relay::enter(Phase phase) {
  if (phase == phase_) {
    return;
  }
  OUTRIDER_CHECK(may_follow(phase_, phase), "phases follow the edges of the state picture");
  Phase from = std::exchange(phase_, phase);
  if (phase == Phase::paused) {
    ++counters_.pauses;
  }
  observer_.on_phase(from, phase);
}

void Relay::stop_with(Error error, Now now) {
  if (!stop_error_) {
    observer_.on_stop_reason(error);
    stop_error_ = std::move(error);
  }
  if (!stop_deadline_) {
    stop_deadline_ = now.mono + options_.shutdown_timeout;
  }
  held_ = false;
}

// ---- losing one side -------------------------------------------------------------------------

void Relay::lose_source(Error error, Now now) {
  held_ = false;
  link_up_ = false;
  tracker_.link_lost();
  source_.close();
  if (error.kind != ErrorKind::transient) {
    // When the slot is gone, what is in flight may be the only copy left: wait for its acks. After
    // a configuration error the server still has it all.
    const bool may_be_only_copy = error.kind == ErrorKind::fatal && phase_ != Phase::finishing;
    stop_with(std::move(error), now);
    enter(may_be_only_copy ? Phase::draining : Phase::stopped);
    return;
  }
  ++counters_.source_losses;
  auto delay = backoff_.next();
  retry_at_ = now.mono + delay;
  observer_.on_source_lost(error, delay);
  if (phase_ == Phase::finishing) {
    // Whether the server has the last status is unknown; a restart may repeat what it lacks.
    enter(Phase::stopped);
  } else if (phase_ != Phase::draining) {
    enter(Phase::backing_off);
  }
}

void Relay::lose_sink(Error error, Now now) {
  if (stop_error_) {
    drain_ = false;  // A consequence of what already ends the relay; no more acks will come.
    return;
  }
  if (error.kind != ErrorKind::transient) {
    drain_ = false;
    stop_with(std::move(error), now);
    return;
  }
  ++counters_.sink_restarts;
  sink_losses_.push_back(now.mono);
  while (now.mono - sink_losses_.front() > kSinkLossWindow) {
    sink_losses_.pop_front();
  }
  if (sink_losses_.size() > options_.sink_losses_max) {
    error.kind = ErrorKind::fatal;
    error.message = "the producer was lost " + std::to_string(sink_losses_.size()) +
                    " times within a minute, last: " + error.message;
    drain_ = false;
    stop_with(std::move(error), now);
    return;
  }
  held_ = false;
  sink_.restart(now);
  tracker_.rewind();
  observer_.on_sink_restart(error, tracker_.flushed_lsn());
  if (stopping()) {
    drain_ = false;  // What was in flight cannot be acknowledged any more; a restart repeats it.
    return;
  }
  link_up_ = false;
  source_.close();
  retry_at_ = now.mono + options_.reconnect_first;
  enter(Phase::backing_off);
}

// ---- the parts of a turn ---------------------------------------------------------------------

void Relay::drive_sink(Now now) {
  if (auto driven = sink_.drive(now); !driven) {
    drain_ = false;
    stop_with(std::move(driven).error(), now);
  }
}

void Relay::serve_reports(Now now) {
  SinkReport report;
  for (std::uint32_t served = 0; served < kTurnReportsMax && sink_.next_report(report); ++served) {
    if (const auto* delivered = std::get_if<Delivered>(&report)) {
      tracker_.acknowledge(delivered->sequence);
      ++counters_.acknowledged;
      continue;
    }
    settle(now);  // What is acknowledged counts, whatever becomes of the rest.
    if (auto* refused = std::get_if<Refused>(&report)) {
      if (refused->error.kind == ErrorKind::transient) {
        lose_sink(std::move(refused->error), now);
        return;
      }
      ++counters_.refused;
      if (stop_error_) {
        return;  // A neighbour in the batch of the one that was told.
      }
      OutboxEvent event;
      event.event_id = refused->event_id;
      observer_.on_row_refused(event, tracker_.commit_lsn_of(refused->sequence), refused->error);
      drain_ = false;  // Everything behind a refused record is purged by the gapless guarantee.
      stop_with(std::move(refused->error), now);
      return;
    }
    lose_sink(std::move(std::get<SinkLost>(report).error), now);
    return;
  }
  settle(now);
}

void Relay::settle(Now now) {
  while (auto finished = tracker_.pop_finished()) {
    observer_.on_transaction_acked(finished->commit_time, finished->records, now);
  }
  if (tracker_.idle() && source_.state() == SourceState::streaming && !source_.has_buffered()) {
    caught_up_at_ = now.wall;
  }
}

void Relay::drive_source(Now now) {
  if (phase_ == Phase::stopped) {
    return;
  }
  const bool wanted =
      phase_ == Phase::backing_off || (phase_ == Phase::draining && drain_ && !stop_error_);
  if (source_.state() == SourceState::closed && wanted && now.mono >= retry_at_) {
    if (phase_ == Phase::backing_off) {
      enter(Phase::starting);
    }
    source_.open(ever_streamed_ ? std::optional(tracker_.flushed_lsn()) : std::nullopt, now);
  }
  if (source_.state() == SourceState::closed) {
    return;
  }
  if (auto driven = source_.drive(now); !driven) {
    lose_source(std::move(driven).error(), now);
  }
}

bool Relay::may_pull() const {
  if (stop_error_ && phase_ != Phase::finishing) {
    return false;  // Nothing behind a refused row may pass it.
  }
  switch (phase_) {
    case Phase::starting:
    case Phase::streaming:
    case Phase::paused:
      return gate_.open();
    case Phase::draining:
      // To the end of the transaction and no further.
      return gate_.open() && (!link_up_ || tracker_.has_partial());
    case Phase::finishing:
      return true;
    case Phase::backing_off:
    case Phase::stopped:
      return false;
  }
  return false;
}

void Relay::pull_changes(Now now) {
  gate_.update(tracker_.span(), tracker_.in_flight_bytes());
  if (held_ && may_pull()) {
    held_ = !handle(change_, now);
  }
  gate_.update(tracker_.span(), tracker_.in_flight_bytes());
  update_reading();
  for (std::uint32_t pulled = 0; pulled < kTurnChangesMax && !held_ && may_pull(); ++pulled) {
    if (!pull_one(now)) {
      break;
    }
    gate_.update(tracker_.span(), tracker_.in_flight_bytes());
  }
  const bool blocked = held_ || !gate_.open();
  if (phase_ == Phase::streaming && blocked) {
    enter(Phase::paused);
  } else if (phase_ == Phase::paused && !blocked) {
    enter(Phase::streaming);
  }
}

bool Relay::pull_one(Now now) {
  if (source_.state() == SourceState::closed) {
    return false;
  }
  auto pulled = source_.next(change_, now);
  if (!pulled) {
    if (pulled.error().kind == ErrorKind::poison) {
      row_.event = OutboxEvent{};
      refuse_row(std::move(pulled).error(), now);
    } else if (source_.state() == SourceState::streaming) {
      stop_with(std::move(pulled).error(), now);
    } else {
      lose_source(std::move(pulled).error(), now);
    }
    return false;
  }
  if (!*pulled) {
    return false;
  }
  held_ = !handle(change_, now);
  return true;
}

void Relay::advance_stop(Now now) {
  if (!stop_deadline_ || phase_ == Phase::stopped) {
    return;
  }
  if (phase_ != Phase::draining && phase_ != Phase::finishing) {
    enter(Phase::draining);
  }
  if (now.mono >= *stop_deadline_) {
    source_.close();
    enter(Phase::stopped);
    return;
  }
  if (phase_ == Phase::draining) {
    finish_or_stop(now);
  }
}

void Relay::finish_or_stop(Now now) {
  const bool unread = tracker_.has_partial() && !stop_error_ && drain_;
  const bool drained = !unread && (!drain_ || tracker_.in_flight_records() == 0);
  if (!link_up_) {
    // Worth waiting for only if there is progress the server was never told of. Whether it kept
    // what it was told last is unknown without a link: not "confirmed".
    const bool told = tracker_.flushed_lsn() <= confirmed_lsn_ || !options_.confirm;
    const bool nothing_in_flight = tracker_.in_flight_records() == 0;
    const bool nothing_open = nothing_in_flight && !tracker_.has_partial();
    if (!drain_ || !ever_streamed_ || (stop_error_ && nothing_in_flight) ||
        (told && nothing_open)) {
      confirmed_all_ = !ever_streamed_ || !options_.confirm;
      source_.close();
      enter(Phase::stopped);
    }
    return;
  }
  if (!drained) {
    return;
  }
  StandbyStatus status{tracker_.received_lsn(), tracker_.flushed_lsn()};
  if (options_.confirm) {
    if (auto sent = source_.send_status(status, now); !sent) {
      lose_source(std::move(sent).error(), now);
      return;
    }
    ++counters_.statuses;
    confirmed_lsn_ = status.flushed_lsn;
  }
  // A row that still waits for the sink belongs to a transaction of which nothing was sent: it
  // comes again after the next start.
  held_ = false;
  source_.finish();
  enter(Phase::finishing);
}

void Relay::send_status_if_due(Now now) {
  const bool open = phase_ == Phase::streaming || phase_ == Phase::paused ||
                    phase_ == Phase::draining || phase_ == Phase::starting;
  if (!open || source_.state() != SourceState::streaming || !link_up_) {
    return;
  }
  const auto since = now.mono - last_status_at_;
  const bool moved = options_.confirm && tracker_.flushed_lsn() > confirmed_lsn_;
  if (!reply_wanted_ && since < status_interval_ &&
      !(moved && since >= options_.confirm_interval)) {
    return;
  }
  StandbyStatus status{tracker_.received_lsn(), tracker_.flushed_lsn()};
  if (!options_.confirm) {
    status = StandbyStatus{start_lsn_, start_lsn_};
  }
  if (auto sent = source_.send_status(status, now); !sent) {
    lose_source(std::move(sent).error(), now);
    return;
  }
  ++counters_.statuses;
  confirmed_lsn_ = status.flushed_lsn;
  last_status_at_ = now.mono;
  reply_wanted_ = false;
}

void Relay::update_reading() {
  if (source_.state() != SourceState::closed) {
    source_.set_reading(may_pull() && !held_);
  }
}

std::optional<MonoTime> Relay::deadline(Now now) const {
  if (phase_ == Phase::stopped) {
    return std::nullopt;
  }
  if (!opened_) {
    return now.mono;
  }
  if (source_.state() != SourceState::closed && may_pull() && !held_ && source_.has_buffered()) {
    return now.mono;
  }
  std::optional<MonoTime> earliest = sink_.deadline();
  auto consider = [&earliest](std::optional<MonoTime> time) {
    if (time && (!earliest || *time < *earliest)) {
      earliest = time;
    }
  };
  consider(stop_deadline_);
  if (source_.state() == SourceState::closed) {
    if (phase_ == Phase::backing_off || phase_ == Phase::draining) {
      consider(retry_at_);
    }
  } else {
    consider(source_.deadline());
  }
  if (source_.state() == SourceState::streaming && link_up_) {
    consider(last_status_at_ + status_interval_);
    if (options_.confirm && tracker_.flushed_lsn() > confirmed_lsn_) {
      consider(last_status_at_ + options_.confirm_interval);
    }
  }
  return earliest;
}

}  // namespace outrider
