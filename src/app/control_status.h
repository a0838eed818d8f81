// PipelineTarget: a running pipeline as the target of commands, and its status as JSON.
//
// The fields of a status are a contract with whoever parses them; they are written down in
// docs/adr/0016-control-socket.md. Owns nothing. Outlived by the pipeline. Thread: loop.
#pragma once

#include <string>

#include "app/control_target.h"
#include "app/pipeline.h"

namespace outrider {

class PipelineTarget final : public ControlTarget {
 public:
  explicit PipelineTarget(Pipeline& pipeline) : pipeline_(pipeline) {}

  const std::string& name() const override { return pipeline_.name(); }
  void append_status(JsonWriter& json, Now now) const override;
  void pause(Now now) override;
  void resume(Now now) override;
  DeadLetterPlace* letters() override { return pipeline_.dead_letters(); }
  Error no_letters() const override;
  bool start_retry(const RetryRequest& request) override;
  RetryProgress retry_progress() const override;

 private:
  void append_positions(JsonWriter& json) const;
  void append_counters(JsonWriter& json) const;
  void append_letters(JsonWriter& json) const;
  void append_links(JsonWriter& json) const;

  Pipeline& pipeline_;
};

}  // namespace outrider
