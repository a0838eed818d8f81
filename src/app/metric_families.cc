#include "app/metric_families.h"

#include <algorithm>
#include <chrono>
#include <utility>

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
    {"outbox_events_published_total",
     "Events whose record the broker has acknowledged (exactly once: whose Kafka transaction is "
     "committed); each once, dead letters and records sent twice not counted",
     &RelayCounters::acknowledged},
    {"outbox_events_produced_total",
     "Events handed to the Kafka client, those sent again after a lost producer included",
     &RelayCounters::events},
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
    {"outbox_pauses_total",
     "Times reading stopped because too much was in flight, or a row had to wait",
     &RelayCounters::pauses},
    {"outbox_source_losses_total", "Times the database link was lost or could not be made",
     &RelayCounters::source_losses},
    {"outbox_producer_restarts_total", "Times the Kafka producer was replaced and records resent",
     &RelayCounters::sink_restarts},
};

constexpr Phase kPhases[] = {Phase::starting, Phase::streaming, Phase::paused, Phase::backing_off,
                             Phase::draining, Phase::finishing, Phase::stopped};
constexpr const char* kRoles[] = {"active", "standby", "none"};

/// A record holds the front when it has done so for longer than a delivery takes.
constexpr double kFrontSeconds = 1;

double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

std::string partition_of(const Pipeline& pipeline, const std::string& topic,
                         const AckTracker::Front& front) {
  std::optional<std::int32_t> number;
  if (front.how == AckTracker::Partition::given) {
    number = static_cast<std::int32_t>(front.partition);
  } else if (front.how == AckTracker::Partition::by_key && pipeline.kafka() != nullptr) {
    number = pipeline.kafka()->partition_of(topic, front.partition);
  }
  return number ? std::to_string(*number) : "unknown";
}

double as_double(Lsn lsn) { return static_cast<double>(lsn.to_wire()); }

std::vector<double> latency_bounds() {
  return {LatencyCounts::kBounds.begin(), LatencyCounts::kBounds.end()};
}

}  // namespace

RelayFamilies::RelayFamilies(MetricsRegistry& registry) {
  add_counters(registry);
  add_load(registry);
  add_ages(registry);
  add_state(registry);
}

void RelayFamilies::add_counters(MetricsRegistry& registry) {
  const Labels label = {"pipeline"};
  for (const CounterRow& row : kCounters) {
    counters_.push_back(registry.counters(row.name, row.help, label));
  }
  failed_ = registry.counters("outbox_events_failed_total",
                              "Rows that could not be decoded, routed or sent, by event type "
                              "(unknown: it could not be read); rows behind a parked key are no "
                              "failures, and topics that make a row wait are none either",
                              {"pipeline", "event_type"});
  received_records_ = registry.counters(
      "outbox_received_records_total",
      "Rows of an outbox table received and taken on, each once however often the server sends it",
      {"pipeline", "table"});
  received_bytes_ = registry.counters(
      "outbox_received_bytes_total",
      "Bytes of these rows' values, as the output plugin prints them", {"pipeline", "table"});
  stage_seconds_ = registry.counters(
      "outbox_stage_seconds_total",
      "Time of the loop spent on receive (taking messages from the connection), decode (output "
      "plugin's bytes to rows) and produce (handing records to the Kafka client); an estimate from "
      "one call in 16; its rate is the stage's saturation, 1 being all of the one thread",
      {"pipeline", "stage"});
  errors_ = registry.counters(
      "outbox_errors_total",
      "Errors by side and class: database (the link was lost or could not be made; first two "
      "characters of the SQLSTATE, or transient), kafka (client or record; librdkafka's name), row "
      "(a row failed; code or reason), stop (the pipeline ends)",
      {"pipeline", "side", "class"});
  reconnects_ =
      registry.counters("outbox_reconnects_total",
                        "Connections made again: stream (attempts included), control, dead_letters "
                        "(losses), kafka (broker connections lost, idle ones included)",
                        {"pipeline", "link"});
}

void RelayFamilies::add_load(MetricsRegistry& registry) {
  const Labels label = {"pipeline"};
  pending_ = registry.gauges(
      "outbox_events_pending",
      "Rows received from the server whose record or dead letter is not durable yet; what was not "
      "received is not in it, see outbox_slot_backlog_bytes",
      label);
  in_flight_records_ = registry.gauges(
      "outbox_in_flight_records",
      "Records from the oldest unacknowledged one to the newest: what the limit is compared with",
      label);
  in_flight_bytes_ = registry.gauges("outbox_in_flight_bytes",
                                     "Memory counted for records not yet acknowledged", label);
  in_flight_records_limit_ = registry.gauges("outbox_in_flight_records_limit",
                                             "Records in flight at which reading pauses", label);
  in_flight_bytes_limit_ = registry.gauges("outbox_in_flight_bytes_limit",
                                           "Bytes in flight at which reading pauses", label);
}

