#include "outrider/relay/relay.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "outrider/base/check.h"

namespace outrider {
namespace {

constexpr std::chrono::milliseconds kTopicFirst{1'000};
constexpr std::chrono::milliseconds kTopicMax{30'000};

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
             RecordMapper& mapper, RelayObserver& observer, DeadLetterPlace* place)
    : options_(options),
      source_(source),
      sink_(sink),
      mapper_(mapper),
      observer_(observer),
      place_(place),
      gate_(options.in_flight_records_max, options.in_flight_bytes_max),
      breaker_(options.dead_letters.burst, options.dead_letters.per_minute),
      topic_backoff_(kTopicFirst, kTopicMax, options.random_seed),
      retry_(mapper, options.dead_letters),
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
  notice_freeze(now);
  drive_sink(now);
  serve_reports(now);
  serve_place(now);
  drive_source(now);
  advance_session(now);
  serve_retry(now);
  pull_changes(now);
  advance_stop(now);
  send_status_if_due(now);
  update_reading();
  next_due_ = deadline(now);
  if (next_due_) {
    next_due_ = std::max(*next_due_, now.mono);
  }
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
      if (!sink_.transactional()) {
        accepted(delivered->sequence);
      }
      if ((delivered->sequence & DeadLetterRetry::kSequenceBit) != 0) {
        observer_.on_retried(retry_.number(), retry_.event_id(), nullptr);
        retry_.delivered(*place_, now);
      } else {
        tracker_.acknowledge(delivered->sequence);
        const bool letter = std::erase(letters_at_sink_, delivered->sequence) > 0;
        ++(letter ? counters_.letters_acknowledged : counters_.acknowledged);
      }
      continue;
    }
    if (const auto* taken = std::get_if<Accepted>(&report)) {
      accepted(taken->sequence);
      if ((taken->sequence & DeadLetterRetry::kSequenceBit) == 0) {
        tracker_.accepted(taken->sequence);
      }
      continue;
    }
    settle(now);  // What is acknowledged counts, whatever becomes of the rest.
    if (auto* refused = std::get_if<Refused>(&report)) {
      take_refused(std::move(*refused), now);
    } else {
      lose_sink(std::move(std::get<SinkLost>(report).error), now);
    }
    if (phase_ == Phase::backing_off || stop_error_) {
      return;
    }
  }
  settle(now);
}

void Relay::settle(Now now) {
  MonoTime since{};
  std::uint64_t transactions = 0;
  while (auto finished = tracker_.pop_finished()) {
    since = transactions++ == 0 ? finished->since : since;
    observer_.on_transaction_acked(finished->commit_time, finished->records, now);
    refusals_.forget_before(tracker_.flushed_lsn());
  }
  if (since != MonoTime{}) {
    observer_.on_group_acked(since, transactions, now);
  }
  if (tracker_.flushed_lsn() > confirmed_lsn_ && session_ready()) {
    sink_.reserve(tracker_.flushed_lsn(), now);
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
  } else if (source_.state() == SourceState::asking) {
    ask_for_creation(now);
  }
}

bool Relay::may_pull() const {
  if (stop_error_ && phase_ != Phase::finishing) {
    return false;  // Nothing behind a refused row may pass it.
  }
  switch (phase_) {
    case Phase::starting:
      return !link_up_;  // Up to StreamStart; then the session is opened first.
    case Phase::streaming:
    case Phase::paused:
      return session_ready() && gate_.open() && !rows_wait_for_operator() && !retry_has_turn_;
    case Phase::draining:
      // To the end of the transaction and no further.
      return drain_ && gate_.open() && (!link_up_ || (session_ready() && tracker_.unfinished()));
    case Phase::finishing:
      return true;
    case Phase::backing_off:
    case Phase::stopped:
      return false;
  }
  return false;
}

void Relay::pull_changes(Now now) {
  update_gate();
  if (held_ && may_pull() && now.mono >= held_until_) {
    held_ = undecodable_ ? !handle_undecodable(now) : !handle(change_, now);
  }
  update_gate();
  update_reading();
  for (std::uint32_t pulled = 0; pulled < kTurnChangesMax && !held_ && may_pull(); ++pulled) {
    if (!pull_one(now)) {
      break;
    }
    update_gate();
  }
  if (!held_) {
    note_held({});
  }
  const bool blocked = held_ || !gate_.open() || rows_wait_for_operator();
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
    if (pulled.error().kind == ErrorKind::poison && tracker_.in_transaction()) {
      undecodable_ = std::move(pulled).error();
      raw_row_ = source_.refused_bytes();
      held_ = !handle_undecodable(now);
      return true;
    }
    if (source_.state() == SourceState::streaming) {
      stop_with(std::move(pulled).error(), now);
    } else {
      lose_source(std::move(pulled).error(), now);
    }
    return false;
  }
  if (!*pulled) {
    return false;
  }
  undecodable_.reset();
  held_ = !handle(change_, now);
  return true;
}

/// While lost rows come again the span is theirs already; only what is under way counts. What a
/// Kafka transaction has accepted takes no memory of ours but a few bytes.
void Relay::update_gate() {
  const std::uint64_t letters = tracker_.in_flight(AckTracker::Place::dead_letters);
  std::uint64_t records = tracker_.span();
  if (sink_.transactional()) {
    records = unaccepted_ + letters;
  } else if (tracker_.lost_records() > 0) {
    records = tracker_.in_flight_records();
  }
  gate_.update(records, tracker_.in_flight_bytes());
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
  const bool unread = tracker_.unfinished() && !stop_error_ && drain_;
  const bool drained = !unread && (!drain_ || tracker_.in_flight_records() == 0);
  if (!link_up_) {
    // Worth waiting for only if there is progress the server was never told of. Whether it kept
    // what it was told last is unknown without a link: not "confirmed".
    const bool told = tracker_.flushed_lsn() <= confirmed_lsn_ || !options_.confirm;
    const bool nothing_in_flight = tracker_.in_flight_records() == 0;
    const bool nothing_open = nothing_in_flight && !tracker_.unfinished();
    if (source_.state() == SourceState::waiting) {
      // Another relay holds the slot and relays whatever is not confirmed.
      confirmed_all_ = nothing_in_flight;
      source_.close();
      enter(Phase::stopped);
      return;
    }
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
  if (!position_settled(now)) {
    return;
  }
  StandbyStatus status{tracker_.received_lsn(), confirmable()};
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
  const bool moved = options_.confirm && confirmable() > confirmed_lsn_;
  if (!reply_wanted_ && since < status_interval_ &&
      !(moved && since >= options_.confirm_interval)) {
    return;
  }
  StandbyStatus status{tracker_.received_lsn(), confirmable()};
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
  if (place_ != nullptr) {
    consider(place_->deadline());
    consider(retry_.deadline());
  }
  if (held_ && held_until_ > now.mono) {
    consider(held_until_);
  }
  if (source_.state() == SourceState::closed) {
    if (phase_ == Phase::backing_off || phase_ == Phase::draining) {
      consider(retry_at_);
    }
  } else {
    consider(source_.deadline());
  }
  if (source_.state() == SourceState::streaming && link_up_) {
    consider(last_status_at_ + status_interval_);
    if (options_.confirm && confirmable() > confirmed_lsn_) {
      consider(last_status_at_ + options_.confirm_interval);
    }
  }
  return earliest;
}

}  // namespace outrider
