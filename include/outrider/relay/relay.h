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
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "outrider/base/backoff.h"
#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "outrider/relay/ack_tracker.h"
#include "outrider/relay/dead_letter_place.h"
#include "outrider/relay/dead_letter_record.h"
#include "outrider/relay/dead_letter_retry.h"
#include "outrider/relay/flow_gate.h"
#include "outrider/relay/ports.h"
#include "outrider/relay/refusals.h"
#include "outrider/relay/slot_judge.h"
#include "outrider/relay/traffic.h"
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
  /// A turn so much later than it was asked for: the process stood still.
  std::chrono::milliseconds frozen_after{5'000};
  SlotPolicy slot;
  DeadLetterConfig dead_letters;
};

/// What happened so far; each only grows.
struct RelayCounters {
  std::uint64_t events = 0;                ///< Outbox rows handed to the sink.
  std::uint64_t acknowledged = 0;          ///< Events whose record the broker acknowledged.
  std::uint64_t letters_acknowledged = 0;  ///< The same for dead letters in a topic.
  std::uint64_t refused = 0;               ///< Rows that could not be decoded, routed or sent.
  std::uint64_t dead_letters = 0;          ///< Rows that left their place, followers included.
  std::uint64_t followers = 0;             ///< Of these, rows behind a parked key.
  std::uint64_t isolations = 0;    ///< Refused batches whose rows were sent again one by one.
  std::uint64_t topic_faults = 0;  ///< Attempts that failed because of the topic.
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
  /// `place`: the dead-letter table; null where the policy needs none (stop, or a topic).
  Relay(const RelayOptions& options, ChangeSource& source, EventSink& sink, RecordMapper& mapper,
        RelayObserver& observer, DeadLetterPlace* place = nullptr);

  /// One turn: reports first (they free space), then changes up to the turn's budget, then status.
  void turn(Now now);

  /// SIGTERM: read to the end of the current transaction, wait for its acks, confirm, end.
  void request_stop(Now now);

  /// An operator's pause: no row is taken until resume(). Acks, statuses and retries go on.
  void pause() { paused_by_operator_ = true; }
  void resume() { paused_by_operator_ = false; }
  bool paused_by_operator() const { return paused_by_operator_; }

  /// Send dead letters again; false when a retry asked for by a command is under way.
  bool start_retry(RetryRequest request);
  const RetryProgress& retry_progress() const { return retry_.progress(); }

  /// Why rows wait although both links are up; empty when they do not.
  std::string trouble() const;
  std::size_t parked_keys() const { return parked_keys_.size(); }

  Phase phase() const { return phase_; }
  /// Why it stopped; nothing after a clean stop.
  const std::optional<Error>& stop_error() const { return stop_error_; }
  /// Stopped with everything acknowledged also confirmed at the server.
  bool confirmed_all() const { return confirmed_all_; }

  /// When the next turn is due even if no descriptor is ready; in the past: at once.
  std::optional<MonoTime> deadline(Now now) const;

  const RelayCounters& counters() const { return counters_; }
  const AckTracker& tracker() const { return tracker_; }
  const Traffic& traffic() const { return traffic_; }
  /// Rows received from the server whose record or dead letter is not durable yet, with the one
  /// that waits and those whose producer was lost.
  std::uint64_t pending_records() const;
  SourceState source_state() const { return source_.state(); }
  /// The last position sent to the server as flushed.
  Lsn confirmed_lsn() const { return confirmed_lsn_; }
  /// A stream was started at least once in this process.
  bool ever_streamed() const { return ever_streamed_; }
  /// Asked to stop, or stopping because of an error.
  bool stopping() const { return stop_deadline_.has_value(); }

  static constexpr std::uint32_t kTurnChangesMax = 2'000;
  static constexpr std::uint32_t kTurnReportsMax = 10'000;

 private:
  void enter(Phase phase);
  void stop_with(Error error, Now now);
  void finish_or_stop(Now now);
  void lose_source(Error error, Now now);
  void lose_sink(Error error, Now now);
  void new_producer(Now now);
  void replace_producer(Now now);
  void notice_freeze(Now now);
  void update_gate();

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
  void handle_start(const StreamStart& start, Now now);
  bool handle_begin(const Begin& begin, Now now);
  bool handle_insert(const Insert& insert, Now now);
  bool handle_row(const Insert* unmapped, const Error* fault, Now now);
  bool handle_commit(const Commit& commit, Now now);
  void handle_skipped(const Skipped& skipped);
  void settle(Now now);

  // relay_session.cc: from the slot in hand to the first row.
  void open_session(Now now);
  void ask_for_creation(Now now);
  void advance_session(Now now);
  Result<std::optional<StoredPosition>> stored_in_this_history();
  Result<> join_stream(Now now);
  void tell(const SlotVerdict& verdict);
  bool session_ready() const;
  bool position_settled(Now now);
  Lsn confirmable() const;