void RelayFamilies::add_ages(MetricsRegistry& registry) {
  const Labels label = {"pipeline"};
  oldest_age_ = registry.gauges(
      "outbox_oldest_unconfirmed_age_seconds",
      "Now minus the commit time of the oldest transaction received and not acknowledged (the "
      "server's clock against the relay's). With none: 0, or once everything up to the end of the "
      "server's WAL was last seen published longer ago than 3 questions (3 s at least), the time "
      "since then, see outbox_oldest_age_is_upper_bound. Until that was seen once it counts from "
      "the start of the process",
      label);
  oldest_is_bound_ = registry.gauges(
      "outbox_oldest_age_is_upper_bound",
      "1 while outbox_oldest_unconfirmed_age_seconds is an upper bound: nothing received is "
      "unacknowledged, but what the server has beyond is not known (paused, cut, hung, standby)",
      label);
  front_age_ = registry.gauges(
      "outbox_front_record_age_seconds",
      "Age since commit of the record that holds the front: nothing behind it is confirmed; only "
      "while older than 1 s. partition: unknown where the record's own key does not tell it; topic "
      "dead_letters: a letter on its way to its table",
      {"pipeline", "topic", "partition"}, 1000);
}

void RelayFamilies::add_state(MetricsRegistry& registry) {
  const Labels label = {"pipeline"};
  phase_ = registry.gauges("outbox_phase", "1 for the phase the relay is in, 0 for the others",
                           {"pipeline", "phase"});
  role_ = registry.gauges("outbox_role",
                          "1 for the role: active (has the slot and streams), standby (another "
                          "process has the slot), none (no link, or connecting); 0 for the others",
                          {"pipeline", "role"});
  operator_pause_ =
      registry.gauges("outbox_paused_by_operator", "1 while outrider pause is in force", label);
  received_lsn_ = registry.gauges(
      "outbox_received_lsn_bytes",
      "WAL position up to which everything was received; 0 before the first stream", label);
  flushed_lsn_ = registry.gauges(
      "outbox_flushed_lsn_bytes",
      "WAL position up to which everything is durable in Kafka; 0 before the first stream", label);
  confirmed_lsn_ = registry.gauges(
      "outbox_confirmed_lsn_bytes",
      "WAL position last confirmed to the server by this process; 0 before the first stream",
      label);
  confirmed_age_ = registry.gauges(
      "outbox_confirmed_lsn_age_seconds",
      "Time since the slot's confirmed position was last seen to grow, by whichever relay; grows "
      "on "
      "a server that writes nothing, too, so look at outbox_slot_backlog_bytes with it",
      label);
  commit_to_ack_ = registry.histograms(
      "outbox_commit_to_ack_seconds",
      "From a transaction's commit to the acknowledgement of its last record, by the server's and "
      "the relay's clocks; one value a transaction with events",
      label, latency_bounds());
  batch_duration_ = registry.histograms(
      "outbox_batch_duration_seconds",
      "A batch is the group of transactions whose acknowledgement became complete in the same turn "
      "of the loop (exactly once: those of one Kafka transaction, committed together); from the "
      "hand-over of its oldest transaction's first record to that turn",
      label, latency_bounds());
}

