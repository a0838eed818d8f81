// ProducerSink: what it counts of itself (kafka/sink_stats.h).
#include <utility>

#include "kafka/producer_sink.h"
#include "outrider/base/murmur2.h"

namespace outrider {

void ProducerSink::take_statistics(rd_kafka_event_t* event) {
  const char* json = rd_kafka_event_stats(event);
  if (json == nullptr) return;
  if (auto statistics = read_client_statistics(json)) {
    stats_.take(std::move(*statistics), now_.mono);
  }
}

void ProducerSink::count_delivery(const rd_kafka_message_t& message) {
  const std::int64_t micros = rd_kafka_message_latency(&message);
  const char* name = message.rkt == nullptr ? "" : rd_kafka_topic_name(message.rkt);
  stats_.delivered(message.rkt, name, message.len + message.key_len,
                   static_cast<double>(micros) / 1e6);
}

std::optional<std::int32_t> ProducerSink::partition_of(std::string_view topic,
                                                       std::uint32_t key_hash) const {
  if (!murmur2_ || !stats_.statistics()) return std::nullopt;
  const auto& partitions = stats_.statistics()->partitions;
  const auto known = partitions.find(topic);
  if (known == partitions.end() || known->second <= 0) return std::nullopt;
  return murmur2_partition(key_hash, known->second);
}

}  // namespace outrider
