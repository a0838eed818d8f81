// The families that show what the loop, the server, Kafka and the dead-letter table say.
#include <algorithm>
#include <chrono>
#include <utility>

#include "app/metric_families.h"

namespace outrider {
namespace {

using Labels = std::vector<std::string>;

/// Two windows of this length are kept, so that every scraper sees a long turn for a while.
constexpr std::chrono::seconds kTurnWindow{30};
/// librdkafka's statistics come every 5 s; older ones say nothing about now.
constexpr std::chrono::seconds kStatisticsStale{15};

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

void set_or_clear(Gauge gauge, std::optional<double> value) {
  value ? gauge.set(*value) : gauge.clear();
}

std::optional<double> as_double(const std::optional<std::uint64_t>& value) {
  return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
}

std::optional<double> position(Lsn lsn) {
  return lsn.is_valid() ? std::optional(static_cast<double>(lsn.to_wire())) : std::nullopt;
}

/// Shows 1 for the text that holds, and no line for the one that held before.
void show_text(std::map<std::string, Gauge>& shown, GaugeFamily& family, const std::string& name,
               const std::string& text) {
  if (auto before = shown.find(name); before != shown.end()) {
    before->second.clear();
    shown.erase(before);
  }
  if (!text.empty()) {
    Gauge gauge = family.with({name, text});
    gauge.set(1);
    shown[name] = gauge;
  }
}

}  // namespace

// ---- the loop --------------------------------------------------------------------------------

LoopFamilies::LoopFamilies(MetricsRegistry& registry) {
  busy_ = registry.counter("outbox_loop_busy_seconds_total",
                           "Time the one thread of all pipelines worked; its rate is the "
                           "saturation of the process, 1 being all of one core");
  idle_ = registry.counter("outbox_loop_idle_seconds_total", "Time it waited for something to do");
  longest_turn_ = registry.gauge("outbox_loop_longest_turn_seconds",
                                 "Longest turn of the loop within the last 30 to 60 s");
}

void LoopFamilies::observe_turn(Now begin, Now end) {
  const double took = seconds(end.mono - begin.mono);
  if (last_end_ != MonoTime{}) {
    idle_seconds_ += seconds(begin.mono - last_end_);
  }
  busy_seconds_ += took;
  last_end_ = end.mono;
  if (end.mono - window_begin_ >= kTurnWindow) {
    window_begin_ = end.mono;
    longest_before_ = std::exchange(longest_now_, 0);
  }
  longest_now_ = std::max(longest_now_, took);
}

void LoopFamilies::show(Now now) {
  busy_.set_total(busy_seconds_);
  idle_.set_total(idle_seconds_);
  const bool fresh = now.mono - window_begin_ < 2 * kTurnWindow;
  longest_turn_.set(fresh ? std::max(longest_now_, longest_before_) : longest_now_);
}

// ---- the server ------------------------------------------------------------------------------

struct SlotFamilies::Row {
  const char* name;
  const char* help;
  std::optional<double> (*value)(const SlotHealth&);

