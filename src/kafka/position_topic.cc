#include "kafka/position_topic.h"

namespace outrider {

TopicConfig position_topic_config(const ProducerSettings& settings, bool create) {
  TopicConfig config;
  config.create = create;
  config.partitions = 1;
  config.replication_factor = settings.topics.replication_factor;
  config.config = {{"cleanup.policy", "compact"},
                   {"segment.bytes", "1048576"},
                   {"segment.ms", "600000"},
                   {"min.cleanable.dirty.ratio", "0.01"}};
  return config;
}

}  // namespace outrider
