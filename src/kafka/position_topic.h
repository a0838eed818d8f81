// How the position topic is made: one partition, compacted, small segments.
//
// Small segments are compacted soon, so that a start reads little (Kafka's least size since 4.0 is
// a mebibyte). Used by the session, which makes the topic, and by the doctor, which only asks
// whether it could be made. Pure. Rules: docs/adr/0013.
#pragma once

#include "kafka/producer_config.h"
#include "outrider/config/config.h"

namespace outrider {

TopicConfig position_topic_config(const ProducerSettings& settings, bool create);

}  // namespace outrider