  static const std::vector<Row>& all();
};

const std::vector<SlotFamilies::Row>& SlotFamilies::Row::all() {
  static const std::vector<Row> kRows = {
      {"outbox_slot_exists", "1 if the server has the slot, 0 if not",
       [](const SlotHealth& h) { return std::optional(h.exists ? 1.0 : 0.0); }},
      {"outbox_slot_active", "1 if a process reads from the slot, 0 if not",
       [](const SlotHealth& h) { return std::optional(h.active ? 1.0 : 0.0); }},
      {"outbox_server_in_recovery", "1 if the server asked is a standby of another one",
       [](const SlotHealth& h) { return std::optional(h.server_in_recovery ? 1.0 : 0.0); }},
      {"outbox_server_wal_end_bytes",
       "WAL position up to which the server has written (a standby: has replayed)",
       [](const SlotHealth& h) { return position(h.wal_end); }},
      {"outbox_slot_confirmed_lsn_bytes", "confirmed_flush_lsn: WAL position confirmed to the slot",
       [](const SlotHealth& h) { return position(h.confirmed_lsn); }},
      {"outbox_slot_restart_lsn_bytes",
       "restart_lsn: WAL position from which on the slot keeps WAL; none when it is lost",
       [](const SlotHealth& h) { return position(h.restart_lsn); }},
      {"outbox_slot_backlog_bytes",
       "WAL from the slot's confirmed position to the end: what may still hold unpublished rows, "
       "foreign WAL included",
       [](const SlotHealth& h) {
         return h.confirmed_lsn.is_valid() ? as_double(h.backlog_bytes()) : std::nullopt;
       }},
      {"outbox_slot_retained_bytes", "WAL that the server keeps because of the slot",
       [](const SlotHealth& h) {
         return h.restart_lsn.is_valid() ? as_double(h.retained_bytes()) : std::nullopt;
       }},
      {"outbox_slot_safe_wal_bytes",
       "safe_wal_size: WAL that can be written before the slot is in danger of losing its own; "
       "only "
       "with max_slot_wal_keep_size set, 0 once it is past",
       [](const SlotHealth& h) { return as_double(h.safe_wal_bytes); }},
      {"outbox_slot_catalog_xmin_age_transactions",
       "age(catalog_xmin): transactions since the oldest whose catalogue rows the slot keeps from "
       "being vacuumed",
       [](const SlotHealth& h) { return as_double(h.catalog_xmin_age); }},
      {"outbox_slot_spilled_transactions",
       "Transactions that the server decoded on disk, since its statistics were reset "
       "(PostgreSQL 14 and later)",
       [](const SlotHealth& h) { return as_double(h.spilled_transactions); }},
      {"outbox_slot_spilled_bytes", "Bytes of these (PostgreSQL 14 and later)",
       [](const SlotHealth& h) { return as_double(h.spilled_bytes); }},
      {"outbox_slot_decoded_transactions",
       "Transactions that the server decoded for the slot, since its statistics were reset "
       "(PostgreSQL 14 and later)",
       [](const SlotHealth& h) { return as_double(h.decoded_transactions); }},
  };
  return kRows;
}

SlotFamilies::SlotFamilies(MetricsRegistry& registry) {
  const Labels label = {"pipeline"};
  for (const Row& row : Row::all()) {
    gauges_.push_back(registry.gauges(row.name, row.help, label));
  }
  wal_status_ = registry.gauges("outbox_slot_wal_status",
                                "1 for the slot's wal_status: reserved, extended, unreserved, lost",
                                {"pipeline", "status"});
  invalidated_ = registry.gauges(
      "outbox_slot_invalidated",
      "1 while the slot is invalidated, with the server's reason (16: conflicting; 17 and later)",
      {"pipeline", "reason"});
  seen_age_ = registry.gauges("outbox_slot_seen_age_seconds",
                              "Time since the server was last asked about the slot and answered; "
                              "stays when the other figures about slot and server disappear",
                              label);
}

void SlotFamilies::show(const Pipeline& pipeline, Now now) {
  const Labels label = {pipeline.name()};
  const std::optional<SlotHealth>& health = pipeline.source().slot_health();
  for (std::size_t i = 0; i < gauges_.size(); ++i) {
    set_or_clear(gauges_[i].with(label), health ? Row::all()[i].value(*health) : std::nullopt);
  }
  show_text(statuses_, wal_status_, pipeline.name(), health ? health->wal_status : "");
  show_text(reasons_, invalidated_, pipeline.name(), health ? health->invalidation_reason : "");
  if (health) {
    seen_at_[pipeline.name()] = health->seen_at;
  }
  if (const auto seen = seen_at_.find(pipeline.name()); seen != seen_at_.end()) {
    seen_age_.with(label).set(seconds(now.mono - seen->second));
  }
}

// ---- Kafka -----------------------------------------------------------------------------------

KafkaFamilies::KafkaFamilies(MetricsRegistry& registry) {
  const Labels label = {"pipeline"};
  const Labels topic = {"pipeline", "topic"};
  records_ = registry.counters("outbox_sent_records_total",
                               "Records that a broker has acknowledged, by topic: repeats and dead "
                               "letters included (exactly once: those of transactions that were "
                               "aborted later, too), positions not",
                               topic);
  bytes_ = registry.counters("outbox_sent_bytes_total",
                             "Bytes of these records' keys and values, uncompressed", topic);
  retries_ = registry.counters("outbox_kafka_retries_total",
                               "Requests that the Kafka client sent again", label);
  timeouts_ = registry.counters("outbox_kafka_request_timeouts_total",
                                "Requests that no broker answered in time", label);
  sent_bytes_ = registry.counters("outbox_kafka_network_sent_bytes_total",
                                  "Bytes sent to brokers, compressed, requests included", label);
  expired_ = registry.counters("outbox_expired_records_total",
                               "Records older than their topic keeps records", label);
  produce_latency_ = registry.histograms(
      "outbox_produce_latency_seconds",
      "From the hand-over of a record to the Kafka client to the broker's acknowledgement; one "
      "value a record",
      label, {LatencyCounts::kBounds.begin(), LatencyCounts::kBounds.end()});
  healthy_ = registry.gauges("outbox_kafka_healthy",
                             "1 while a broker answers and no topic is waited for", label);
  queue_records_ = registry.gauges(
      "outbox_kafka_queue_records",
      "Records in the Kafka client, waiting or sent and not answered, positions included", label);
  queue_bytes_ = registry.gauges("outbox_kafka_queue_bytes", "Bytes of these records", label);
  brokers_up_ = registry.gauges("outbox_kafka_brokers_connected",
                                "Brokers with a connection; idle ones may have none", label);
  statistics_age_ = registry.gauges("outbox_kafka_statistics_age_seconds",
                                    "Time since the Kafka client last gave its statistics", label);
  const Labels broker = {"pipeline", "broker"};
  rtt_avg_ = registry.gauges("outbox_kafka_broker_rtt_avg_seconds",
                             "Mean time from a request to its answer, of those since the client's "
                             "statistics before; 0: there was none",
                             broker);
  rtt_p99_ =
      registry.gauges("outbox_kafka_broker_rtt_p99_seconds", "99th percentile of the same", broker);
  throttle_ = registry.gauges("outbox_kafka_broker_throttle_avg_seconds",
                              "Mean delay that the broker's quotas asked for", broker);
}

void KafkaFamilies::show(const Pipeline& pipeline, Now now) {
  const KafkaProducerSink* kafka = pipeline.kafka();
  if (kafka == nullptr) {
    return;
  }
  const std::string& name = pipeline.name();
  healthy_.with({name}).set(kafka->healthy() ? 1 : 0);
  expired_.with({name}).set_total(static_cast<double>(kafka->expired_records()));
  show_deliveries(name, kafka->stats());
  show_statistics(name, kafka->stats(), now);
}

void KafkaFamilies::show_deliveries(const std::string& name, const SinkStats& stats) {
  for (const SinkStats::Topic& topic : stats.topics()) {
    records_.with({name, topic.name}).set_total(static_cast<double>(topic.records));
    bytes_.with({name, topic.name}).set_total(static_cast<double>(topic.bytes));
  }
  produce_latency_.with({name}).set_totals(stats.produce_latency().counts(),
                                           stats.produce_latency().sum());
  const ClientStatistics totals = stats.totals();
  retries_.with({name}).set_total(static_cast<double>(totals.retries));
  timeouts_.with({name}).set_total(static_cast<double>(totals.request_timeouts));
  sent_bytes_.with({name}).set_total(static_cast<double>(totals.sent_bytes));
}

void KafkaFamilies::show_statistics(const std::string& name, const SinkStats& stats, Now now) {
  const auto& statistics = stats.statistics();
  const bool fresh = statistics && now.mono - stats.statistics_at() <= kStatisticsStale;
  const auto show = [&](GaugeFamily& family, std::uint64_t value) {
    set_or_clear(family.with({name}), fresh ? as_double(value) : std::nullopt);
  };
  show(queue_records_, statistics ? statistics->queue_records : 0);
  show(queue_bytes_, statistics ? statistics->queue_bytes : 0);
  std::uint64_t up = 0;
  for (const BrokerStatistics& broker :
       statistics ? statistics->brokers : std::vector<BrokerStatistics>()) {
    const Labels label = {name, std::to_string(broker.id)};
    up += broker.up ? 1 : 0;
    const bool known = fresh && broker.up;
    set_or_clear(rtt_avg_.with(label), known ? std::optional(broker.rtt_avg_s) : std::nullopt);
    set_or_clear(rtt_p99_.with(label), known ? std::optional(broker.rtt_p99_s) : std::nullopt);
    set_or_clear(throttle_.with(label),
                 known ? std::optional(broker.throttle_avg_s) : std::nullopt);
  }
  show(brokers_up_, up);
  if (stats.statistics_at() != MonoTime{}) {
    statistics_age_.with({name}).set(seconds(now.mono - stats.statistics_at()));
  }
}

// ---- dead letters ----------------------------------------------------------------------------

LetterFamilies::LetterFamilies(MetricsRegistry& registry) {
  const Labels label = {"pipeline"};
  stored_ = registry.gauges(
      "outbox_dead_letters_stored",
      "Dead letters of this slot in the table, as counted every 10 s by the active relay; no line "
      "with dead_letters.topic, or with on_poison: stop",
      label);
  oldest_age_ =
      registry.gauges("outbox_dead_letter_oldest_age_seconds",
                      "Time since the first failure of the oldest of them; no line when there is "
                      "none",
                      label);
  seen_age_ = registry.gauges("outbox_dead_letters_seen_age_seconds",
                              "Time since they were last counted", label);
  parked_keys_ = registry.gauges(
      "outbox_parked_keys", "Keys whose rows go to the dead letters (on_poison: park_key)", label);
  retried_ = registry.counters("outbox_dead_letters_retried_total",
                               "Dead letters sent again, by outcome: delivered, refused",
                               {"pipeline", "outcome"});
}

void LetterFamilies::show(const Pipeline& pipeline, Now now) {
  const Labels label = {pipeline.name()};
  const PipelineMeter& meter = pipeline.meter();
  retried_.with({pipeline.name(), "delivered"})
      .set_total(static_cast<double>(meter.retried_delivered()));
  retried_.with({pipeline.name(), "refused"})
      .set_total(static_cast<double>(meter.retried_refused()));
  parked_keys_.with(label).set(static_cast<double>(pipeline.relay().parked_keys()));
  const DeadLetterTable* table = pipeline.letter_table();
  if (table == nullptr) {
    return;
  }
  const std::optional<LetterSummary>& summary = table->summary();
  std::optional<double> stored;
  std::optional<double> age;
  if (summary) {
    stored = static_cast<double>(summary->letters);
    if (summary->oldest) {
      const double since = std::chrono::duration<double>(now.wall - *summary->oldest).count();
      age = std::max(0.0, since);
    }
  }
  set_or_clear(stored_.with(label), stored);
  set_or_clear(oldest_age_.with(label), age);
  if (table->summary_at() != MonoTime{}) {
    seen_age_.with(label).set(seconds(now.mono - table->summary_at()));
  }
}

}  // namespace outrider
