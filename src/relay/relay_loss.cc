// What the relay does when a side is lost: the database link, the producer, or time itself.
#include <algorithm>
#include <utility>

#include "outrider/relay/relay.h"

namespace outrider {
namespace {

constexpr std::chrono::minutes kSinkLossWindow{1};

}  // namespace

/// A process that stood still (SIGSTOP, a frozen machine) may have lost the slot to another relay
/// without hearing of it: nothing of the old time goes out, and the slot is looked at again.
void Relay::notice_freeze(Now now) {
  if (!next_due_ || now.mono <= *next_due_ + options_.frozen_after || !link_up_ || stopping()) {
    return;
  }
  const auto late = std::chrono::duration_cast<std::chrono::seconds>(now.mono - *next_due_);
  Error error{ErrorKind::transient,
              "this process stood still for " + std::to_string(late.count()) + " s",
              "find out what stopped it; another relay may have taken over meanwhile", ""};
  if (tracker_.in_flight(AckTracker::Place::sink) > 0 || alone_) {
    replace_producer(now);
  }
  session_stale_ = true;
  lose_source(std::move(error), now);
}

void Relay::lose_source(Error error, Now now) {
  held_ = false;
  link_up_ = false;
  session_ = Session::none;
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
  if (phase_ == Phase::stopped) {
    return;
  }
  if (isolating_) {
    isolate(std::move(error), now);
    return;
  }
  if (stop_error_) {
    drain_ = false;  // Nothing more will come.
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
  replace_producer(now);
  observer_.on_sink_restart(error, tracker_.flushed_lsn());
}

/// What was under way with the old one is wanted again.
void Relay::new_producer(Now now) {
  unaccepted_ = 0;
  alone_.reset();
  isolating_ = false;
  letters_at_sink_.clear();
  retry_.lost();
  sink_.restart(now);
  tracker_.producer_lost();
  marked_ = ResumePoint{};
}

/// A new producer in mid-stream; the stream comes again only if it has to.
void Relay::replace_producer(Now now) {
  new_producer(now);
  if (tracker_.lost_records() == 0) {
    if (session_ != Session::none && !sink_.session_open()) {
      open_session(now);
      session_ = session_ == Session::open ? Session::opening : session_;
    }
    return;
  }
  held_ = false;
  link_up_ = false;
  session_ = Session::none;
  source_.close();
  if (phase_ == Phase::finishing) {
    enter(Phase::stopped);
  } else if (phase_ == Phase::draining) {
    retry_at_ = now.mono;
  } else if (phase_ != Phase::backing_off) {
    retry_at_ = now.mono;
    enter(Phase::backing_off);
  }
}

}  // namespace outrider
