// PipelineMetrics: every number of a pipeline, as /metrics shows it.
//
// Registers the families once a process; each pipeline is one label value. Values are copied from
// the core's counters when a scrape asks. Thread: loop. The registry and the pipelines outlive it.
#pragma once

#include <memory>
#include <vector>

#include "app/pipeline.h"
#include "outrider/observe/metrics.h"

namespace outrider {

class PipelineMetrics {
 public:
  PipelineMetrics(MetricsRegistry& registry, const Clock& clock);
  ~PipelineMetrics();

  /// From now on the pipeline is part of every scrape.
  void add(Pipeline& pipeline);
  /// One turn of the loop took so long.
  void observe_turn(double seconds);

 private:
  struct Families;
  void collect();

  MetricsRegistry& registry_;
  const Clock& clock_;
  std::unique_ptr<Families> families_;
  std::vector<Pipeline*> pipelines_;
  double longest_turn_ = 0;
  std::uint64_t callback_ = 0;
};

}  // namespace outrider
