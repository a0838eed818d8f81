#include "app/metrics_docs.h"

#include "app/pipeline_metrics.h"
#include "outrider/base/clock.h"
#include "outrider/observe/metrics.h"

namespace outrider {
namespace {

constexpr char kIntro[] = R"(# Metrics

<!-- Made from the registered families. Do not edit; run: )"
                          R"(outrider metrics-docs > docs/METRICS.md -->

`GET /metrics` on `http.listen` (by default `http://127.0.0.1:9640/metrics`) answers in Prometheus'
text format. A pipeline is one value of the label `pipeline`; a family without a value yet has no
line. Totals begin at 0 with each start of the process. Positions are bytes of WAL, so differences
of two of them are bytes. What is worth an alert: `outbox_oldest_unconfirmed_age_seconds` rising,
`outbox_events_refused_total` above 0, and, in PostgreSQL, the WAL that the slot retains
([OPERATIONS](OPERATIONS.md)).

| metric | type | labels | meaning |
|---|---|---|---|
)";

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
    out += "| `" + family.name + "` | " + to_string(family.type) + " | " + labels + " | " +
           family.help + " |\n";
  }
  return out;
}

}  // namespace outrider
