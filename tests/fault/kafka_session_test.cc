// Sessions and witnesses against the mock cluster: what is stored, and what confirms the slot.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fault/sink_driver.h"
#include "kafka/position_record.h"

namespace outrider {
namespace {

using namespace std::chrono_literals;
using test::kIdentity;
using test::kTopic;
using test::lsn;
using test::MockBroker;
using test::SinkDriver;
using testing::HasSubstr;

constexpr const char* kPositions = "outrider.positions";
constexpr std::uint64_t kAhead = 16 * 1024 * 1024;

std::size_t stored_records(const MockBroker& broker) {
  return test::read_topic(broker.bootstrap_servers(), kPositions).size();
}

TEST(KafkaSession, OpensWithNothingStoredAndConfirmsOnlyWhatAWitnessCovers) {
  MockBroker broker;
  broker.create_topic(kPositions, 1);
  SinkDriver driver(broker.bootstrap_servers());
  EXPECT_FALSE(driver.sink().session_open());
  EXPECT_EQ(driver.sink().confirm_limit(), Lsn{});
  ASSERT_TRUE(driver.open_session()) << driver.sink().trouble();
  EXPECT_FALSE(driver.sink().stored());
  EXPECT_EQ(driver.sink().confirm_limit(), Lsn{});
  driver.sink().reserve(lsn(1'000), SinkDriver::now());
  ASSERT_TRUE(driver.turn_until([&] { return driver.sink().confirm_limit() >= lsn(1'000); }));
  EXPECT_EQ(driver.sink().confirm_limit(), lsn(1'000 + kAhead));
  EXPECT_TRUE(driver.delivered_.empty()) << "a witness is no record of the relay's";
}

TEST(KafkaSession, NextRelayReadsTheWitness) {
  MockBroker broker;
  broker.create_topic(kPositions, 1);
  {
    SinkDriver driver(broker.bootstrap_servers());
    ASSERT_TRUE(driver.open_session());
    driver.sink().reserve(lsn(1'000), SinkDriver::now());
    ASSERT_TRUE(driver.turn_until([&] { return driver.sink().confirm_limit().is_valid(); }));
  }
  SinkDriver other(broker.bootstrap_servers());
  SlotIdentity slot = kIdentity;
  slot.slot = "another";
  ASSERT_TRUE(other.open_session(slot));
  EXPECT_FALSE(other.sink().stored());
  SinkDriver next(broker.bootstrap_servers());
  ASSERT_TRUE(next.open_session());
  ASSERT_TRUE(next.sink().stored());
  EXPECT_EQ(next.sink().stored()->identity, kIdentity);
  EXPECT_EQ(next.sink().stored()->point.lsn, lsn(1'000 + kAhead));
  EXPECT_EQ(next.sink().stored()->flushed, lsn(1'000));
  EXPECT_FALSE(next.sink().stored()->exactly_once);
  EXPECT_NE(next.sink().stored()->writer, next.sink().writer()) << "another process signed it";
  EXPECT_EQ(next.sink().confirm_limit(), Lsn{}) << "each session signs one of its own first";
  next.sink().reserve(lsn(1'000), SinkDriver::now());
  ASSERT_TRUE(next.turn_until([&] { return next.sink().confirm_limit().is_valid(); }));
}

TEST(KafkaSession, ACleanStopLeavesAnExactWitness) {
  MockBroker broker;
  broker.create_topic(kPositions, 1);
  {
    SinkDriver driver(broker.bootstrap_servers());
    ASSERT_TRUE(driver.open_session());
    driver.sink().reserve(lsn(1'000), SinkDriver::now());
    ASSERT_TRUE(driver.turn_until([&] { return driver.sink().confirm_limit().is_valid(); }));
    driver.sink().reserve_exactly(lsn(1'234), SinkDriver::now());
    ASSERT_TRUE(driver.turn_until([&] { return driver.sink().confirm_limit() == lsn(1'234); }));
  }
  SinkDriver next(broker.bootstrap_servers());
  ASSERT_TRUE(next.open_session());
  ASSERT_TRUE(next.sink().stored());
  EXPECT_EQ(next.sink().stored()->point.lsn, lsn(1'234));
}

TEST(KafkaSession, RecordOfAnotherSystemIsStoredButConfirmsNothing) {
  MockBroker broker;
  broker.create_topic(kPositions, 1);
  {
    SinkDriver driver(broker.bootstrap_servers());
    ASSERT_TRUE(driver.open_session());
    driver.sink().reserve(lsn(1'000), SinkDriver::now());
    ASSERT_TRUE(driver.turn_until([&] { return driver.sink().confirm_limit().is_valid(); }));
  }
  SinkDriver next(broker.bootstrap_servers());
  SlotIdentity restored = kIdentity;
  restored.system_id = "8";
  ASSERT_TRUE(next.open_session(restored));
  ASSERT_TRUE(next.sink().stored());
  EXPECT_EQ(next.sink().stored()->identity.system_id, kIdentity.system_id);
  EXPECT_EQ(next.sink().confirm_limit(), Lsn{});
}

TEST(KafkaSession, IdleAndSlowFlowsWriteOneWitness) {
  MockBroker broker;
  broker.create_topic(kPositions, 1);
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.open_session());
  std::uint64_t position = 1'000;
  driver.turn_until(
      [&] {
        driver.sink().reserve(lsn(++position), SinkDriver::now());
        return false;
      },
      2'500ms);
  EXPECT_EQ(stored_records(broker), 1u);
  const int turns_before = driver.turns_;
  driver.turn_until([] { return false; }, 500ms);
  EXPECT_LT(driver.turns_ - turns_before, 60) << "nothing spins";
}

TEST(KafkaSession, BrokerDownKeepsItClosedAndNamesTheTopic) {
  MockBroker broker;
  broker.create_topic(kPositions, 1);
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.turn_until([&] { return driver.sink().healthy(); }));
  broker.set_down();
  driver.sink().open_session(kIdentity, SinkDriver::now());
  driver.turn_until([] { return false; }, 1'500ms);
  EXPECT_FALSE(driver.sink().session_open());
  EXPECT_FALSE(driver.sink().healthy());
  EXPECT_FALSE(driver.end_);
  broker.set_up();
  EXPECT_TRUE(driver.turn_until([&] { return driver.sink().session_open(); }, 15s));
}

TEST(KafkaSession, ForbiddenTopicIsAConfigurationErrorWithAWayOut) {
  MockBroker broker;
  broker.create_topic(kPositions, 1);
  broker.set_topic_error(kPositions, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
  SinkDriver driver(broker.bootstrap_servers());
  EXPECT_FALSE(driver.open_session());
  ASSERT_TRUE(driver.end_);
  EXPECT_EQ(driver.end_->kind, ErrorKind::configuration);
  EXPECT_THAT(driver.end_->message, HasSubstr(kPositions));
  EXPECT_THAT(driver.end_->hint, HasSubstr("delivery.witness: false"));
}

TEST(KafkaSession, WithoutWitnessItIsOpenAtOnceAndLimitsNothing) {
  MockBroker broker;
  SinkDriver driver(broker.bootstrap_servers());
  driver.settings().delivery.witness = false;
  driver.sink().open_session(kIdentity, SinkDriver::now());
  EXPECT_TRUE(driver.sink().session_open());
  EXPECT_FALSE(driver.sink().stored());
  EXPECT_EQ(driver.sink().confirm_limit(), Lsn::max());
}

TEST(KafkaSession, RefusedWitnessIsAConfigurationErrorNeverAStall) {
  MockBroker broker;
  broker.create_topic(kPositions, 1);
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.open_session());
  broker.push_errors(test::kProduceRequest, {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED});
  driver.sink().reserve(lsn(1'000), SinkDriver::now());
  ASSERT_TRUE(driver.turn_until([&] { return driver.end_.has_value(); }));
  EXPECT_EQ(driver.end_->kind, ErrorKind::configuration);
  EXPECT_THAT(driver.end_->message, HasSubstr(kPositions));
  EXPECT_EQ(driver.sink().confirm_limit(), Lsn{});
}

TEST(KafkaSession, WitnessesDoNotDisturbRecordsAndARestartKeepsTheLimit) {
  MockBroker broker;
  broker.create_topic(kPositions, 1);
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.open_session());
  driver.sink().reserve(lsn(1'000), SinkDriver::now());
  ASSERT_TRUE(driver.produce_all(0, 200));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 200; }));
  ASSERT_TRUE(driver.turn_until([&] { return driver.sink().confirm_limit().is_valid(); }));
  driver.sink().restart(SinkDriver::now());
  EXPECT_EQ(driver.sink().confirm_limit(), lsn(1'000 + kAhead)) << "it stays durable";
  EXPECT_FALSE(driver.sink().session_open());
  ASSERT_TRUE(driver.open_session());
  ASSERT_TRUE(driver.sink().stored());
  EXPECT_EQ(driver.sink().stored()->writer, driver.sink().writer());
  EXPECT_EQ(driver.sink().confirm_limit(), Lsn{}) << "a session signs its own";
  driver.sink().reserve(lsn(1'000), SinkDriver::now());
  ASSERT_TRUE(driver.turn_until([&] { return driver.sink().confirm_limit().is_valid(); }));
  ASSERT_TRUE(driver.produce_all(200, 300));
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 300; }));
}

TEST(KafkaSession, StreamStartWithRecordsUnderWayLosesNone) {
  MockBroker broker;
  broker.create_topic(kPositions, 1);
  broker.create_topic(kTopic, 1);
  SinkDriver driver(broker.bootstrap_servers());
  ASSERT_TRUE(driver.open_session());
  ASSERT_TRUE(driver.produce_all(0, 500));
  ASSERT_TRUE(driver.open_session());
  ASSERT_TRUE(driver.turn_until([&] { return driver.delivered_.size() == 500; }));
  EXPECT_TRUE(driver.lost_.empty());
}

}  // namespace
}  // namespace outrider
