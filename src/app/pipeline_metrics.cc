#include "app/pipeline_metrics.h"

#include <algorithm>
#include <string>
#include <utility>

#include "app/version.h"

namespace outrider {
namespace {

using Labels = std::vector<std::string>;

/// One counter of the core and the family that shows it.
struct CounterRow {
  const char* name;
  const char* help;
  std::uint64_t RelayCounters::*member;
};

constexpr CounterRow kCounters[] = {
    {"outbox_events_published_total", "Events whose record the broker has acknowledged",
     &RelayCounters::acknowledged},
    {"outbox_events_produced_total", "Events handed to the Kafka client", &RelayCounters::events},
    {"outbox_events_refused_total", "Rows that could not be decoded, routed or sent",
     &RelayCounters::refused},
    {"outbox_dead_letters_total",
     "Rows that became dead letters, followers of parked keys included",
     &RelayCounters::dead_letters},
    {"outbox_followers_total", "Of these, rows behind a parked key", &RelayCounters::followers},
    {"outbox_isolations_total", "Refused batches whose rows were sent again one by one",
     &RelayCounters::isolations},
    {"outbox_topic_faults_total", "Attempts that failed because of the topic, not the row",
     &RelayCounters::topic_faults},
    {"outbox_produced_bytes_total", "Bytes of keys, values and headers handed to the Kafka client",
     &RelayCounters::bytes},
    {"outbox_transactions_total", "Transactions with at least one event",
     &RelayCounters::transactions},
    {"outbox_empty_transactions_total", "Transactions without an event that the server sent",
     &RelayCounters::empty_transactions},
    {"outbox_other_table_rows_total", "Rows received of tables that are no outbox",
     &RelayCounters::other_tables},
    {"outbox_updates_ignored_total", "Updates of an outbox table, which never are events",
     &RelayCounters::updates},
    {"outbox_deletes_ignored_total", "Deletes in an outbox table, which never are events",
     &RelayCounters::deletes},
    {"outbox_truncates_ignored_total", "Truncates of an outbox table, which never are events",
     &RelayCounters::truncates},
    {"outbox_messages_ignored_total", "Logical messages received, which are not relayed",
     &RelayCounters::messages},
    {"outbox_known_rows_total", "Rows the server sent again and the relay left out",
     &RelayCounters::known_rows},
    {"outbox_status_updates_total", "Standby status updates sent to the server",
     &RelayCounters::statuses},
    {"outbox_pauses_total", "Times reading stopped because too much was in flight",
     &RelayCounters::pauses},
    {"outbox_source_losses_total", "Times the database link was lost or could not be made",
     &RelayCounters::source_losses},
    {"outbox_producer_restarts_total", "Times the Kafka producer was replaced and records resent",
     &RelayCounters::sink_restarts},
};

constexpr Phase kPhases[] = {Phase::starting, Phase::streaming, Phase::paused, Phase::backing_off,
                             Phase::draining, Phase::finishing, Phase::stopped};

double seconds_between(WallTime from, WallTime to) {
  return std::max(0.0, std::chrono::duration<double>(to - from).count());
}

}  // namespace

struct PipelineMetrics::Families {
  explicit Families(MetricsRegistry& registry);

