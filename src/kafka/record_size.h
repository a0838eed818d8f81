// How many bytes a record takes alone in a batch of Kafka's message format v2, uncompressed.
//
// That is what a broker compares with max.message.bytes when compression is off. Format: batch
// header of 61 bytes, then one record of zigzag varints (KIP-98).
#pragma once

#include <cstdint>
#include <string_view>

#include "outrider/base/result.h"
#include "outrider/model/kafka_record.h"

namespace outrider {

std::int64_t lone_batch_bytes(const KafkaRecord& record);

/// Kafka's rule for topic names: 1 to 249 of letters, digits, dot, underscore, hyphen; not "." or
/// "..".
bool is_legal_topic(std::string_view topic);

/// What can be refused without asking anybody; kind poison.
Result<> check_record(const KafkaRecord& record);

}  // namespace outrider