  // relay_rows.cc: what becomes of a row.
  bool settle_row(const AckTracker::Row& row, const Insert* unmapped, const Error* fault, Now now);
  bool follows_parked(const RowPlace& place) const;
  bool send_row(const AckTracker::Row& row, Now now);
  bool fault_of_topic(const AckTracker::Row& row, const Error& error, Now now);
  bool fault_of_row(const AckTracker::Row& row, DeadLetterReason reason, const Error& error,
                    Now now);
  void note_topic_fault(std::string topic, Error error, Now now);
  std::string breaker_reason(const Error& error) const;
  Error place_failed(Error error) const;
  bool store_letter(const AckTracker::Row& row, DeadLetterReason reason, const Error& error,
                    Now now);
  bool keep_letter(const AckTracker::Row& row, const DeadLetter& letter, Now now);
  bool send_letter(const AckTracker::Row& row, const DeadLetter& letter, Now now);
  bool handle_undecodable(Now now);
  void take_refused(Refused refused, Now now);
  void isolate(Error error, Now now);
  bool nothing_unaccepted() const { return unaccepted_ == 0 && !alone_; }
  bool rows_wait_for_operator() const;
  void note_held(const std::string& why);
  void serve_place(Now now);
  void serve_retry(Now now);
  void accepted(std::uint64_t sequence);
  void mark(const ResumePoint& point, bool whole, Now now);
  bool hold(MonoTime until, const std::string& why);
  AckTracker::HandOver hand_over(const KafkaRecord& record, std::string_view topic, Now now);
  void note_received(const AckTracker::Row& row);

  RelayOptions options_;
  ChangeSource& source_;
  EventSink& sink_;
  RecordMapper& mapper_;
  RelayObserver& observer_;
  DeadLetterPlace* place_;

  AckTracker tracker_;
  FlowGate gate_;
  RelayCounters counters_;
  Traffic traffic_;
  std::uint64_t row_bytes_ = 0;          ///< Of `change_`, a row.
  std::uint64_t received_sequence_ = 0;  ///< Rows up to here are counted in traffic_.
  Phase phase_ = Phase::starting;
  bool opened_ = false;
  bool ever_streamed_ = false;
  bool link_up_ = false;  ///< StreamStart was pulled and the link is not lost since.

  Change change_;
  bool held_ = false;  ///< `change_` waits for the sink.
  RowContext context_;
  bool settled_before_ = false;  ///< The open transaction was settled before: leave it out.
  std::uint64_t rows_in_transaction_ = 0;
  MappedRow row_;

  // The session: the slot is ours and the sink knows it.
  enum class Session : std::uint8_t { none, asking, opening, open };
  Session session_ = Session::none;
  bool session_stale_ = true;   ///< What the sink read may be old: read again.
  bool session_fresh_ = false;  ///< Opened since the last stream was joined.
  StreamStart start_;
  bool start_pending_ = false;  ///< The stream of `start_` is not joined yet.
  ResumePoint marked_;
  std::uint32_t joined_timeline_ = 0;  ///< Of the stream joined last.

  // Refused rows and dead letters.
  RefusalBook refusals_;
  Breaker breaker_;
  std::uint64_t unaccepted_ = 0;                ///< Handed to the sink, not known to be in its log.
  std::optional<std::uint64_t> alone_;          ///< The sequence that is sent alone.
  bool letter_alone_ = false;                   ///< That is a dead letter on its way to its topic.
  std::vector<std::uint64_t> letters_at_sink_;  ///< Dead letters not yet acknowledged there.
  bool isolating_ = false;                      ///< Refused seen, SinkLost to come.
  std::string faulty_topic_;
  Error topic_error_;
  MonoTime topic_fault_until_{};
  Backoff topic_backoff_;
  std::map<std::string, RowPlace, std::less<>> parked_keys_;  ///< With the first parked row.
  DeadLetterRecord letter_record_;
  std::string raw_row_;
  DeadLetterRetry retry_;
  bool retry_has_turn_ = false;
  std::optional<Error> undecodable_;  ///< Why `change_` is no change; raw_row_ has its bytes.

  // A row that waits for something that no descriptor tells of.
  MonoTime held_until_{};
  std::string held_why_;
  bool paused_by_operator_ = false;

  Backoff backoff_;
  MonoTime retry_at_{};
  std::deque<MonoTime> sink_losses_;

  std::chrono::milliseconds status_interval_;
  Lsn start_lsn_;
  Lsn confirmed_lsn_;
  MonoTime last_status_at_{};
  bool reply_wanted_ = false;

  std::optional<MonoTime> next_due_;
  std::optional<MonoTime> settle_by_;
  std::optional<MonoTime> stop_deadline_;
  std::optional<Error> stop_error_;
  bool drain_ = true;  ///< On stop: wait for acks (false when none can come any more).
  bool confirmed_all_ = false;
};

/// librdkafka's message, header list and queue entry beside the content (measured, ADR 0004).
inline constexpr std::uint64_t kRecordOverheadBytes = 400;
/// Bytes a record counts for in the flow gate: its content plus what the client keeps beside it.
std::uint32_t in_flight_size(const KafkaRecord& record);

}  // namespace outrider
