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
  std::chrono::milliseconds wal_sender_timeout{0};
  bool connects = true;
  std::optional<Error> next_error;
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
      changes.push_front(StreamStart{start, wal_sender_timeout});
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
    if (acknowledge_at_once) {
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
  }

  std::vector<Phase> phases;
  std::vector<std::chrono::milliseconds> delays;

 private:
  Trace& trace_;
};

}  // namespace outrider::testing
