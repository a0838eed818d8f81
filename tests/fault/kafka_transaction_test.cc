// Exactly once against the mock cluster: what is delivered, and what a bad day does to it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fault/sink_driver.h"

namespace outrider {
namespace {

using namespace std::chrono_literals;
using test::kIdentity;
using test::kTopic;
using test::lsn;
using test::MockBroker;
using test::SinkDriver;
using test::whole_at;
using testing::HasSubstr;

constexpr const char* kPositions = "outrider.positions";

class KafkaTransaction : public testing::Test {
 protected:
  KafkaTransaction() {
    broker_.create_topic(kPositions, 1);
    broker_.create_topic(kTopic, 1);
  }

  std::unique_ptr<SinkDriver> make_driver() {
    auto driver = std::make_unique<SinkDriver>(broker_.bootstrap_servers());
    driver->settings().delivery.guarantee = Delivery::exactly_once;
    driver->settings().delivery.transaction_ms = 20;
    return driver;
  }

  /// Hand over [from, to), each a PostgreSQL transaction that ends at its number.
  static bool produce_marked(SinkDriver& driver, std::uint64_t from, std::uint64_t to) {
    std::uint64_t next = from;
    return driver.turn_until([&] {
      while (next < to) {
        const auto status = driver.try_produce(next);
        if (!status || *status == ProduceStatus::busy || !driver.lost_.empty()) break;
        driver.sink().mark(whole_at(next + 1), true, SinkDriver::now());
        ++next;
      }
      return next == to || !driver.lost_.empty() || driver.end_;
    });
  }

