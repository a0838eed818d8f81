// PipelineMetrics: every number of a pipeline, as /metrics shows it.
//
// Registers the families once a process; each pipeline is one label value. Values are copied from
// the rooms' own counters when a scrape asks; a value whose source is lost disappears until it is
// known again. Thread: loop. The registry and the pipelines outlive it. What each name means is
// said where it is registered, and nowhere else: docs/METRICS.md is made from that.
#pragma once

#include <memory>
#include <vector>

#include "app/pipeline.h"
#include "outrider/observe/metrics.h"

namespace outrider {

struct RelayFamilies;
struct LoopFamilies;
struct SlotFamilies;
struct KafkaFamilies;
struct LetterFamilies;

class PipelineMetrics {
 public:
  PipelineMetrics(MetricsRegistry& registry, const Clock& clock);
  ~PipelineMetrics();

  /// From now on the pipeline is part of every scrape.
  void add(Pipeline& pipeline);
  /// One turn of the loop took from `begin` to `end`; before it, the loop slept.
  void observe_turn(Now begin, Now end);

 private:
  void collect();

  MetricsRegistry& registry_;
  const Clock& clock_;
  std::unique_ptr<RelayFamilies> relay_;
  std::unique_ptr<LoopFamilies> loop_;
  std::unique_ptr<SlotFamilies> slot_;
  std::unique_ptr<KafkaFamilies> kafka_;
  std::unique_ptr<LetterFamilies> letters_;
  std::vector<Pipeline*> pipelines_;
  std::uint64_t callback_ = 0;
};

}  // namespace outrider
