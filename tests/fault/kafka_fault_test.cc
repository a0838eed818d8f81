// The real sink against librdkafka's mock cluster: what brokers do on bad days.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fault/sink_driver.h"

namespace outrider {
namespace {

using namespace std::chrono_literals;
using test::kTopic;
using test::MockBroker;
using test::numbers_up_to;
using test::SinkDriver;
using test::stored_numbers;
using testing::HasSubstr;

TEST(KafkaFault, DeliversInOrderWithBytesAndHeadersKept) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers());
  KafkaRecord record;
  record.topic = kTopic;
  record.key = std::string_view();
  record.value = std::nullopt;
  record.headers = {{"empty", std::string_view()}, {"null", std::nullopt}, {"id", "7"}};
  record.timestamp_ms = 1'700'000'000'123;
  ASSERT_TRUE(driver.turn_until([&] {
    auto status = driver.sink().produce(record, 0, SinkDriver::now());
    return status && *status == ProduceStatus::accepted;
  }));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 1; }));
  EXPECT_TRUE(driver.sink().healthy()) << driver.sink().trouble();
  const auto stored = test::read_topic(broker.bootstrap_servers(), kTopic);
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].key, "");
  EXPECT_EQ(stored[0].value, std::nullopt);
  EXPECT_EQ(stored[0].timestamp_ms, 1'700'000'000'123);
  ASSERT_EQ(stored[0].headers.size(), 3u);
  EXPECT_EQ(stored[0].headers[0].second, "");
  EXPECT_EQ(stored[0].headers[1].second, std::nullopt);
  EXPECT_EQ(stored[0].headers[2].second, "7");
}

TEST(KafkaFault, BrokerDownAndUpLosesNothingAndKeepsOrder) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.produce_all(0, 500));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 500; }));
  broker.set_down();
  ASSERT_TRUE(driver.produce_all(500, 2'000));
  ASSERT_TRUE(driver.turn_until([&] { return !driver.sink().healthy(); }));
  const int turns_before = driver.turns_;
  driver.turn_until([] { return false; }, 2s);
  EXPECT_LT(driver.turns_ - turns_before, 2'000 / 20 + 150) << "an outage must not spin";
  EXPECT_EQ(driver.delivered_.size(), 500u);
  EXPECT_THAT(driver.sink().trouble(), HasSubstr("no connection to Kafka"));
  broker.set_up();
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 2'000; }));
  EXPECT_TRUE(driver.turn_until([&] { return driver.sink().healthy(); }));
  EXPECT_TRUE(driver.refused_.empty());
  EXPECT_TRUE(driver.lost_.empty());
  EXPECT_LT(driver.log_.size(), 20u) << "a state change and a few lines, no flood";
  EXPECT_EQ(stored_numbers(broker), numbers_up_to(2'000));
}

TEST(KafkaFault, IdleSinkSeesTheEndOfAnOutageByItself) {
  MockBroker broker;
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.turn_until([&] { return driver.sink().healthy(); }));
  broker.set_down();
  ASSERT_TRUE(driver.turn_until([&] { return !driver.sink().healthy(); }));
  broker.set_up();
  EXPECT_TRUE(driver.turn_until([&] { return driver.sink().healthy(); }));
  EXPECT_FALSE(driver.end_) << driver.end_->message;
}

TEST(KafkaFault, TooFewReplicasAreRetriedTwentyTimes) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers());
  broker.push_errors(test::kProduceRequest,
                     std::vector<rd_kafka_resp_err_t>(20, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS));
  ASSERT_TRUE(driver.produce_all(0, 10));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 10; }));
  EXPECT_TRUE(driver.refused_.empty());
  EXPECT_EQ(stored_numbers(broker), numbers_up_to(10));
}