  MockBroker broker_;
};

TEST_F(KafkaTransaction, DeliveredOnlyWhenCommittedTogetherWithThePosition) {
  auto driver = make_driver();
  EXPECT_EQ(driver->try_produce(0).value(), ProduceStatus::busy) << "no session yet";
  ASSERT_TRUE(driver->open_session()) << driver->sink().trouble();
  EXPECT_TRUE(driver->sink().transactional());
  ASSERT_TRUE(driver->produce_all(0, 10));
  ASSERT_TRUE(driver->turn_until([&] { return driver->accepted_.size() == 10; }));
  driver->turn_until([] { return false; }, 200ms);
  EXPECT_TRUE(driver->delivered_.empty()) << "no mark covers them";
  driver->sink().mark(whole_at(77), true, SinkDriver::now());
  ASSERT_TRUE(driver->turn_until([&] { return driver->delivered_.size() == 10; }));
  EXPECT_EQ(driver->sink().confirm_limit(), lsn(77));
  EXPECT_TRUE(driver->sink().healthy()) << driver->sink().trouble();
  auto next = make_driver();
  ASSERT_TRUE(next->open_session());
  ASSERT_TRUE(next->sink().stored());
  EXPECT_TRUE(next->sink().stored()->exactly_once);
  EXPECT_EQ(next->sink().stored()->point, whole_at(77));
  EXPECT_EQ(next->sink().confirm_limit(), lsn(77));
}

TEST_F(KafkaTransaction, ManyTransactionsOneAfterTheOther) {
  auto driver = make_driver();
  driver->settings().delivery.transaction_records_max = 50;
  ASSERT_TRUE(driver->open_session());
  ASSERT_TRUE(produce_marked(*driver, 0, 2'000));
  ASSERT_TRUE(driver->turn_until([&] { return driver->delivered_.size() == 2'000; }));
  EXPECT_EQ(driver->delivered_, test::numbers_up_to(2'000));
  EXPECT_EQ(driver->sink().confirm_limit(), lsn(2'000));
  EXPECT_GE(test::read_topic(broker_.bootstrap_servers(), kPositions).size(), 40u);
  EXPECT_TRUE(driver->lost_.empty());
}

TEST_F(KafkaTransaction, RefusedRecordAbortsAndNothingOfItIsDelivered) {
  auto driver = make_driver();
  driver->settings().delivery.transaction_ms = 300;
  ASSERT_TRUE(driver->open_session());
  ASSERT_TRUE(produce_marked(*driver, 0, 5));
  ASSERT_TRUE(driver->turn_until([&] { return driver->accepted_.size() == 5; }));
  broker_.push_errors(test::kProduceRequest, {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE});
  ASSERT_TRUE(produce_marked(*driver, 5, 8));
  ASSERT_TRUE(driver->turn_until([&] { return !driver->lost_.empty(); }));
  ASSERT_FALSE(driver->refused_.empty());
  EXPECT_GE(driver->refused_[0].sequence, 5u);
  EXPECT_EQ(driver->refused_[0].error.kind, ErrorKind::poison);
  EXPECT_EQ(driver->refused_[0].topic, kTopic);
  EXPECT_EQ(driver->lost_[0].kind, ErrorKind::transient);
  EXPECT_TRUE(driver->delivered_.empty());
  driver->turn_until([] { return false; }, 400ms);
  EXPECT_TRUE(driver->delivered_.empty());
  driver->sink().restart(SinkDriver::now());
  driver->lost_.clear();
  ASSERT_TRUE(driver->open_session());
  EXPECT_FALSE(driver->sink().stored()) << "nothing was committed";
  ASSERT_TRUE(produce_marked(*driver, 10, 18));
  ASSERT_TRUE(driver->turn_until([&] { return driver->delivered_.size() == 8; }));
  EXPECT_EQ(driver->sink().confirm_limit(), lsn(18));
}

TEST_F(KafkaTransaction, CommitIsResumedUntilItsOutcomeIsKnown) {
  auto driver = make_driver();
  ASSERT_TRUE(driver->open_session());
  broker_.push_errors(test::kEndTxnRequest, {RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
                                             RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS,
                                             RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS});
  ASSERT_TRUE(produce_marked(*driver, 0, 5));
  ASSERT_TRUE(driver->turn_until([&] { return driver->delivered_.size() == 5; }));
  broker_.set_round_trip(1'500ms);
  ASSERT_TRUE(produce_marked(*driver, 5, 10));
  ASSERT_TRUE(driver->turn_until([&] { return driver->delivered_.size() == 10; }, 20s));
  EXPECT_TRUE(driver->lost_.empty());
}

TEST_F(KafkaTransaction, FencedRelayIsToldByItsOwnCode) {
  auto driver = make_driver();
  ASSERT_TRUE(driver->open_session());
  broker_.push_errors(test::kEndTxnRequest, {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH});
  ASSERT_TRUE(produce_marked(*driver, 0, 5));
  ASSERT_TRUE(driver->turn_until([&] { return !driver->lost_.empty(); }));
  EXPECT_EQ(driver->lost_[0].kind, ErrorKind::fatal);
  EXPECT_EQ(driver->lost_[0].code, "_FENCED");
  EXPECT_THAT(driver->lost_[0].hint, HasSubstr("only one may"));
  EXPECT_TRUE(driver->delivered_.empty());
  EXPECT_EQ(driver->sink().confirm_limit(), Lsn{});
}

TEST_F(KafkaTransaction, FencedWhileProducingIsToldTheSameWay) {
  auto driver = make_driver();
  ASSERT_TRUE(driver->open_session());
  broker_.push_errors(test::kProduceRequest, {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH});
  ASSERT_TRUE(produce_marked(*driver, 0, 5));
  ASSERT_TRUE(driver->turn_until([&] { return !driver->lost_.empty(); }));
  EXPECT_EQ(driver->lost_[0].kind, ErrorKind::fatal);
  EXPECT_EQ(driver->lost_[0].code, "_FENCED");
  EXPECT_TRUE(driver->refused_.empty()) << "no record is at fault";
}

TEST_F(KafkaTransaction, TransactionThatTheBrokerTimedOutIsBegunAnew) {
  auto driver = make_driver();
  driver->settings().delivery.transaction_timeout_ms = 1'000;
  driver->settings().delivery.transaction_max_ms = 900;
  ASSERT_TRUE(driver->open_session());
  ASSERT_TRUE(driver->produce_all(0, 5));
  ASSERT_TRUE(driver->turn_until([&] { return driver->accepted_.size() == 5; }));
  std::this_thread::sleep_for(1'100ms);  // The relay is frozen.
  broker_.push_errors(test::kEndTxnRequest, {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH});
  driver->sink().mark(whole_at(5), true, SinkDriver::now());
  ASSERT_TRUE(driver->turn_until([&] { return !driver->lost_.empty(); }));
  EXPECT_EQ(driver->lost_[0].kind, ErrorKind::transient);
  EXPECT_THAT(driver->lost_[0].message, HasSubstr("was open for"));
}

TEST_F(KafkaTransaction, TopicThatMayNotEnterIsRefusedWithEverySuspect) {
  auto driver = make_driver();
  ASSERT_TRUE(driver->open_session());
  broker_.push_errors(test::kAddPartitionsToTxnRequest,
                      {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED});
  ASSERT_TRUE(driver->produce_all(0, 3));
  ASSERT_TRUE(driver->turn_until([&] { return !driver->lost_.empty(); })) << "without any mark";
  ASSERT_EQ(driver->refused_.size(), 3u);
  EXPECT_EQ(driver->refused_[0].error.kind, ErrorKind::configuration);
  EXPECT_EQ(driver->refused_[0].topic, kTopic);
  EXPECT_EQ(driver->lost_[0].kind, ErrorKind::transient);
}

TEST_F(KafkaTransaction, ExpiredTransactionalIdIsRecoveredFrom) {
  auto driver = make_driver();
  ASSERT_TRUE(driver->open_session());
  broker_.push_errors(test::kAddPartitionsToTxnRequest,
                      {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING});
  std::uint64_t next = 0;
  std::vector<std::uint64_t> seen;
  ASSERT_TRUE(driver->turn_until([&] {
    if (!driver->lost_.empty()) {
      EXPECT_EQ(driver->lost_[0].kind, ErrorKind::transient) << driver->lost_[0].message;
      driver->lost_.clear();
      driver->sink().restart(SinkDriver::now());
      driver->sink().open_session(kIdentity, SinkDriver::now());
      next = driver->delivered_.size();
    }
    while (next < 5) {
      const auto status = driver->try_produce(next);
      if (!status || *status == ProduceStatus::busy) break;
      driver->sink().mark(whole_at(++next), true, SinkDriver::now());
    }
    return driver->delivered_.size() == 5;
  }));
}

TEST_F(KafkaTransaction, CoordinatorThatIsNotThereYetIsWaitedFor) {
  broker_.push_errors(
      test::kInitProducerIdRequest,
      std::vector<rd_kafka_resp_err_t>(5, RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS));
  auto driver = make_driver();
  ASSERT_TRUE(driver->open_session());
  EXPECT_FALSE(driver->end_);
}

TEST_F(KafkaTransaction, TimeoutAboveTheBrokersIsAConfigurationErrorWithTheNumber) {
  broker_.push_errors(test::kInitProducerIdRequest,
                      {RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT});
  auto driver = make_driver();
  driver->settings().delivery.transaction_timeout_ms = 3'600'000;
  EXPECT_FALSE(driver->open_session());
  ASSERT_TRUE(driver->end_);
  EXPECT_EQ(driver->end_->kind, ErrorKind::configuration);
  EXPECT_THAT(driver->end_->message, HasSubstr("3600000"));
  EXPECT_THAT(driver->end_->message, HasSubstr("transaction.max.timeout.ms"));
}

TEST_F(KafkaTransaction, ForbiddenTransactionalIdIsAConfigurationError) {
  broker_.push_errors(test::kInitProducerIdRequest,
                      {RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED});
  auto driver = make_driver();
  EXPECT_FALSE(driver->open_session());
  ASSERT_TRUE(driver->end_);
  EXPECT_EQ(driver->end_->kind, ErrorKind::configuration);
  EXPECT_THAT(driver->end_->hint, HasSubstr("transactional id"));
}

TEST_F(KafkaTransaction, LargeOneIsSplitAtARow) {
  auto driver = make_driver();
  driver->settings().delivery.transaction_records_max = 10;
  ASSERT_TRUE(driver->open_session());
  std::uint64_t next = 0;
  ASSERT_TRUE(driver->turn_until([&] {
    while (next < 25) {
      const auto status = driver->try_produce(next);
      if (!status || *status == ProduceStatus::busy) break;
      ResumePoint point = whole_at(100);
      point.partial_commit_lsn = lsn(150);
      point.partial_rows = ++next;
      driver->sink().mark(point, false, SinkDriver::now());
    }
    return next == 25;
  }));
  ASSERT_TRUE(driver->turn_until([&] { return driver->delivered_.size() == 22; }));
  EXPECT_EQ(driver->sink().confirm_limit(), lsn(100));
  auto next_relay = make_driver();
  ASSERT_TRUE(next_relay->open_session());
  ASSERT_TRUE(next_relay->sink().stored());
  EXPECT_EQ(next_relay->sink().stored()->point.partial_rows, 22u);
  EXPECT_EQ(next_relay->sink().stored()->point.partial_commit_lsn, lsn(150));
}

TEST_F(KafkaTransaction, LargeOneEndsTheRelayIfItMayNotBeSplit) {
  auto driver = make_driver();
  driver->settings().delivery.transaction_records_max = 10;
  driver->settings().delivery.on_large_transaction = OnLargeTransaction::stop;
  ASSERT_TRUE(driver->open_session());
  static_cast<void>(driver->produce_all(0, 11));
  driver->turn_until([&] { return driver->end_.has_value(); }, 2s);
  ASSERT_TRUE(driver->end_);
  EXPECT_EQ(driver->end_->kind, ErrorKind::configuration);
  EXPECT_THAT(driver->end_->hint, HasSubstr("transaction_records_max"));
  EXPECT_TRUE(driver->delivered_.empty());
}

TEST_F(KafkaTransaction, IdlePositionsAreWrittenAtMostOnceASecond) {
  auto driver = make_driver();
  ASSERT_TRUE(driver->open_session());
  std::uint64_t position = 1'000;
  driver->turn_until(
      [&] {
        driver->sink().reserve(lsn(++position), SinkDriver::now());
        return false;
      },
      2'500ms);
  const auto stored = test::read_topic(broker_.bootstrap_servers(), kPositions).size();
  EXPECT_GE(stored, 2u);
  EXPECT_LE(stored, 3u);
  EXPECT_GT(driver->sink().confirm_limit(), lsn(1'000));
  EXPECT_LE(driver->sink().confirm_limit(), lsn(position));
}

TEST_F(KafkaTransaction, StreamStartWithinOneBeginsAnew) {
  auto driver = make_driver();
  ASSERT_TRUE(driver->open_session());
  ASSERT_TRUE(driver->produce_all(0, 5));
  EXPECT_FALSE(driver->open_session());
  ASSERT_FALSE(driver->lost_.empty());
  EXPECT_EQ(driver->lost_[0].kind, ErrorKind::transient);
  driver->sink().restart(SinkDriver::now());
  driver->lost_.clear();
  ASSERT_TRUE(driver->open_session());
}

TEST_F(KafkaTransaction, EndsSoonWithOneOpen) {
  auto driver = make_driver();
  ASSERT_TRUE(driver->open_session());
  ASSERT_TRUE(driver->produce_all(0, 500));
  const auto begin = std::chrono::steady_clock::now();
  driver->destroy_sink();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
}

}  // namespace
}  // namespace outrider
