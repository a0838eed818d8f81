// SinkStats: what the Kafka side counts of itself, for metrics.
//
// Plain numbers over all clients the sink has had. Nothing allocates once a topic or an error code
// is known. Thread: loop. Limits: kTopicsMax topics have a name of their own, the rest shares one;
// error codes are librdkafka's, of which there are about 200.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kafka/client_statistics.h"
#include "outrider/base/clock.h"
#include "outrider/base/latency_counts.h"
#include "outrider/base/stage_timer.h"

namespace outrider {

class SinkStats {
 public:
  static constexpr std::size_t kTopicsMax = 256;

  struct Topic {
    std::string name;
    std::uint64_t records = 0;
    std::uint64_t bytes = 0;  ///< Of keys and values.
  };

  /// One record is acknowledged. `handle`: where it went; stands for the same topic until
  /// client_gone().
  void delivered(const void* handle, std::string_view topic, std::uint64_t bytes, double seconds);
  /// A record or the client failed, by the error's name.
  void failed(const char* code);
  void take(ClientStatistics statistics, MonoTime now);
  /// The client is destroyed: its totals go to the sum, its present state is not known any more.
  void client_gone();

  const std::deque<Topic>& topics() const { return topics_; }
  const std::map<std::string, std::uint64_t, std::less<>>& errors() const { return errors_; }
  /// From handing a record to the client to the broker's acknowledgement.
  const LatencyCounts& produce_latency() const { return produce_latency_; }
  /// The last statistics of the present client; `statistics_at` tells how old.
  const std::optional<ClientStatistics>& statistics() const { return statistics_; }
  MonoTime statistics_at() const { return statistics_at_; }
  /// Totals over all clients; only the fields that are totals count.
  ClientStatistics totals() const;

  StageTimer produce_time;  ///< In the client's call that takes a record.

 private:
  struct CacheLine {
    const void* handle = nullptr;
    Topic* topic = nullptr;
  };

  Topic& topic_of(std::string_view name);

  std::deque<Topic> topics_;
  std::array<CacheLine, 64> cache_{};
  std::map<std::string, std::uint64_t, std::less<>> errors_;
  LatencyCounts produce_latency_;
  std::optional<ClientStatistics> statistics_;
  MonoTime statistics_at_{};
  ClientStatistics past_;  ///< Totals of clients that are gone.
};

}  // namespace outrider