TEST(KafkaFault, RefusedBatchIsPoisonAndNothingLaterPassesIt) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers(), {{"batch.num.messages", "10"}});
  ASSERT_TRUE(driver.produce_all(0, 1));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 1; }));
  broker.push_errors(test::kProduceRequest, {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE});
  for (std::uint64_t i = 1; i < 200; ++i) static_cast<void>(driver.try_produce(i));
  ASSERT_TRUE(driver.turn_until([&] { return !driver.lost_.empty(); }));
  ASSERT_FALSE(driver.refused_.empty());
  EXPECT_LE(driver.refused_.size(), 10u) << "purged records are not culprits";
  for (const Refused& refused : driver.refused_) {
    EXPECT_EQ(refused.error.kind, ErrorKind::poison);
    EXPECT_THAT(refused.error.hint, HasSubstr("message.max.bytes"));
    EXPECT_THAT(refused.error.message, HasSubstr(kTopic));
  }
  EXPECT_EQ(driver.lost_[0].kind, ErrorKind::transient);
  EXPECT_THAT(driver.lost_[0].message, HasSubstr("Message size too large"));
  const std::uint64_t first = driver.refused_.front().sequence;
  for (std::uint64_t sequence : driver.delivered_) EXPECT_LT(sequence, first);
  EXPECT_EQ(driver.try_produce(999).value(), ProduceStatus::busy);
}

TEST(KafkaFault, SequenceDesyncLosesTheSinkAndRestartWorks) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.produce_all(0, 100));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 100; }));
  broker.push_errors(test::kProduceRequest, {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER});
  ASSERT_TRUE(driver.produce_all(100, 200));
  ASSERT_TRUE(driver.turn_until([&] { return !driver.lost_.empty(); }));
  EXPECT_EQ(driver.lost_[0].kind, ErrorKind::transient);
  driver.sink().restart(SinkDriver::now());
  driver.delivered_.clear();
  driver.refused_.clear();
  ASSERT_TRUE(driver.produce_all(1'000, 1'100));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 100; }));
  for (std::uint64_t sequence : driver.delivered_) EXPECT_GE(sequence, 1'000u);
  EXPECT_TRUE(driver.refused_.empty());
}

TEST(KafkaFault, RestartDropsReportsOfEarlierSequences) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.produce_all(0, 1));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 1; }));
  driver.delivered_.clear();
  broker.set_round_trip(200ms);
  for (std::uint64_t i = 1; i < 100; ++i) ASSERT_TRUE(driver.try_produce(i));
  driver.turn();
  driver.sink().restart(SinkDriver::now());
  broker.set_round_trip(0ms);
  ASSERT_TRUE(driver.produce_all(1'000, 1'010));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() >= 10; }));
  driver.turn_until([] { return false; }, 500ms);
  EXPECT_EQ(driver.delivered_.size(), 10u);
  for (std::uint64_t sequence : driver.delivered_) EXPECT_GE(sequence, 1'000u);
}

TEST(KafkaFault, LatencyCostsTimeOnly) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers());
  broker.set_round_trip(100ms);
  ASSERT_TRUE(driver.produce_all(0, 2'000));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 2'000; }));
  EXPECT_EQ(stored_numbers(broker), numbers_up_to(2'000));
}

TEST(KafkaFault, FullQueueIsBusyAndEveryRefusedHeaderListIsFreed) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers(), {{"queue.buffering.max.messages", "100"}});
  ASSERT_TRUE(driver.produce_all(0, 1));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 1; }));
  broker.set_down();
  std::uint64_t accepted = 1;
  for (int i = 0; i < 20'000; ++i) {
    const auto status = driver.try_produce(accepted);
    ASSERT_TRUE(status);
    if (*status == ProduceStatus::accepted) ++accepted;
  }
  EXPECT_LE(accepted, 102u);
  broker.set_up();
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == accepted; }));
  ASSERT_TRUE(driver.produce_all(accepted, 1'000));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 1'000; }));
  EXPECT_EQ(stored_numbers(broker), numbers_up_to(1'000));
}

TEST(KafkaFault, EndsWithinTwoSecondsWithBrokersDown) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.produce_all(0, 10));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 10; }));
  broker.set_down();
  ASSERT_TRUE(driver.produce_all(10, 1'000));
  driver.turn_until([] { return false; }, 300ms);
  const auto begin = std::chrono::steady_clock::now();
  driver.destroy_sink();
  const auto took = std::chrono::steady_clock::now() - begin;
  RecordProperty("destroy_us", static_cast<int>(took / 1us));
  EXPECT_LT(took, 2s);
}

TEST(KafkaFault, EndsWithinTwoSecondsWithBrokersUnreachable) {
  SinkDriver driver("192.0.2.1:9092,127.0.0.1:1");
  driver.turn_until([] { return false; }, 300ms);
  EXPECT_FALSE(driver.sink().healthy());
  EXPECT_EQ(driver.try_produce(0).value(), ProduceStatus::busy);
  const auto begin = std::chrono::steady_clock::now();
  driver.destroy_sink();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
}

TEST(KafkaFault, KnownTopicThatVanishesForAMomentLosesNothing) {
  MockBroker broker(3);
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers(), {{"topic.metadata.refresh.interval.ms", "100"}});
  ASSERT_TRUE(driver.produce_all(0, 10));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 10; }));
  broker.set_topic_error(kTopic, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  driver.turn_until([] { return false; }, 400ms);
  // As the relay does: a lost or doubtful record restarts the sink and rewinds to the first open.
  std::uint64_t next = 10;
  const auto rewind = [&] {
    driver.sink().restart(SinkDriver::now());
    next = driver.delivered_.size();
    driver.lost_.clear();
    driver.refused_.clear();
  };
  bool vanished = false;
  ASSERT_TRUE(driver.turn_until([&] {
    for (const Refused& refused : driver.refused_) {
      EXPECT_EQ(refused.error.kind, ErrorKind::transient) << refused.error.message;
    }
    if (!driver.lost_.empty() || !driver.refused_.empty()) rewind();
    if (!vanished && driver.sink().trouble().find("does not exist") != std::string::npos) {
      vanished = true;
      broker.set_topic_error(kTopic, RD_KAFKA_RESP_ERR_NO_ERROR);
    }
    while (next < 100) {
      const auto status = driver.try_produce(next);
      if (!status || *status == ProduceStatus::busy) break;
      ++next;
    }
    return driver.delivered_.size() == 100;
  }));
  EXPECT_TRUE(vanished);
  EXPECT_EQ(stored_numbers(broker), numbers_up_to(100));
}

