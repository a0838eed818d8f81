// The call that gives one record to librdkafka, with everything copied. Private to the room.
#pragma once

#include <cstdint>

#include "kafka/handles.h"
#include "outrider/model/kafka_record.h"

namespace outrider {

/// `opaque` comes back with the record's report. Null on success; on an error nothing was taken.
ErrorHandle hand_over(rd_kafka_t* client, rd_kafka_topic_t* topic, const KafkaRecord& record,
                      std::uintptr_t opaque);

}  // namespace outrider
