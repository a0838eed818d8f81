// NdjsonSink: the sink of `run --dry-run`. Each record becomes one line of JSON on a stream.
//
// Keys, values and headers are text where they are valid UTF-8, else {"base64": "…"}. This is the
// one place that shows payloads, because that is what it is asked for. Every record counts as
// delivered at once; the relay of a dry run confirms nothing. Thread: loop; a slow reader of the
// output blocks it, which is what one wants of a dry run.
#pragma once

#include <cstdio>
#include <deque>
#include <string>

#include "outrider/relay/ports.h"

namespace outrider {

class NdjsonSink final : public EventSink {
 public:
  explicit NdjsonSink(std::FILE* out) : out_(out) {}

  Result<> drive(Now now) override;
  Result<ProduceStatus> produce(const KafkaRecord& record, std::uint64_t sequence,
                                Now now) override;
  bool next_report(SinkReport& report) override;
  void restart(Now) override { delivered_.clear(); }
  bool healthy() const override { return true; }
  std::string trouble() const override { return {}; }
  /// What was printed is flushed and reported in the next turn, which has to come at once.
  std::optional<MonoTime> deadline() const override {
    return delivered_.empty() ? std::nullopt : std::optional(MonoTime{});
  }

 private:
  std::FILE* out_;
  std::string line_;
  std::deque<std::uint64_t> delivered_;
};

/// The line for one record, without the line break.
std::string record_as_json(const KafkaRecord& record);

}  // namespace outrider