TEST(KafkaFault, MissingTopicIsItsRowsTroubleAndAskedAboutAgain) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  broker.create_topic("other", 1);
  broker.set_topic_error(kTopic, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
  SinkDriver driver(broker.bootstrap_servers());
  std::optional<Error> fault;
  ASSERT_TRUE(driver.turn_until([&] {
    const auto status = driver.try_produce(0);
    if (!status) fault = status.error();
    return fault.has_value();
  }));
  EXPECT_EQ(fault->kind, ErrorKind::configuration);
  EXPECT_THAT(fault->message, HasSubstr(kTopic));
  EXPECT_THAT(fault->hint, HasSubstr("kafka.topics.create"));
  EXPECT_THAT(driver.sink().trouble(), HasSubstr("does not exist"));
  EXPECT_FALSE(driver.sink().healthy());
  ASSERT_TRUE(driver.turn_until([&] {
    return driver.try_produce(1, "other").value() == ProduceStatus::accepted;
  })) << "another topic is not concerned";
  broker.set_topic_error(kTopic, RD_KAFKA_RESP_ERR_NO_ERROR);
  ASSERT_TRUE(driver.turn_until([&] {
    const auto status = driver.try_produce(2);
    return status && *status == ProduceStatus::accepted;
  }));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 2; }));
  EXPECT_TRUE(driver.sink().healthy()) << driver.sink().trouble();
  EXPECT_FALSE(driver.end_);
}

TEST(KafkaFault, ForbiddenTopicIsAConfigurationErrorThatNamesIt) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  broker.set_topic_error(kTopic, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
  SinkDriver driver(broker.bootstrap_servers());
  std::optional<Error> fault;
  ASSERT_TRUE(driver.turn_until([&] {
    const auto status = driver.try_produce(0);
    if (!status) fault = status.error();
    return fault.has_value();
  }));
  EXPECT_EQ(fault->kind, ErrorKind::configuration);
  EXPECT_THAT(fault->message, HasSubstr(kTopic));
  EXPECT_THAT(fault->hint, HasSubstr("WRITE"));
  EXPECT_THAT(driver.sink().trouble(), HasSubstr(kTopic));
  EXPECT_FALSE(driver.end_) << "a topic's fault does not end the pipeline";
}

