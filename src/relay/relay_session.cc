// The relay between the slot in its hands and the first row: what is stored is read and judged.
#include <algorithm>
#include <utility>

#include "outrider/base/check.h"
#include "outrider/relay/relay.h"

namespace outrider {
namespace {

constexpr int kStatusesPerServerTimeout = 3;
constexpr std::chrono::milliseconds kSettlePatience{2'000};

}  // namespace

void Relay::handle_start(const StreamStart& start, Now now) {
  OUTRIDER_CHECK(!link_up_, "a stream starts once");
  status_interval_ = options_.status_interval;
  if (start.wal_sender_timeout.count() > 0) {
    status_interval_ =
        std::min(status_interval_, start.wal_sender_timeout / kStatusesPerServerTimeout);
  }
  link_up_ = true;
  start_ = start;
  start_pending_ = true;
  last_status_at_ = now.mono;
  reply_wanted_ = true;
  // A slot that moved without us was held by another relay: what it stored is not read yet.
  const bool moved = ever_streamed_ && start.slot_confirmed_lsn > tracker_.flushed_lsn();
  if ((start.after_standby || moved) && tracker_.in_flight(AckTracker::Place::sink) > 0) {
    // Another relay may have relayed what is under way here.
    new_producer(now);
  }
  const bool promoted = ever_streamed_ && source_.identity().timeline != joined_timeline_;
  if (session_stale_ || promoted || start.after_standby || moved || !sink_.session_open()) {
    open_session(now);
  }
  session_ = Session::opening;
  if (place_ != nullptr) {
    place_->open(source_.identity(), now);
  }
  advance_session(now);
}

void Relay::open_session(Now now) {
  session_stale_ = false;
  session_fresh_ = true;
  sink_.open_session(source_.identity(), now);
}

void Relay::ask_for_creation(Now now) {
  if (session_ == Session::none) {
    session_ = Session::asking;
    open_session(now);
  }
  if (!sink_.session_open()) {
    return;
  }
  auto stored = stored_in_this_history();
  auto verdict =
      stored ? judge_missing_slot(source_.identity(), source_.wal_end(), *stored, options_.slot)
             : Result<SlotVerdict>(fail(std::move(stored).error()));
  if (!verdict) {
    lose_source(std::move(verdict).error(), now);
    return;
  }
  tell(*verdict);
  source_.allow_creation();
  if (auto driven = source_.drive(now); !driven) {  // Nothing else would wake it.
    lose_source(std::move(driven).error(), now);
  }
}

void Relay::advance_session(Now now) {
  if (session_ == Session::open && link_up_ && source_.state() == SourceState::streaming &&
      source_.identity().timeline != joined_timeline_) {
    // A standby was promoted under the stream: what is stored is signed with its new timeline.
    joined_timeline_ = source_.identity().timeline;
    open_session(now);
    session_fresh_ = false;
    session_ = Session::opening;
  }
  if (session_ != Session::opening || !sink_.session_open() ||
      (place_ != nullptr && !place_->ready())) {
    return;
  }
  if (start_pending_) {
    if (auto joined = join_stream(now); !joined) {
      lose_source(std::move(joined).error(), now);
      return;
    }
  }  // Else only the producer is new, and nothing was under way with the old one.
  start_pending_ = false;
  session_ = Session::open;
  if (phase_ == Phase::starting) {
    enter(Phase::streaming);
  }
}

/// What was stored before a promotion holds up to where the histories part; beyond it the same
/// positions name other rows.
Result<std::optional<StoredPosition>> Relay::stored_in_this_history() {
  std::optional<StoredPosition> stored = sink_.stored();
  const SlotIdentity& identity = source_.identity();
  const auto fork_from = [&](std::uint32_t timeline) -> Result<Lsn> {
    const std::optional<Lsn> fork = source_.fork_of(timeline);
    if (!fork) {
      return fail(ErrorKind::fatal,
                  "the server is on timeline " + std::to_string(identity.timeline) +
                      " and its history does not say where timeline " + std::to_string(timeline) +
                      " ended",
                  "point source.dsn at a server that descends from the one relayed before, or run "
                  "\"outrider forget-position\" after a planned move",
                  "OLD_TIMELINE");
    }
    return *fork;
  };
  if (ever_streamed_ && identity.timeline != joined_timeline_) {
    OUTRIDER_TRY(const Lsn fork, fork_from(joined_timeline_));
    if (tracker_.received_lsn() > fork || !tracker_.idle()) {
      return fail(ErrorKind::fatal,
                  "the server was promoted: timeline " + std::to_string(joined_timeline_) +
                      " ended at " + fork.to_string() + ", this relay had read up to " +
                      tracker_.received_lsn().to_string() +
                      "; records beyond the end are phantoms, the new primary does not have their "
                      "rows",
                  "start the relay again: it goes on from the new primary's slot",
                  "SERVER_PROMOTED");
    }
  }
  const bool other_system = stored && stored->identity.system_id != identity.system_id;
  if (stored && !other_system && stored->identity.timeline < identity.timeline) {
    OUTRIDER_TRY(const Lsn fork, fork_from(stored->identity.timeline));
    stored->flushed = std::min(stored->flushed, fork);
    if (stored->point.lsn > fork) {
      stored->point = ResumePoint{fork, Lsn{}, 0, stored->point.retried_letter};
    } else if (stored->point.partial_commit_lsn >= fork) {
      stored->point.partial_commit_lsn = Lsn{};
      stored->point.partial_rows = 0;
    }
  }
  return stored;
}

Result<> Relay::join_stream(Now now) {
  const bool first = !ever_streamed_;
  OUTRIDER_TRY(const std::optional<StoredPosition> stored, stored_in_this_history());
  const bool moved = !first && start_.slot_confirmed_lsn > tracker_.flushed_lsn();
  if (first || moved) {
    OUTRIDER_TRY(const SlotVerdict verdict,
                 judge_slot(source_.identity(), start_, stored, options_.slot));
    if (!start_.created && (first || !verdict.warnings.empty())) {  // Else told when missing.
      tell(verdict);
    }
  }
  // Whoever holds a slot signs a position before confirming one: without another's signature it was
  // no relay that moved the slot, and the tracker says so.
  if (moved && (start_.after_standby || (stored && stored->writer != sink_.writer()))) {
    // What was in flight here, the other relay has relayed up to there.
    tracker_.hand_over(start_.slot_confirmed_lsn);
  }
  OUTRIDER_TRY(tracker_.stream_started(start_.confirmed_flush_lsn));
  // Ahead of the server's WAL a stream would be silent for ever.
  if (start_.server_wal_end.is_valid() && tracker_.flushed_lsn() > start_.server_wal_end) {
    return fail(ErrorKind::fatal,
                "the server's WAL ends at " + start_.server_wal_end.to_string() +
                    ", before position " + tracker_.flushed_lsn().to_string() +
                    " that this relay has relayed already",
                "the server was restored from an older copy, or a standby that lagged was "
                "promoted: records of rows between the two positions are in Kafka and not in the "
                "database; restart the relay after looking into it",
                "SERVER_RESTORED");
  }
  if (session_fresh_ && stored && stored->exactly_once) {
    // A commit whose outcome was not known when its producer was lost.
    counters_.acknowledged += tracker_.apply_stored(stored->point);
    marked_ = stored->point;
    if (stored->point.retried_letter != 0 && place_ != nullptr) {
      place_->resolve(RetryOutcome{stored->point.retried_letter, true, {}, {}, {}}, now);
    }
  }
  if (place_ != nullptr && first) {
    for (const ParkedKey& parked : place_->parked_keys()) {
      parked_keys_.emplace(parked.key, parked.first);
    }
  }
  session_fresh_ = false;
  observer_.on_stream_start(tracker_.flushed_lsn(), ever_streamed_);
  if (first) {
    start_lsn_ = start_.confirmed_flush_lsn;
  }
  ever_streamed_ = true;
  joined_timeline_ = source_.identity().timeline;
  confirmed_lsn_ = std::max(confirmed_lsn_, start_.slot_confirmed_lsn);
  backoff_.reset();
  settle(now);
  return {};
}

void Relay::tell(const SlotVerdict& verdict) {
  if (options_.slot.witness) {
    observer_.on_slot_verdict(verdict.adopted, verdict.warnings);
  }
}

bool Relay::session_ready() const { return session_ == Session::open && sink_.session_open(); }

/// Before the last status: exactly this position is written down, so that after a clean stop a slot
/// that was advanced shows. With no broker at hand the reservation ahead of it has to do.
bool Relay::position_settled(Now now) {
  const Lsn flushed = tracker_.flushed_lsn();
  if (!options_.confirm || !drain_) {
    return true;
  }
  const bool open = session_ready();
  if (open && (sink_.confirm_limit() == Lsn::max() || sink_.confirm_limit() == flushed)) {
    return true;
  }
  if (!settle_by_) {
    settle_by_ = now.mono + kSettlePatience;
  }
  if (open) {
    sink_.reserve_exactly(flushed, now);
  }
  const bool may_come = open && sink_.healthy() && now.mono < *settle_by_;
  return confirmable() >= flushed && !may_come;
}

/// What the server may be told: flushed, and written down where it has to be.
Lsn Relay::confirmable() const {
  if (session_ != Session::open) {
    return confirmed_lsn_;
  }
  return std::max(confirmed_lsn_, std::min(tracker_.flushed_lsn(), sink_.confirm_limit()));
}

}  // namespace outrider