void RelayFamilies::show(const Pipeline& pipeline, Now now) {
  const Labels label = {pipeline.name()};
  const Relay& relay = pipeline.relay();
  const AckTracker& tracker = relay.tracker();
  for (std::size_t i = 0; i < counters_.size(); ++i) {
    counters_[i].with(label).set_total(static_cast<double>(relay.counters().*kCounters[i].member));
  }
  pending_.with(label).set(static_cast<double>(relay.pending_records()));
  in_flight_records_.with(label).set(static_cast<double>(tracker.span()));
  in_flight_bytes_.with(label).set(static_cast<double>(tracker.in_flight_bytes()));
  const LimitConfig& limits = pipeline.config().limits;
  in_flight_records_limit_.with(label).set(static_cast<double>(limits.in_flight_records_max));
  in_flight_bytes_limit_.with(label).set(static_cast<double>(limits.in_flight_bytes_max));
  for (Phase phase : kPhases) {
    phase_.with({pipeline.name(), to_string(phase)}).set(relay.phase() == phase ? 1 : 0);
  }
  for (const char* role : kRoles) {
    role_.with({pipeline.name(), role}).set(std::string_view(pipeline.role()) == role ? 1 : 0);
  }
  operator_pause_.with(label).set(relay.paused_by_operator() ? 1 : 0);
  received_lsn_.with(label).set(as_double(tracker.received_lsn()));
  flushed_lsn_.with(label).set(as_double(tracker.flushed_lsn()));
  confirmed_lsn_.with(label).set(as_double(relay.confirmed_lsn()));
  const PipelineMeter& meter = pipeline.meter();
  confirmed_age_.with(label).set(seconds(now.mono - meter.confirmed_at()));
  commit_to_ack_.with(label).set_totals(meter.commit_to_ack().counts(),
                                        meter.commit_to_ack().sum());
  batch_duration_.with(label).set_totals(meter.batch_duration().counts(),
                                         meter.batch_duration().sum());
  show_age(pipeline, now);
  show_front(pipeline, now);
  show_traffic(pipeline);
  show_errors(pipeline);
}

void RelayFamilies::show_age(const Pipeline& pipeline, Now now) {
  const UnpublishedAge::Age age =
      pipeline.meter().age().at(now, pipeline.relay().tracker().oldest_commit_time());
  oldest_age_.with({pipeline.name()}).set(age.seconds);
  oldest_is_bound_.with({pipeline.name()}).set(age.upper_bound ? 1 : 0);
}

void RelayFamilies::show_front(const Pipeline& pipeline, Now now) {
  if (auto shown = fronts_.find(pipeline.name()); shown != fronts_.end()) {
    shown->second.clear();
    fronts_.erase(shown);
  }
  const Relay& relay = pipeline.relay();
  const std::optional<AckTracker::Front> front = relay.tracker().front();
  if (!front) {
    return;
  }
  const double age = std::chrono::duration<double>(now.wall - front->commit_time).count();
  if (age < kFrontSeconds) {
    return;
  }
  std::string topic(relay.traffic().topic_name(front->topic));
  std::string partition = partition_of(pipeline, topic, *front);
  if (front->place == AckTracker::Place::dead_letters) {
    topic = "dead_letters";
    partition = "none";
  }
  Gauge gauge = front_age_.with({pipeline.name(), topic, partition});
  gauge.set(age);
  fronts_[pipeline.name()] = gauge;
}

void RelayFamilies::show_traffic(const Pipeline& pipeline) {
  const std::string& name = pipeline.name();
  for (const TableTraffic& table : pipeline.relay().traffic().tables()) {
    const std::string shown = table.table.empty() ? "unknown" : table.table;
    received_records_.with({name, shown}).set_total(static_cast<double>(table.rows));
    received_bytes_.with({name, shown}).set_total(static_cast<double>(table.bytes));
  }
  stage_seconds_.with({name, "receive"}).set_total(pipeline.source().receive_seconds());
  stage_seconds_.with({name, "decode"}).set_total(pipeline.source().decode_seconds());
  if (pipeline.kafka() != nullptr) {
    const double produce = pipeline.kafka()->stats().produce_time.seconds();
    stage_seconds_.with({name, "produce"}).set_total(produce);
  }
}

void RelayFamilies::show_errors(const Pipeline& pipeline) {
  const std::string& name = pipeline.name();
  const PipelineMeter& meter = pipeline.meter();
  for (const auto& [type, count] : meter.failed_by_type()) {
    failed_.with({name, type}).set_total(static_cast<double>(count));
  }
  const auto side = [&](const char* which, const PipelineMeter::Counts& counts) {
    for (const auto& [code, count] : counts) {
      errors_.with({name, which, code}).set_total(static_cast<double>(count));
    }
  };
  side("database", meter.database_errors());
  side("row", meter.row_errors());
  side("stop", meter.stop_errors());
  const WalSource& source = pipeline.source();
  const auto link = [&](const char* which, std::uint64_t count) {
    reconnects_.with({name, which}).set_total(static_cast<double>(count));
  };
  link("stream", source.opens() > 0 ? source.opens() - 1 : 0);
  link("control", source.control_reconnects());
  if (const DeadLetterTable* table = pipeline.letter_table()) {
    link("dead_letters", table->reconnects());
  }
  if (const KafkaProducerSink* kafka = pipeline.kafka()) {
    side("kafka", kafka->stats().errors());
    link("kafka", kafka->stats().totals().disconnects);
  }
}

}  // namespace outrider
