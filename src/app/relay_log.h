// RelayLog: what the core does, told to the operator. The observer of one pipeline.
//
// Writes one line for each change of state and at most one a minute for what repeats in an outage;
// every line names pipeline and slot, every line about a row its LSN, event_id, event_type and
// aggregate_id, never a payload. Also remembers the last trouble for /readyz. Thread: loop.
// Outlived by the log.
#pragma once

#include <string>
#include <vector>

#include "outrider/observe/log.h"
#include "outrider/relay/ports.h"

namespace outrider {

class RelayLog final : public RelayObserver {
 public:
  RelayLog(Log& log, std::string pipeline, std::string slot, const Clock& clock)
      : log_(log), pipeline_(std::move(pipeline)), slot_(std::move(slot)), clock_(clock) {}

  void on_phase(Phase from, Phase to) override;
  void on_stream_start(Lsn from, bool resumed) override;
  void on_source_lost(const Error& error, std::chrono::milliseconds delay) override;
  void on_sink_restart(const Error& error, Lsn rewind_to) override;
  void on_row_refused(const OutboxEvent& event, Lsn commit_lsn, const Error& error) override;
  void on_transaction_acked(WallTime, std::uint64_t, Now) override {}
  void on_stop_reason(const Error& error) override;
  void on_dead_letter(const OutboxEvent& event, const RowPlace& row, DeadLetterReason reason,
                      const Error& error) override;
  void on_isolation(const Error& error, std::size_t suspects) override;
  void on_rows_held(const std::string& why) override;
  void on_slot_verdict(bool adopted, const std::vector<std::string>& warnings) override;
  void on_retried(std::int64_t number, const std::string& event_id, const Error* refused) override;

  /// A line of another room of this pipeline, which limits its own repeats.
  void note(LogLevel level, std::string_view message,
            const std::vector<std::pair<std::string, std::string>>& fields);

  /// Why the database link is down, until it is up again.
  const std::string& source_trouble() const { return source_trouble_; }

 private:
  Log& log_;
  std::string pipeline_;
  std::string slot_;
  const Clock& clock_;
  std::string source_trouble_;
};

}  // namespace outrider
