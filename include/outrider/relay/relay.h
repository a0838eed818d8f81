// Relay: the core. Decides what is produced, what is confirmed, when to pause, reconnect and stop.
//
// Driven once a turn by its owner; pulls from a ChangeSource, maps rows, pushes into an EventSink,
// and sends positions back. It never touches a socket, a clock or a log: same calls, same results.
// Outlives: source, sink, mapper and observer must outlive it. Thread: loop. Errors: they end in
// phase `stopped` with stop_error(). Rules: docs/DELIVERY.md, docs/adr/0003-ack-tracker.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "outrider/base/backoff.h"
#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/relay/ack_tracker.h"
#include "outrider/relay/flow_gate.h"
#include "outrider/relay/ports.h"
#include "outrider/route/record_mapper.h"

namespace outrider {

struct RelayOptions {
  std::uint64_t in_flight_records_max = 20'000;
  std::uint64_t in_flight_bytes_max = 16 * 1024 * 1024;
  std::chrono::milliseconds status_interval{5'000};
  std::chrono::milliseconds confirm_interval{5};
  std::chrono::milliseconds reconnect_first{100};
  std::chrono::milliseconds reconnect_max{10'000};
  std::chrono::milliseconds shutdown_timeout{30'000};
  /// So many producer losses within a minute end the relay.
  std::uint32_t sink_losses_max = 5;
  std::uint64_t random_seed = 0;
  /// False for a dry run: positions are tracked but never told to the server.
  bool confirm = true;
};

/// What happened so far; each only grows.
struct RelayCounters {
  std::uint64_t events = 0;        ///< Outbox rows handed to the sink.
  std::uint64_t acknowledged = 0;  ///< Records the broker acknowledged.
  std::uint64_t refused = 0;       ///< Rows that could not be decoded, routed or sent.
  std::uint64_t bytes = 0;         ///< Key, value and header bytes handed to the sink.
  std::uint64_t transactions = 0;  ///< Transactions with at least one event.
  std::uint64_t empty_transactions = 0;
  std::uint64_t other_tables = 0;  ///< Inserts into tables that are no outbox.
  std::uint64_t updates = 0;
  std::uint64_t deletes = 0;
  std::uint64_t truncates = 0;
  std::uint64_t messages = 0;    ///< Logical messages, all of them foreign for now.
  std::uint64_t known_rows = 0;  ///< Rows sent again by the server and left out.
  std::uint64_t statuses = 0;
  std::uint64_t pauses = 0;
  std::uint64_t source_losses = 0;
  std::uint64_t sink_restarts = 0;
};

class Relay {
 public:
  Relay(const RelayOptions& options, ChangeSource& source, EventSink& sink, RecordMapper& mapper,
        RelayObserver& observer);

  /// One turn: reports first (they free space), then changes up to the turn's budget, then status.
  void turn(Now now);

  /// SIGTERM: read to the end of the current transaction, wait for its acks, confirm, end.
  void request_stop(Now now);

  Phase phase() const { return phase_; }
  /// Why it stopped; nothing after a clean stop.
  const std::optional<Error>& stop_error() const { return stop_error_; }
  /// Stopped with everything acknowledged also confirmed at the server.
  bool confirmed_all() const { return confirmed_all_; }

  /// When the next turn is due even if no descriptor is ready; in the past: at once.
  std::optional<MonoTime> deadline(Now now) const;

  const RelayCounters& counters() const { return counters_; }
  const AckTracker& tracker() const { return tracker_; }
  SourceState source_state() const { return source_.state(); }
  /// The last position sent to the server as flushed.
  Lsn confirmed_lsn() const { return confirmed_lsn_; }
  /// A stream was started at least once in this process.
  bool ever_streamed() const { return ever_streamed_; }
  /// Asked to stop, or stopping because of an error.
  bool stopping() const { return stop_deadline_.has_value(); }
  /// Progress was last known to be complete at this time (nothing in flight, stream running).
  std::optional<WallTime> caught_up_at() const { return caught_up_at_; }

  static constexpr std::uint32_t kTurnChangesMax = 2'000;
  static constexpr std::uint32_t kTurnReportsMax = 10'000;

 private:
  void enter(Phase phase);
  void stop_with(Error error, Now now);
  void finish_or_stop(Now now);
  void lose_source(Error error, Now now);
  void lose_sink(Error error, Now now);

  void drive_source(Now now);
  void drive_sink(Now now);
  void serve_reports(Now now);
  void pull_changes(Now now);
  bool pull_one(Now now);
  void advance_stop(Now now);
  void send_status_if_due(Now now);
  bool may_pull() const;
  void update_reading();

  /// False: the change could not be taken now (sink busy) and is held.
  bool handle(const Change& change, Now now);
  void take_over_from_another(const StreamStart& start, Now now);
  void handle_start(const StreamStart& start);
  bool handle_begin(const Begin& begin, Now now);
  bool handle_insert(const Insert& insert, Now now);
  void handle_commit(const Commit& commit, Now now);
  void handle_skipped(const Skipped& skipped);
  void refuse_row(Error error, Now now);
  void settle(Now now);

  RelayOptions options_;
  ChangeSource& source_;
  EventSink& sink_;
  RecordMapper& mapper_;
  RelayObserver& observer_;

  AckTracker tracker_;
  FlowGate gate_;
  RelayCounters counters_;
  Phase phase_ = Phase::starting;
  bool opened_ = false;
  bool ever_streamed_ = false;
  bool link_up_ = false;  ///< StreamStart was pulled and the link is not lost since.

  Change change_;
  bool held_ = false;  ///< `change_` waits for the sink.
  RowContext context_;
  AckTracker::Known known_;
  std::uint64_t rows_in_transaction_ = 0;
  MappedRow row_;

  Backoff backoff_;
  MonoTime retry_at_{};
  std::deque<MonoTime> sink_losses_;

  std::chrono::milliseconds status_interval_;
  Lsn start_lsn_;
  Lsn confirmed_lsn_;
  MonoTime last_status_at_{};
  bool reply_wanted_ = false;
  std::optional<WallTime> caught_up_at_;

  std::optional<MonoTime> stop_deadline_;
  std::optional<Error> stop_error_;
  bool drain_ = true;  ///< On stop: wait for acks (false when none can come any more).
  bool confirmed_all_ = false;
};

/// Bytes a record counts for in the flow gate: its content plus what the client keeps beside it.
std::uint32_t in_flight_size(const KafkaRecord& record);

}  // namespace outrider
