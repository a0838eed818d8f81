// ScriptedSource and ScriptedSink: the core's ports for unit tests, driven by the test alone.
//
// The test queues changes and reports and reads back what the relay did, as one trace of lines
// ("open -", "produce 1 k1", "status 0/C8", …). A call number can be told to fail (nth-failure
// loops): with an error of the given kind, once or from then on.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "outrider/relay/ports.h"
#include "outrider/route/record_mapper.h"

namespace outrider::testing {

using Trace = std::vector<std::string>;

/// Fails the nth fallible port call (counted over both ports), or that and all later ones.
struct Failures {
  std::uint64_t at = 0;  ///< 0: never.
  bool persistent = false;
  ErrorKind kind = ErrorKind::transient;
  std::uint64_t calls = 0;

  bool now() {
    ++calls;
    return at != 0 && (calls == at || (persistent && calls > at));
  }
  bool was_reached() const { return at != 0 && calls >= at; }
};

class ScriptedSource final : public ChangeSource {
 public:
  ScriptedSource(Trace& trace, Failures& failures) : trace_(trace), failures_(failures) {}

  std::deque<Change> changes;
  Lsn start = Lsn::from_wire(100);
  SlotIdentity slot{"1", "app", "slot", 1};
  std::optional<Lsn> confirmed;  ///< The slot's own word; else `start`.
  bool after_standby = false;
  std::optional<Lsn> fork;
  Lsn server_end = Lsn::from_wire(1'000'000);
  std::chrono::milliseconds wal_sender_timeout{0};
  bool connects = true;
  std::optional<Error> next_error;
  std::string bytes_at_fault;     ///< What next_error of kind poison is about.
  bool table_at_fault = false;    ///< next_error leaves the source open whatever its kind.
  std::function<void()> on_open;  ///< Lets the test queue again what the server would resend.

  void open(std::optional<Lsn> resume_from, Now) override {
    trace_.push_back("open " + (resume_from ? resume_from->to_string() : "-"));
    state_ = SourceState::opening;
    if (resume_from) {
      start = *resume_from;
    }
    if (on_open) {
      on_open();
    }
  }
  Result<> drive(Now) override {
    if (failures_.now()) {
      state_ = SourceState::closed;
      return fail(failures_.kind, "drive failed", "hint");
    }
    if (state_ == SourceState::opening && connects) {
      state_ = SourceState::streaming;
      changes.push_front(StreamStart{start, wal_sender_timeout, after_standby, false, server_end,
                                     confirmed.value_or(start), Lsn{}});
    }
    return {};
  }
  Result<bool> next(Change& change, Now) override {
    if (next_error) {
      Error error = *std::exchange(next_error, std::nullopt);
      const bool stays = table_at_fault || error.kind == ErrorKind::poison;
      state_ = stays ? state_ : SourceState::closed;
      return fail(error);
    }
    if (state_ == SourceState::finishing) {
      change = StreamEnd{};
      return true;
    }
    if (state_ != SourceState::streaming || changes.empty()) {
      return false;
    }
    if (failures_.now()) {
      state_ = SourceState::closed;
      return fail(failures_.kind, "next failed", "hint");
    }
    change = changes.front();
    changes.pop_front();
    return true;
  }
  std::string_view refused_bytes() const override { return bytes_at_fault; }
  void set_reading(bool on) override { reading = on; }
  Result<> send_status(const StandbyStatus& status, Now) override {
    if (failures_.now()) {
      state_ = SourceState::closed;
      return fail(failures_.kind, "status failed", "hint");
    }
    trace_.push_back("status " + status.flushed_lsn.to_string());
    return {};
  }
  void finish() override {
    trace_.push_back("finish");
    state_ = SourceState::finishing;
  }
  void close() override { state_ = SourceState::closed; }
  const SlotIdentity& identity() const override { return slot; }
  std::optional<Lsn> fork_of(std::uint32_t) const override { return fork; }
  Lsn wal_end() const override { return server_end; }
  void allow_creation() override {
    trace_.push_back("create");
    state_ = SourceState::opening;
  }
  SourceState state() const override { return state_; }
  bool has_buffered() const override { return !changes.empty(); }
  std::optional<MonoTime> deadline() const override { return std::nullopt; }

  void set_state(SourceState state) { state_ = state; }
  bool reading = true;

 private:
  Trace& trace_;
  Failures& failures_;
  SourceState state_ = SourceState::closed;
};

class ScriptedSink final : public EventSink {
 public:
  ScriptedSink(Trace& trace, Failures& failures) : trace_(trace), failures_(failures) {}