  std::vector<CounterFamily> counters;
  GaugeFamily pending;
  GaugeFamily in_flight_records;
  GaugeFamily in_flight_bytes;
  GaugeFamily in_flight_records_limit;
  GaugeFamily in_flight_bytes_limit;
  GaugeFamily oldest_age;
  GaugeFamily phase;
  GaugeFamily standby;
  GaugeFamily received_lsn;
  GaugeFamily flushed_lsn;
  GaugeFamily confirmed_lsn;
  HistogramFamily latency;
  Gauge longest_turn;
};

PipelineMetrics::Families::Families(MetricsRegistry& registry) {
  const Labels label = {"pipeline"};
  for (const CounterRow& row : kCounters) {
    counters.push_back(registry.counters(row.name, row.help, label));
  }
  pending =
      registry.gauges("outbox_events_pending",
                      "Events received from the server and not yet acknowledged by Kafka", label);
  in_flight_records = registry.gauges(
      "outbox_in_flight_records",
      "Records from the oldest unacknowledged one to the newest: what the limit is compared with",
      label);
  in_flight_bytes = registry.gauges("outbox_in_flight_bytes",
                                    "Memory counted for records not yet acknowledged", label);
  in_flight_records_limit = registry.gauges("outbox_in_flight_records_limit",
                                            "Records in flight at which reading pauses", label);
  in_flight_bytes_limit = registry.gauges("outbox_in_flight_bytes_limit",
                                          "Bytes in flight at which reading pauses", label);
  oldest_age = registry.gauges(
      "outbox_oldest_unconfirmed_age_seconds",
      "Age of the oldest received transaction that is not acknowledged; 0 when there is none; "
      "while nothing can be read, the time since the relay was last caught up, an upper bound",
      label);
  phase = registry.gauges("outbox_phase", "1 for the phase the relay is in", {"pipeline", "phase"});
  standby = registry.gauges("outbox_standby", "1 while another process holds the slot", label);
  received_lsn = registry.gauges("outbox_received_lsn_bytes",
                                 "WAL position up to which everything was received", label);
  flushed_lsn = registry.gauges("outbox_flushed_lsn_bytes",
                                "WAL position up to which everything is durable in Kafka", label);
  confirmed_lsn = registry.gauges("outbox_confirmed_lsn_bytes",
                                  "WAL position last confirmed to the server", label);
  latency = registry.histograms(
      "outbox_commit_to_ack_seconds",
      "From a transaction's commit to the acknowledgement of its last record, by the server's and "
      "the relay's clocks",
      label, {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600});
  longest_turn = registry.gauge("outbox_loop_longest_turn_seconds",
                                "Longest turn of the loop since the last scrape");
  registry.gauges("outbox_build_info", "1; the version is the label", {"version"})
      .with({kVersion})
      .set(1);
}

PipelineMetrics::PipelineMetrics(MetricsRegistry& registry, const Clock& clock)
    : registry_(registry), clock_(clock), families_(std::make_unique<Families>(registry)) {
  callback_ = registry_.on_collect([this] { collect(); });
}

PipelineMetrics::~PipelineMetrics() { registry_.remove_on_collect(callback_); }

void PipelineMetrics::add(Pipeline& pipeline) {
  pipelines_.push_back(&pipeline);
  pipeline.observer().on_latency = [histogram = families_->latency.with({pipeline.name()})](
                                       double seconds) mutable { histogram.observe(seconds); };
}

void PipelineMetrics::observe_turn(double seconds) {
  longest_turn_ = std::max(longest_turn_, seconds);
}

void PipelineMetrics::collect() {
  const Now now = clock_.now();
  for (Pipeline* pipeline : pipelines_) {
    const Labels label = {pipeline->name()};
    const Relay& relay = pipeline->relay();
    const AckTracker& tracker = relay.tracker();
    for (std::size_t i = 0; i < families_->counters.size(); ++i) {
      families_->counters[i].with(label).set_total(
          static_cast<double>(relay.counters().*kCounters[i].member));
    }
    families_->pending.with(label).set(static_cast<double>(tracker.in_flight_records()));
    families_->in_flight_records.with(label).set(static_cast<double>(tracker.span()));
    families_->in_flight_bytes.with(label).set(static_cast<double>(tracker.in_flight_bytes()));
    const LimitConfig& limits = pipeline->config().limits;
    families_->in_flight_records_limit.with(label).set(
        static_cast<double>(limits.in_flight_records_max));
    families_->in_flight_bytes_limit.with(label).set(
        static_cast<double>(limits.in_flight_bytes_max));
    double age = 0;
    if (auto oldest = tracker.oldest_commit_time()) {
      age = seconds_between(*oldest, now.wall);
    }
    const bool reading = relay.phase() == Phase::streaming;
    if (!reading && relay.caught_up_at()) {
      age = std::max(age, seconds_between(*relay.caught_up_at(), now.wall));
    }
    families_->oldest_age.with(label).set(age);
    for (Phase phase : kPhases) {
      families_->phase.with({pipeline->name(), to_string(phase)})
          .set(relay.phase() == phase ? 1 : 0);
    }
    families_->standby.with(label).set(relay.source_state() == SourceState::waiting ? 1 : 0);
    families_->received_lsn.with(label).set(static_cast<double>(tracker.received_lsn().to_wire()));
    families_->flushed_lsn.with(label).set(static_cast<double>(tracker.flushed_lsn().to_wire()));
    families_->confirmed_lsn.with(label).set(static_cast<double>(relay.confirmed_lsn().to_wire()));
  }
  families_->longest_turn.set(std::exchange(longest_turn_, 0));
}

}  // namespace outrider