TEST(KafkaFault, ForbiddenWriteIsAConfigurationErrorThatNamesTheTopicForAWhile) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers());
  broker.push_errors(test::kProduceRequest, {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED});
  ASSERT_TRUE(driver.produce_all(0, 1));
  ASSERT_TRUE(driver.turn_until([&] { return !driver.lost_.empty(); }));
  ASSERT_EQ(driver.refused_.size(), 1u);
  EXPECT_EQ(driver.refused_[0].error.kind, ErrorKind::configuration);
  EXPECT_THAT(driver.refused_[0].error.message, HasSubstr(kTopic));
  driver.sink().restart(SinkDriver::now());
  const auto denied = driver.try_produce(0);
  ASSERT_FALSE(denied) << "the next try is not made at once";
  EXPECT_EQ(denied.error().kind, ErrorKind::configuration);
  EXPECT_THAT(driver.sink().trouble(), HasSubstr(kTopic));
  ASSERT_TRUE(driver.turn_until([&] {
    const auto status = driver.try_produce(0);
    return status && *status == ProduceStatus::accepted;
  }));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 1; }));
  EXPECT_EQ(driver.lost_.size(), 1u);
}

TEST(KafkaFault, MissingIdempotentWriteIsFoundInBoundedTimeAndNamesTheGrant) {
  MockBroker broker;
  broker.push_errors(
      test::kInitProducerIdRequest,
      std::vector<rd_kafka_resp_err_t>(50, RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED));
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.turn_until([&] { return !driver.lost_.empty(); }, 5s));
  EXPECT_EQ(driver.lost_[0].kind, ErrorKind::configuration);
  EXPECT_THAT(driver.lost_[0].hint, HasSubstr("IDEMPOTENT_WRITE"));
}

TEST(KafkaFault, PartitionOutOfRangeIsPoisonKnownOrNot) {
  MockBroker broker;
  broker.create_topic(kTopic, 2);
  SinkDriver driver(broker.bootstrap_servers());
  EXPECT_EQ(driver.try_produce(0, kTopic, -3).error().kind, ErrorKind::poison);
  std::optional<Error> error;
  ASSERT_TRUE(driver.turn_until([&] {
    const auto status = driver.try_produce(0, kTopic, 2);
    if (!status) error = status.error();
    return error || *status == ProduceStatus::accepted;
  }));
  if (!error) {
    ASSERT_TRUE(driver.turn_until([&] { return !driver.refused_.empty(); }));
    error = driver.refused_[0].error;
  }
  EXPECT_EQ(error->kind, ErrorKind::poison);
  EXPECT_THAT(error->message, HasSubstr("partition 2"));
  if (!driver.refused_.empty()) {
    ASSERT_TRUE(driver.turn_until([&] { return !driver.lost_.empty(); })) << "always follows";
    driver.sink().restart(SinkDriver::now());
  }
  ASSERT_TRUE(driver.turn_until(
      [&] { return driver.try_produce(1, kTopic, 1).value() == ProduceStatus::accepted; }));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 1; }));
}

TEST(KafkaFault, OversizeRecordIsPoisonBeforeTheBrokerSeesIt) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers());
  const std::string big(2'000'000, 'x');
  const std::string fits(900 * 1024, 'x');
  KafkaRecord record;
  record.topic = kTopic;
  record.value = fits;
  ASSERT_TRUE(driver.turn_until([&] {
    return driver.sink().produce(record, 0, SinkDriver::now()).value() == ProduceStatus::accepted;
  }));
  record.value = big;
  const auto status = driver.sink().produce(record, 1, SinkDriver::now());
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().kind, ErrorKind::poison);
  EXPECT_THAT(status.error().hint, HasSubstr("message.max.bytes"));
  EXPECT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 1; }));
}

TEST(KafkaFault, IdleSinkDrainsStatisticsAndRests) {
  MockBroker broker;
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers(), {{"statistics.interval.ms", "10"}});
  ASSERT_TRUE(driver.produce_all(0, 1));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 1; }));
  const int turns_before = driver.turns_;
  driver.turn_until([] { return false; }, 1s);
  EXPECT_GT(driver.turns_ - turns_before, 40);
  EXPECT_LT(driver.turns_ - turns_before, 400);
}

TEST(KafkaFault, LeaderMovesKeepOrder) {
  MockBroker broker(3);
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers());
  for (std::uint64_t round = 0; round < 6; ++round) {
    ASSERT_TRUE(driver.produce_all(round * 500, round * 500 + 500));
    broker.set_leader(kTopic, 0, static_cast<std::int32_t>(round % 3 + 1));
  }
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 3'000; }));
  EXPECT_TRUE(driver.refused_.empty());
  EXPECT_EQ(stored_numbers(broker), numbers_up_to(3'000));
}

}  // namespace
}  // namespace outrider