  std::deque<SinkReport> reports;
  bool busy = false;
  bool acknowledge_at_once = false;
  std::optional<Error> produce_error;
  std::string refuse_key;  ///< A record of this key is refused, at once and each time.
  Error refusal{ErrorKind::poison, "too large", "", "MSG_SIZE_TOO_LARGE"};
  std::optional<StoredPosition> position;  ///< What stored() gives back.
  Lsn limit = Lsn::max();                  ///< What confirm_limit() gives back.
  bool tell_sessions = false;              ///< Sessions and reservations go to the trace.

  Result<> drive(Now) override { return {}; }
  Result<ProduceStatus> produce(const KafkaRecord& record, std::uint64_t sequence, Now) override {
    if (produce_error) {
      return fail(*produce_error);
    }
    if (busy || failures_.now()) {
      return ProduceStatus::busy;
    }
    trace_.push_back("produce " + std::to_string(sequence) + " " +
                     std::string(record.key.value_or("-")));
    if (!refuse_key.empty() && record.key == refuse_key) {
      reports.push_back(Refused{sequence, refusal, std::string(refuse_key), "t"});
      reports.push_back(SinkLost{Error{ErrorKind::transient, "a record was refused", "", ""}});
    } else if (acknowledge_at_once) {
      reports.push_back(Delivered{sequence});
    }
    return ProduceStatus::accepted;
  }
  bool next_report(SinkReport& report) override {
    if (reports.empty()) {
      return false;
    }
    report = std::move(reports.front());
    reports.pop_front();
    return true;
  }
  void restart(Now) override {
    trace_.push_back("restart");
    reports.clear();
  }
  void open_session(const SlotIdentity&, Now) override { note("session"); }
  std::optional<StoredPosition> stored() const override { return position; }
  void reserve(Lsn lsn, Now) override { note("reserve " + lsn.to_string()); }
  Lsn confirm_limit() const override { return limit; }

 private:
  void note(std::string line) {
    if (tell_sessions) {
      trace_.push_back(std::move(line));
    }
  }

 public:
  bool healthy() const override { return true; }
  std::string trouble() const override { return {}; }
  std::optional<MonoTime> deadline() const override { return std::nullopt; }

 private:
  Trace& trace_;
  Failures& failures_;
};

/// Takes the first value of a row for its key; a row of one value "poison" cannot be mapped.
class KeyMapper final : public RecordMapper {
 public:
  Result<MapOutcome> map(const Insert& insert, const RowContext&, MappedRow& row) override {
    if (insert.values.empty()) {
      return MapOutcome::not_outbox;
    }
    row = MappedRow{};
    row.event.event_id = insert.values[0].text;
    row.event.aggregate_id = insert.values[0].text;
    row.record.topic = "t";
    row.record.key = insert.values[0].text;
    if (insert.values[0].text == "poison") {
      return fail(ErrorKind::poison, "cannot be routed", "repair the row");
    }
    return MapOutcome::event;
  }
};

class QuietObserver final : public RelayObserver {
 public:
  explicit QuietObserver(Trace& trace) : trace_(trace) {}
  void on_phase(Phase, Phase to) override { phases.push_back(to); }
  void on_stream_start(Lsn, bool) override {}
  void on_source_lost(const Error&, std::chrono::milliseconds delay) override {
    delays.push_back(delay);
  }
  void on_sink_restart(const Error&, Lsn) override {}
  void on_row_refused(const OutboxEvent& event, Lsn commit_lsn, const Error&) override {
    trace_.push_back("refused " + std::string(event.event_id) + " " + commit_lsn.to_string());
  }
  void on_transaction_acked(WallTime, std::uint64_t, Now) override {}
  void on_stop_reason(const Error& error) override {
    trace_.push_back(std::string("stop ") + to_string(error.kind));
    stop_code = error.code;
  }
  void on_dead_letter(const OutboxEvent& event, const RowPlace&, DeadLetterReason reason,
                      const Error&) override {
    trace_.push_back("letter " + std::string(event.event_id) + " " + to_string(reason));
  }
  void on_isolation(const Error&, std::size_t suspects) override {
    trace_.push_back("isolate " + std::to_string(suspects));
  }
  void on_rows_held(const std::string& why) override { held = why; }
  void on_slot_verdict(bool adopted, const std::vector<std::string>& warnings) override {
    trace_.push_back(adopted ? "adopted" : "judged " + std::to_string(warnings.size()));
  }
  void on_retried(std::int64_t number, const std::string&, const Error* refused) override {
    trace_.push_back((refused == nullptr ? "delivered " : "refused again ") +
                     std::to_string(number));
  }

  std::string stop_code;
  std::string held;
  std::vector<Phase> phases;
  std::vector<std::chrono::milliseconds> delays;

 private:
  Trace& trace_;
};

}  // namespace outrider::testing
