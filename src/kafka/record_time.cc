#include "kafka/record_time.h"

#include <librdkafka/rdkafka.h>

#include <string>

namespace outrider {
namespace {

std::string seconds(std::int64_t milliseconds) { return std::to_string(milliseconds / 1'000); }

tl::unexpected<Error> refuse(const KafkaRecord& record, std::int64_t distance_ms, const char* way,
                             std::int64_t most_ms, const char* setting) {
  const std::string topic = "topic \"" + std::string(record.topic) + "\"";
  return fail(ErrorKind::poison,
              "the record is stamped " + seconds(distance_ms) + " s " + way + ", " + topic +
                  " takes at most " + seconds(most_ms) + " s",
              "correct the event's time, or raise " + std::string(setting) + " of the topic",
              rd_kafka_err2name(RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP));
}

}  // namespace

bool is_expired(std::int64_t timestamp_ms, const TopicLimits& limits, std::int64_t now_ms) {
  if (limits.log_append_time || !limits.deletes || !limits.retention_ms) return false;
  return *limits.retention_ms > 0 && now_ms - timestamp_ms > *limits.retention_ms;
}

Result<> check_time(const KafkaRecord& record, const TopicLimits& limits, std::int64_t now_ms) {
  if (limits.log_append_time) return {};
  const std::int64_t ahead_ms = record.timestamp_ms - now_ms;
  if (limits.timestamp_after_max_ms && ahead_ms > *limits.timestamp_after_max_ms) {
    return refuse(record, ahead_ms, "ahead", *limits.timestamp_after_max_ms,
                  "message.timestamp.after.max.ms");
  }
  if (limits.timestamp_before_max_ms && -ahead_ms > *limits.timestamp_before_max_ms) {
    return refuse(record, -ahead_ms, "back", *limits.timestamp_before_max_ms,
                  "message.timestamp.before.max.ms");
  }
  return {};
}

Error expired_error(const KafkaRecord& record, const TopicLimits& limits, std::int64_t now_ms) {
  const std::string topic = "topic \"" + std::string(record.topic) + "\"";
  return Error{ErrorKind::fatal,
               "a record of " + seconds(now_ms - record.timestamp_ms) + " s ago is older than " +
                   topic + " keeps records (" + seconds(limits.retention_ms.value_or(0)) +
                   " s): it would be acknowledged and then deleted",
               "raise retention.ms of the topic, or set delivery.on_expired to stamp_now or warn",
               "EXPIRED"};
}

}  // namespace outrider
