#include "app/metrics_docs.h"

#include <string_view>

#include "app/pipeline_metrics.h"
#include "outrider/base/clock.h"
#include "outrider/observe/metrics.h"

namespace outrider {
namespace {

constexpr char kIntro[] = R"(# Metrics

<!-- Made from the registered families. Do not edit; run: )"
                          R"(outrider metrics-docs > docs/METRICS.md -->

`GET /metrics` on `http.listen` (by default `http://127.0.0.1:9640/metrics`) answers in Prometheus'
text format. A pipeline is one value of the label `pipeline`. Counters begin at 0 with each start of
the process and only grow; a family, or a value of a label, that has not occurred has no line yet.
Labels whose values come from data are bounded: past a limit (200 sets for most) the rest is counted
under `other`.

What a value is worth when its source is gone (column *stays*):

- **live**: the relay's own state, true at the moment of the scrape. When the relay is stopped,
  frozen or dead nothing answers: Prometheus shows `up` 0, and no series goes on.
- **server**: asked over the control connection every `source.watch_interval_ms` (1 s), while
  streaming and as a standby. Without that connection the line disappears;
  `outbox_slot_seen_age_seconds` stays.
- **table**: counted every 10 s over the dead letters' own connection, by the active relay. Without
  it the line disappears; `outbox_dead_letters_seen_age_seconds` stays.
- **client**: from the Kafka client's statistics, every 5 s. After 15 s without, and while a new
  client is made, the line disappears; `outbox_kafka_statistics_age_seconds` stays.

The age of the oldest unpublished row is `outbox_oldest_unconfirmed_age_seconds`. It rises when the
broker is down (exact), when the database is cut off or hangs, when only standbys are left (an upper
bound, `outbox_oldest_age_is_upper_bound` is 1), and while a row waits behind poison (exact). A
relay that is stopped, frozen, or ended on poison shows as `up` 0. `outbox_events_pending` counts
rows the relay has; what is still in the server's log is `outbox_slot_backlog_bytes`. What to do
about each is in [OPERATIONS](OPERATIONS.md).

| metric | type | unit | labels | stays | meaning |
|---|---|---|---|---|---|
)";

const char* unit_of(const MetricInfo& family) {
  const std::string_view name = family.name;
  constexpr std::string_view kTotal = "_total";
  const std::string_view stem =
      name.ends_with(kTotal) ? name.substr(0, name.size() - kTotal.size()) : name;
  if (stem.ends_with("_seconds")) {
    return "s";
  }
  return stem.ends_with("_bytes") || name.ends_with("_bytes_limit") ? "bytes" : "";
}

/// By the names, so that a family says it where it is registered.
const char* source_of(const MetricInfo& family) {
  const std::string_view name = family.name;
  if (family.type != MetricType::gauge || name.find("_seen_age_") != std::string_view::npos ||
      name == "outbox_kafka_statistics_age_seconds" || name == "outbox_kafka_healthy") {
    return "live";
  }
  if (name.starts_with("outbox_slot_") || name.starts_with("outbox_server_")) {
    return "server";
  }
  if (name.starts_with("outbox_dead_letter")) {
    return "table";
  }
  return name.starts_with("outbox_kafka_") ? "client" : "live";
}

}  // namespace

std::string metrics_markdown() {
  MetricsRegistry registry;
  const SystemClock clock;
  const PipelineMetrics metrics(registry, clock);
  std::string out = kIntro;
  for (const MetricInfo& family : registry.families()) {
    std::string labels;
    for (const std::string& label : family.labels) {
      labels += (labels.empty() ? "`" : ", `") + label + "`";
    }
    out += "| `" + family.name + "` | " + to_string(family.type) + " | " + unit_of(family) + " | " +
           labels + " | " + source_of(family) + " | " + family.help + " |\n";
  }
  return out;
}

}  // namespace outrider
