#include "kafka/record_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kHour = 3'600'000;
constexpr std::int64_t kNow = 1'800'000'000'000;

KafkaRecord record_at(std::int64_t timestamp_ms) {
  KafkaRecord record;
  record.topic = "t";
  record.timestamp_ms = timestamp_ms;
  return record;
}

TopicLimits kafka_four() {
  TopicLimits limits;
  limits.timestamp_after_max_ms = kHour;
  limits.timestamp_before_max_ms = INT64_MAX;
  limits.retention_ms = 168 * kHour;
  return limits;
}

TEST(RecordTime, TooFarAheadIsPoisonAndTheLimitItselfIsNot) {
  EXPECT_TRUE(check_time(record_at(kNow + kHour), kafka_four(), kNow));
  const auto refused = check_time(record_at(kNow + kHour + 1), kafka_four(), kNow);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::poison);
  EXPECT_EQ(refused.error().code, "INVALID_TIMESTAMP");
  EXPECT_THAT(refused.error().hint, HasSubstr("message.timestamp.after.max.ms"));
}

TEST(RecordTime, TooFarBackIsPoison) {
  TopicLimits limits = kafka_four();
  EXPECT_TRUE(check_time(record_at(-kNow), limits, kNow));
  limits.timestamp_before_max_ms = kHour;
  EXPECT_TRUE(check_time(record_at(kNow - kHour), limits, kNow));
  const auto refused = check_time(record_at(kNow - kHour - 1), limits, kNow);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "INVALID_TIMESTAMP");
  EXPECT_THAT(refused.error().hint, HasSubstr("message.timestamp.before.max.ms"));
}

TEST(RecordTime, BrokerStampsAndUnknownLimitsRefuseNothing) {
  TopicLimits limits = kafka_four();
  limits.log_append_time = true;
  EXPECT_TRUE(check_time(record_at(kNow + 9 * kHour), limits, kNow));
  EXPECT_FALSE(is_expired(0, limits, kNow));
  EXPECT_TRUE(check_time(record_at(kNow + 9 * kHour), TopicLimits{}, kNow));
  EXPECT_FALSE(is_expired(0, TopicLimits{}, kNow));
}

TEST(RecordTime, ExpiredIsOlderThanTheRetentionOfATopicThatDeletes) {
  TopicLimits limits = kafka_four();
  EXPECT_FALSE(is_expired(kNow - 168 * kHour, limits, kNow));
  EXPECT_TRUE(is_expired(kNow - 168 * kHour - 1, limits, kNow));
  limits.deletes = false;
  EXPECT_FALSE(is_expired(0, limits, kNow)) << "only compacted";
  limits.deletes = true;
  limits.retention_ms = -1;
  EXPECT_FALSE(is_expired(0, limits, kNow)) << "kept for ever";
}

TEST(RecordTime, ExpiredErrorNamesTopicAndWayOut) {
  const Error error = expired_error(record_at(kNow - 200 * kHour), kafka_four(), kNow);
  EXPECT_EQ(error.kind, ErrorKind::fatal);
  EXPECT_THAT(error.message, HasSubstr("topic \"t\""));
  EXPECT_THAT(error.hint, HasSubstr("delivery.on_expired"));
}

}  // namespace
}  // namespace outrider
