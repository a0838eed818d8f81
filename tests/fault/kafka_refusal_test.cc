// What the sink owes the relay when records are refused: every report, then the loss, in time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fault/sink_driver.h"

namespace outrider {
namespace {

using namespace std::chrono_literals;
using test::kTopic;
using test::MockBroker;
using test::SinkDriver;
using testing::HasSubstr;

TEST(KafkaRefusal, ClientSideRefusalIsFollowedByTheLossAndNothingLaterGetsIn) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  broker.create_topic("other", 1);
  SinkDriver driver(broker.bootstrap_servers(), {{"linger.ms", "700"},
                                                 {"topic.metadata.refresh.interval.ms", "50"},
                                                 {"topic.metadata.propagation.max.ms", "0"}});
  for (const char* topic : {"other", kTopic}) {
    ASSERT_TRUE(driver.turn_until(
        [&] { return driver.try_produce(0, topic).value() == ProduceStatus::accepted; }));
  }
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 2; }));
  for (std::uint64_t i = 1; i < 10; ++i) static_cast<void>(driver.try_produce(i, kTopic));
  for (std::uint64_t i = 10; i < 20; ++i) static_cast<void>(driver.try_produce(i, "other"));
  broker.set_topic_error(kTopic, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  ASSERT_TRUE(driver.turn_until([&] { return !driver.lost_.empty(); }));
  ASSERT_EQ(driver.refused_.size(), 9u);
  EXPECT_EQ(driver.refused_[0].error.kind, ErrorKind::transient);
  EXPECT_EQ(driver.lost_[0].kind, ErrorKind::transient);
  EXPECT_THAT(driver.lost_[0].message, HasSubstr(kTopic));
  EXPECT_EQ(driver.try_produce(99).value(), ProduceStatus::busy);
  driver.turn_until([] { return false; }, 800ms);
  EXPECT_EQ(test::read_topic(broker.bootstrap_servers(), "other").size(), 1u);
  EXPECT_EQ(driver.lost_.size(), 1u);
}

TEST(KafkaRefusal, RequestsUnderWayToOtherPartitionsGetTheirRealOutcome) {
  MockBroker broker(2);
  broker.create_topic(kTopic, 2);
  broker.set_leader(kTopic, 0, 1);
  broker.set_leader(kTopic, 1, 2);
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.turn_until(
      [&] { return driver.try_produce(0, kTopic, 0).value() == ProduceStatus::accepted; }));
  ASSERT_EQ(driver.try_produce(1, kTopic, 1).value(), ProduceStatus::accepted);
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 2; }));
  broker.set_round_trip(150ms);
  ASSERT_EQ(driver.try_produce(2, kTopic, 1).value(), ProduceStatus::accepted);
  driver.turn_until([] { return false; }, 60ms);
  broker.push_errors(test::kProduceRequest, {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE});
  ASSERT_EQ(driver.try_produce(3, kTopic, 0).value(), ProduceStatus::accepted);
  ASSERT_TRUE(driver.turn_until([&] { return !driver.lost_.empty(); }));
  EXPECT_EQ(driver.delivered_.size() + driver.refused_.size(), 4u);
  EXPECT_EQ(driver.refused_.size(), 1u);
}

TEST(KafkaRefusal, LossComesInTimeWhenTheRestIsNotAnswered) {
  MockBroker broker(2);
  broker.create_topic(kTopic, 2);
  broker.set_leader(kTopic, 0, 1);
  broker.set_leader(kTopic, 1, 2);
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.turn_until(
      [&] { return driver.try_produce(0, kTopic, 0).value() == ProduceStatus::accepted; }));
  ASSERT_EQ(driver.try_produce(1, kTopic, 1).value(), ProduceStatus::accepted);
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 2; }));
  broker.set_round_trip(5s, 2);
  ASSERT_EQ(driver.try_produce(2, kTopic, 1).value(), ProduceStatus::accepted);
  driver.turn_until([] { return false; }, 50ms);
  broker.push_errors(test::kProduceRequest, {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE});
  ASSERT_EQ(driver.try_produce(3, kTopic, 0).value(), ProduceStatus::accepted);
  ASSERT_TRUE(driver.turn_until([&] { return !driver.refused_.empty(); }));
  EXPECT_TRUE(driver.turn_until([&] { return !driver.lost_.empty(); }, 1s));
  EXPECT_EQ(driver.delivered_.size(), 2u);
}

}  // namespace
}  // namespace outrider
