// The families of metrics by where their numbers come from, private to PipelineMetrics.
//
// Each group registers its families when it is made, once a process, and show() copies the numbers
// of one pipeline into them. A gauge whose source is lost is cleared. Thread: loop. Owns handles
// only; the registry outlives them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "app/pipeline.h"
#include "outrider/observe/metrics.h"

namespace outrider {

/// From the core: what was received, published and confirmed, and how long it took.
struct RelayFamilies {
  explicit RelayFamilies(MetricsRegistry& registry);
  void show(const Pipeline& pipeline, Now now);

 private:
  void add_counters(MetricsRegistry& registry);
  void add_load(MetricsRegistry& registry);
  void add_ages(MetricsRegistry& registry);
  void add_state(MetricsRegistry& registry);
  void show_age(const Pipeline& pipeline, Now now);
  void show_front(const Pipeline& pipeline, Now now);
  void show_traffic(const Pipeline& pipeline);
  void show_errors(const Pipeline& pipeline);

  std::vector<CounterFamily> counters_;
  CounterFamily failed_;
  CounterFamily received_records_;
  CounterFamily received_bytes_;
  CounterFamily stage_seconds_;
  CounterFamily errors_;
  CounterFamily reconnects_;
  GaugeFamily pending_;
  GaugeFamily in_flight_records_;
  GaugeFamily in_flight_bytes_;
  GaugeFamily in_flight_records_limit_;
  GaugeFamily in_flight_bytes_limit_;
  GaugeFamily oldest_age_;
  GaugeFamily oldest_is_bound_;
  GaugeFamily front_age_;
  GaugeFamily phase_;
  GaugeFamily role_;
  GaugeFamily operator_pause_;
  GaugeFamily received_lsn_;
  GaugeFamily flushed_lsn_;
  GaugeFamily confirmed_lsn_;
  GaugeFamily confirmed_age_;
  HistogramFamily commit_to_ack_;
  HistogramFamily batch_duration_;
  std::map<std::string, Gauge> fronts_;  ///< The one shown, by pipeline.
};

/// From the event loop: what its time goes to.
struct LoopFamilies {
  explicit LoopFamilies(MetricsRegistry& registry);
  void observe_turn(Now begin, Now end);
  void show(Now now);

 private:
  Counter busy_;
  Counter idle_;
  Gauge longest_turn_;
  MonoTime last_end_{};
  double busy_seconds_ = 0;
  double idle_seconds_ = 0;
  MonoTime window_begin_{};
  double longest_now_ = 0;     ///< In the window that runs.
  double longest_before_ = 0;  ///< In the one before.
};

/// From the server, over the control connection.
struct SlotFamilies {
  explicit SlotFamilies(MetricsRegistry& registry);
  void show(const Pipeline& pipeline, Now now);

 private:
  struct Row;
  void show_status(const Pipeline& pipeline);

  std::vector<GaugeFamily> gauges_;
  GaugeFamily wal_status_;
  GaugeFamily invalidated_;
  GaugeFamily seen_age_;
  std::map<std::string, MonoTime> seen_at_;  ///< By pipeline; stays when the rest disappears.
  std::map<std::string, Gauge> statuses_;
  std::map<std::string, Gauge> reasons_;
};

/// From librdkafka: acknowledgements and its own statistics.
struct KafkaFamilies {
  explicit KafkaFamilies(MetricsRegistry& registry);
  void show(const Pipeline& pipeline, Now now);

 private:
  void show_deliveries(const std::string& name, const SinkStats& stats);
  void show_statistics(const std::string& name, const SinkStats& stats, Now now);

  CounterFamily records_;
  CounterFamily bytes_;
  CounterFamily retries_;
  CounterFamily timeouts_;
  CounterFamily sent_bytes_;
  CounterFamily expired_;
  HistogramFamily produce_latency_;
  GaugeFamily healthy_;
  GaugeFamily queue_records_;
  GaugeFamily queue_bytes_;
  GaugeFamily brokers_up_;
  GaugeFamily statistics_age_;
  GaugeFamily rtt_avg_;
  GaugeFamily rtt_p99_;
  GaugeFamily throttle_;
};

/// From the dead-letter table, over its own connection.
struct LetterFamilies {
  explicit LetterFamilies(MetricsRegistry& registry);
  void show(const Pipeline& pipeline, Now now);

 private:
  GaugeFamily stored_;
  GaugeFamily oldest_age_;
  GaugeFamily seen_age_;
  GaugeFamily parked_keys_;
  CounterFamily retried_;
};

}  // namespace outrider
