#include "app/pipeline_metrics.h"

#include "app/metric_families.h"
#include "app/version.h"

namespace outrider {

PipelineMetrics::PipelineMetrics(MetricsRegistry& registry, const Clock& clock)
    : registry_(registry),
      clock_(clock),
      relay_(std::make_unique<RelayFamilies>(registry)),
      loop_(std::make_unique<LoopFamilies>(registry)),
      slot_(std::make_unique<SlotFamilies>(registry)),
      kafka_(std::make_unique<KafkaFamilies>(registry)),
      letters_(std::make_unique<LetterFamilies>(registry)) {
  registry.gauges("outbox_build_info", "1; the version, from git, is the label", {"version"})
      .with({kVersion})
      .set(1);
  callback_ = registry_.on_collect([this] { collect(); });
}

PipelineMetrics::~PipelineMetrics() { registry_.remove_on_collect(callback_); }

void PipelineMetrics::add(Pipeline& pipeline) { pipelines_.push_back(&pipeline); }

void PipelineMetrics::observe_turn(Now begin, Now end) {
  loop_->observe_turn(begin, end);
  for (Pipeline* pipeline : pipelines_) {
    const Relay& relay = pipeline->relay();
    pipeline->meter().note_turn(pipeline->source().slot_health(), relay.tracker().flushed_lsn(),
                                relay.confirmed_lsn(), end);
  }
}

void PipelineMetrics::collect() {
  const Now now = clock_.now();
  loop_->show(now);
  for (const Pipeline* pipeline : pipelines_) {
    relay_->show(*pipeline, now);
    slot_->show(*pipeline, now);
    kafka_->show(*pipeline, now);
    letters_->show(*pipeline, now);
  }
}

}  // namespace outrider
