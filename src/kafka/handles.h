// One unique_ptr alias for each librdkafka type this room owns, with its deleter.
//
// Order of destruction matters: topics, options and events before their client; a client destroyed
// while a topic handle lives would wait for it. Not for other rooms: includes librdkafka's header.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>

namespace outrider {

template <auto kRelease>
struct KafkaRelease {
  template <typename T>
  void operator()(T* object) const {
    kRelease(object);
  }
};

/// Joins the client's threads, which takes as long as they need to notice (instance.h).
inline void destroy_kafka_client(rd_kafka_t* client) {
  rd_kafka_destroy_flags(client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

using KafkaHandle = std::unique_ptr<rd_kafka_t, KafkaRelease<destroy_kafka_client>>;
using ConfHandle = std::unique_ptr<rd_kafka_conf_t, KafkaRelease<rd_kafka_conf_destroy>>;
using QueueHandle = std::unique_ptr<rd_kafka_queue_t, KafkaRelease<rd_kafka_queue_destroy>>;
using EventHandle = std::unique_ptr<rd_kafka_event_t, KafkaRelease<rd_kafka_event_destroy>>;
using TopicHandle = std::unique_ptr<rd_kafka_topic_t, KafkaRelease<rd_kafka_topic_destroy>>;
using HeadersHandle = std::unique_ptr<rd_kafka_headers_t, KafkaRelease<rd_kafka_headers_destroy>>;
using ErrorHandle = std::unique_ptr<rd_kafka_error_t, KafkaRelease<rd_kafka_error_destroy>>;
using MetadataHandle =
    std::unique_ptr<const rd_kafka_metadata_t, KafkaRelease<rd_kafka_metadata_destroy>>;
using AdminOptionsHandle =
    std::unique_ptr<rd_kafka_AdminOptions_t, KafkaRelease<rd_kafka_AdminOptions_destroy>>;
using NewTopicHandle =
    std::unique_ptr<rd_kafka_NewTopic_t, KafkaRelease<rd_kafka_NewTopic_destroy>>;
using PartitionHandle =
    std::unique_ptr<rd_kafka_topic_partition_t, KafkaRelease<rd_kafka_topic_partition_destroy>>;
using ConfigResourceHandle =
    std::unique_ptr<rd_kafka_ConfigResource_t, KafkaRelease<rd_kafka_ConfigResource_destroy>>;

}  // namespace outrider
