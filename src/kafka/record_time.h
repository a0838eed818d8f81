// Whether a topic takes a record of this time, and keeps it: what can be known before producing.
//
// A topic with LogAppendTime stamps records itself, so nothing is asked there. Unknown limits are
// no limits: the broker decides then. Pure.
#pragma once

#include <cstdint>

#include "kafka/producer.h"
#include "outrider/base/result.h"
#include "outrider/model/kafka_record.h"

namespace outrider {

/// The topic would delete the record at its next retention check, acknowledged or not.
bool is_expired(std::int64_t timestamp_ms, const TopicLimits& limits, std::int64_t now_ms);

/// Kind poison if the topic refuses records of that time (the broker would refuse a whole batch).
Result<> check_time(const KafkaRecord& record, const TopicLimits& limits, std::int64_t now_ms);

/// What on_expired: stop says.
Error expired_error(const KafkaRecord& record, const TopicLimits& limits, std::int64_t now_ms);

}  // namespace outrider
