// The sink against a real broker named by OUTRIDER_TEST_KAFKA; without one these tests are skipped.
// What the mock cluster cannot show: DescribeConfigs, the made topic, fencing, true transactions.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "fault/sink_driver.h"

namespace outrider {
namespace {

using namespace std::chrono_literals;
using test::kIdentity;
using test::lsn;
using test::SinkDriver;
using test::whole_at;
using testing::HasSubstr;

double milliseconds_since(MonoTime begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

class KafkaReal : public testing::Test {
 protected:
  void SetUp() override {
    const char* servers = std::getenv("OUTRIDER_TEST_KAFKA");
    if (servers == nullptr) GTEST_SKIP() << "OUTRIDER_TEST_KAFKA names no broker";
    servers_ = servers;
    identity_ = kIdentity;
    identity_.slot = testing::UnitTest::GetInstance()->current_test_info()->name();
    topic_ = "real." + identity_.slot;
  }

  std::unique_ptr<SinkDriver> make_driver(Delivery guarantee) {
    auto driver = std::make_unique<SinkDriver>(servers_);
    driver->settings().delivery.guarantee = guarantee;
    driver->settings().topics.create = true;
    driver->settings().topics.partitions = 6;
    return driver;
  }

  /// A record of about 200 bytes with a key of its own.
  Result<ProduceStatus> produce(SinkDriver& driver, std::uint64_t sequence,
                                std::int64_t shift_ms = 0) {
    const std::string number = std::to_string(sequence);
    const std::string value = std::string(185, 'x') + number;
    KafkaRecord record;
    record.topic = topic_;
    record.key = number;
    record.value = value;
    record.headers = {{"id", number}};
    record.timestamp_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                              SinkDriver::now().wall.time_since_epoch())
                              .count() +
                          shift_ms;
    return driver.sink().produce(record, sequence, SinkDriver::now());
  }

  /// One-row transactions [from, to); the milliseconds until the last is delivered.
  double send(SinkDriver& driver, std::uint64_t from, std::uint64_t to) {
    const auto begin = std::chrono::steady_clock::now();
    std::uint64_t next = from;
    driver.delivered_.clear();
    EXPECT_TRUE(driver.turn_until(
        [&] {
          for (int i = 0;
               next < to && i < 2'000 && next - from - driver.delivered_.size() < 150'000; ++i) {
            const auto status = produce(driver, next);
            if (!status || *status == ProduceStatus::busy) break;
            driver.sink().mark(whole_at(++next), true, SinkDriver::now());
          }
          return driver.delivered_.size() == to - from || !driver.lost_.empty() || driver.end_;
        },
        60s));
    EXPECT_EQ(driver.delivered_.size(), to - from);
    return milliseconds_since(begin);
  }

  std::string servers_;
  std::string topic_;
  SlotIdentity identity_;
};

TEST_F(KafkaReal, WitnessTopicIsMadeAndReadBack) {
  const auto first_begin = std::chrono::steady_clock::now();
  auto first = make_driver(Delivery::at_least_once);
  ASSERT_TRUE(first->open_session(identity_)) << first->sink().trouble();
  std::printf("MEASURED first session %.0f ms\n", milliseconds_since(first_begin));
  first->sink().reserve(lsn(1'000), SinkDriver::now());
  ASSERT_TRUE(first->turn_until([&] { return first->sink().confirm_limit().is_valid(); }));
  const auto again_begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(first->open_session(identity_));
  std::printf("MEASURED session again on the same client %.0f ms\n",
              milliseconds_since(again_begin));
  auto next = make_driver(Delivery::at_least_once);
  ASSERT_TRUE(next->open_session(identity_));
  ASSERT_TRUE(next->sink().stored());
  EXPECT_EQ(next->sink().stored()->flushed, lsn(1'000));
  for (const std::string& line : next->log_)
    EXPECT_THAT(line, testing::Not(HasSubstr("compacted")));
}

TEST_F(KafkaReal, TransactionsCommitAndTheNextRelayFencesTheOld) {
  auto first = make_driver(Delivery::exactly_once);
  first->settings().delivery.transaction_ms = 1;
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(first->open_session(identity_)) << first->sink().trouble();
  std::printf("MEASURED first exactly-once session %.0f ms\n", milliseconds_since(begin));
  send(*first, 0, 10);
  std::vector<double> took;
  for (std::uint64_t i = 10; i < 210; ++i) took.push_back(send(*first, i, i + 1));
  std::sort(took.begin(), took.end());
  std::printf("MEASURED one record to committed: p50 %.1f ms, p99 %.1f ms, max %.1f ms\n",
              took[100], took[198], took[199]);
  std::printf("MEASURED longest drive() %.1f ms\n", first->longest_drive_ms_);
  auto second = make_driver(Delivery::exactly_once);
  const auto takeover = std::chrono::steady_clock::now();
  ASSERT_TRUE(second->open_session(identity_)) << second->sink().trouble();
  std::printf("MEASURED take-over session %.0f ms\n", milliseconds_since(takeover));
  ASSERT_TRUE(second->sink().stored());
  EXPECT_EQ(second->sink().stored()->point.lsn, lsn(210));
  first->delivered_.clear();
  ASSERT_TRUE(first->turn_until([&] {
    static_cast<void>(produce(*first, 210));
    first->sink().mark(whole_at(211), true, SinkDriver::now());
    return !first->lost_.empty();
  }));
  EXPECT_EQ(first->lost_[0].kind, ErrorKind::fatal) << first->lost_[0].message;
  EXPECT_EQ(first->lost_[0].code, "_FENCED");
  EXPECT_TRUE(first->delivered_.empty());
  send(*second, 210, 220);
}

TEST_F(KafkaReal, OpenTransactionOfADeadRelayIsAborted) {
  auto first = make_driver(Delivery::exactly_once);
  ASSERT_TRUE(first->open_session(identity_));
  send(*first, 0, 10);
  first->accepted_.clear();
  ASSERT_TRUE(
      first->turn_until([&] { return produce(*first, 10).value() == ProduceStatus::accepted; }));
  ASSERT_TRUE(first->turn_until([&] { return first->accepted_.size() == 1; }));
  auto second = make_driver(Delivery::exactly_once);
  ASSERT_TRUE(second->open_session(identity_)) << second->sink().trouble();
  EXPECT_EQ(second->sink().stored()->point.lsn, lsn(10)) << "the open one is not in";
}

TEST_F(KafkaReal, ThroughputOfBothGuarantees) {
  constexpr std::uint64_t kRecords = 200'000;
  auto plain = make_driver(Delivery::at_least_once);
  ASSERT_TRUE(plain->open_session(identity_));
  send(*plain, 0, 1'000);
  const double plain_ms = send(*plain, 1'000, kRecords);
  auto exact = make_driver(Delivery::exactly_once);
  ASSERT_TRUE(exact->open_session(identity_));
  send(*exact, 0, 1'000);
  const double exact_ms = send(*exact, 1'000, kRecords);
  std::printf("MEASURED %.0f records/s at least once, %.0f exactly once (%.2f)\n",
              kRecords / plain_ms * 1e3, kRecords / exact_ms * 1e3, plain_ms / exact_ms);
  std::printf("MEASURED longest drive() under load %.1f ms\n", exact->longest_drive_ms_);
  EXPECT_LT(exact_ms, plain_ms * 4);
}

TEST_F(KafkaReal, TransactionTimeoutAboveTheBrokersIsAConfigurationError) {
  auto driver = make_driver(Delivery::exactly_once);
  driver->settings().delivery.transaction_timeout_ms = 3'600'000;
  EXPECT_FALSE(driver->open_session(identity_));
  ASSERT_TRUE(driver->end_);
  EXPECT_EQ(driver->end_->kind, ErrorKind::configuration);
  EXPECT_THAT(driver->end_->message, HasSubstr("3600000"));
}

TEST_F(KafkaReal, IllDatedAndExpiredRecordsAreKnownBefore) {
  auto driver = make_driver(Delivery::at_least_once);
  driver->settings().topics.config = {{"retention.ms", "604800000"}};
  driver->settings().delivery.on_expired = OnExpired::stamp_now;
  std::optional<Error> refused;
  ASSERT_TRUE(driver->turn_until([&] {
    const auto status = produce(*driver, 0, 2 * 3'600'000);
    if (!status) refused = status.error();
    return refused.has_value();
  }));
  EXPECT_EQ(refused->kind, ErrorKind::poison) << refused->message;
  EXPECT_EQ(refused->code, "INVALID_TIMESTAMP");
  ASSERT_EQ(produce(*driver, 1, -30LL * 86'400'000).value(), ProduceStatus::accepted);
  ASSERT_TRUE(driver->turn_until([&] { return driver->delivered_.size() == 1; }));
  EXPECT_EQ(driver->sink().expired_records(), 1u);
  const auto stored = test::read_topic(servers_, topic_);
  ASSERT_EQ(stored.size(), 1u);
  ASSERT_EQ(stored[0].headers.size(), 2u);
  EXPECT_EQ(stored[0].headers[1].first, "outrider.original_timestamp");
  const auto now_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                          SinkDriver::now().wall.time_since_epoch())
                          .count();
  EXPECT_GT(stored[0].timestamp_ms, now_ms - 60'000);
  EXPECT_LT(std::stoll(stored[0].headers[1].second.value()), now_ms - 29LL * 86'400'000);
}

}  // namespace
}  // namespace outrider
