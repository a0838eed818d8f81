// KafkaProducerSink: the EventSink that hands records to librdkafka's idempotent producer.
//
// Everything comes back as events on one queue, drained by the loop thread: delivery reports,
// client errors, log lines, answers about topics. A record's opaque is its sequence number, so
// nothing can dangle. After a refused or doubtful record the producer is fatal by design (gapless
// guarantee): SinkLost follows its real cause, the reports of records purged on the way are
// swallowed. Limits: as many records in flight as the client's queue holds (twice the flow gate's
// limits). Thread: loop; librdkafka's own threads run none of our code. The loop outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "kafka/producer_config.h"
#include "kafka/sink_stats.h"
#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "outrider/loop/event_loop.h"
#include "outrider/relay/ports.h"

namespace outrider {

/// Takes log lines; already limited in rate, never with a payload.
using LogFunction = std::function<void(LogLevel, std::string_view)>;

/// Yields the settings with their secrets resolved; called for every new producer, so that a
/// rotated secret is picked up.
using SettingsProvider = std::function<Result<ProducerSettings>()>;

/// What a topic's settings say about records; empty where the broker did not tell.
struct TopicLimits {
  std::optional<std::int64_t> message_bytes_max;  ///< A batch, as compressed.
  std::optional<std::int64_t> timestamp_after_max_ms;
  std::optional<std::int64_t> timestamp_before_max_ms;
  std::optional<std::int64_t> retention_ms;  ///< -1: for ever.
  bool log_append_time = false;
  std::optional<bool> compacts;  ///< cleanup.policy has "compact".
  bool deletes = true;           ///< cleanup.policy has "delete".
};

class KafkaProducerSink : public EventSink {
 public:
  static Result<std::unique_ptr<KafkaProducerSink>> create(EventLoop& loop,
                                                           SettingsProvider settings,
                                                           LogFunction log);

  /// Nothing before the topic was first produced to.
  virtual const TopicLimits* topic_limits(std::string_view topic) const = 0;

  /// Records handed over that were older than their topic keeps records (delivery.on_expired).
  virtual std::uint64_t expired_records() const = 0;

  /// What was acknowledged, how long it took, what failed and what the client says about itself.
  virtual const SinkStats& stats() const = 0;

  /// The partition of a record whose key has this murmur2 hash; nothing while the topic's size is
  /// not known, or where another partitioner is configured.
  virtual std::optional<std::int32_t> partition_of(std::string_view topic,
                                                   std::uint32_t key_hash) const = 0;
};

}  // namespace outrider
