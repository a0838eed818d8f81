// PipelineMeter: what a pipeline counts for its metrics beyond the core's own counters.
//
// Stands between the core and its other observer, tells that one everything and counts on the way;
// note_turn() looks at what moves by itself. Nothing allocates once an event type or an error is
// known. Thread: loop. Outlived by the observer. Limits: kEventTypesMax event types and kErrorsMax
// kinds of errors have a count of their own, the rest shares one.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "app/unpublished_age.h"
#include "outrider/base/latency_counts.h"
#include "outrider/model/slot_health.h"
#include "outrider/relay/ports.h"

namespace outrider {

/// The class of an error that a label may have: the first two characters of a SQLSTATE ("08"), a
/// name of librdkafka or of ours ("SLOT_MISSING"), else the kind ("transient").
std::string error_class(const Error& error);

class PipelineMeter final : public RelayObserver {
 public:
  static constexpr std::size_t kEventTypesMax = 100;
  static constexpr std::size_t kErrorsMax = 100;

  /// `watch_interval`: how often the server is asked where its WAL ends.
  PipelineMeter(RelayObserver& next, std::chrono::milliseconds watch_interval, MonoTime start)
      : next_(next), age_(start, watch_interval), confirmed_at_(start) {}

  void on_phase(Phase from, Phase to) override { next_.on_phase(from, to); }
  void on_stream_start(Lsn from, bool resumed) override;
  void on_source_lost(const Error& error, std::chrono::milliseconds delay) override;
  void on_sink_restart(const Error& error, Lsn rewind_to) override;
  void on_row_refused(const OutboxEvent& event, Lsn commit_lsn, const Error& error) override;
  void on_dead_letter(const OutboxEvent& event, const RowPlace& row, DeadLetterReason reason,
                      const Error& error) override;
  void on_isolation(const Error& error, std::size_t suspects) override;
  void on_rows_held(const std::string& why) override { next_.on_rows_held(why); }
  void on_slot_verdict(bool adopted, const std::vector<std::string>& warnings) override;
  void on_retried(std::int64_t number, const std::string& event_id, const Error* refused) override;
  void on_transaction_acked(WallTime commit_time, std::uint64_t records, Now now) override;
  void on_group_acked(MonoTime since, std::uint64_t transactions, Now now) override;
  void on_stop_reason(const Error& error) override;

  /// After each turn: what the server said last, if anything, and how far we have come.
  void note_turn(const std::optional<SlotHealth>& health, Lsn flushed, Lsn confirmed, Now now);

  using Counts = std::map<std::string, std::uint64_t, std::less<>>;
  /// Rows that could not be decoded, routed or sent.
  const Counts& failed_by_type() const { return failed_by_type_; }
  const Counts& database_errors() const { return database_errors_; }
  const Counts& row_errors() const { return row_errors_; }
  const Counts& stop_errors() const { return stop_errors_; }
  std::uint64_t retried_delivered() const { return retried_delivered_; }
  std::uint64_t retried_refused() const { return retried_refused_; }
  std::uint64_t stream_starts() const { return stream_starts_; }
  const LatencyCounts& commit_to_ack() const { return commit_to_ack_; }
  const LatencyCounts& batch_duration() const { return batch_duration_; }
  const UnpublishedAge& age() const { return age_; }
  /// When the slot's confirmed position was last seen to grow.
  MonoTime confirmed_at() const { return confirmed_at_; }

 private:
  RelayObserver& next_;
  Counts failed_by_type_;
  Counts database_errors_;
  Counts row_errors_;
  Counts stop_errors_;
  std::uint64_t retried_delivered_ = 0;
  std::uint64_t retried_refused_ = 0;
  std::uint64_t stream_starts_ = 0;
  LatencyCounts commit_to_ack_;
  LatencyCounts batch_duration_;
  UnpublishedAge age_;
  MonoTime health_at_{};
  Lsn confirmed_;
  MonoTime confirmed_at_;
};

}  // namespace outrider
