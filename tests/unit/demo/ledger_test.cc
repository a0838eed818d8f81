#include "demo/ledger.h"

#include <gtest/gtest.h>

namespace outrider::demo {
namespace {

using namespace std::chrono_literals;

Order order(const std::string& id, std::int64_t number, const std::string& key = "a") {
  return {id, "topic", key, "{\"number\": " + std::to_string(number) + "}", number, MonoTime(1s)};
}

ReadRecord record_of(const Order& order) {
  return {order.topic, 0, 0, order.key, order.payload, order.id, order.committed_at + 3ms};
}

TEST(Ledger, CountsWhatIsMissingUntilItArrives) {
  Ledger ledger;
  ledger.committed(order("1", 1));
  ledger.committed(order("2", 2));
  EXPECT_EQ(ledger.missing_count(), 2U);
  ledger.arrived(record_of(order("1", 1)));
  EXPECT_EQ(ledger.missing_count(), 1U);
  EXPECT_EQ(ledger.relayed_count(), 1U);
  EXPECT_TRUE(ledger.has_arrived("1"));
  EXPECT_FALSE(ledger.has_arrived("2"));
}

TEST(Ledger, TakesASecondRecordOfAnIdAsARepetition) {
  Ledger ledger;
  ledger.committed(order("1", 1));
  ledger.committed(order("2", 2));
  ledger.arrived(record_of(order("1", 1)));
  ledger.arrived(record_of(order("2", 2)));
  ledger.arrived(record_of(order("1", 1)));
  EXPECT_EQ(ledger.repeated_count(), 1U);
  EXPECT_EQ(ledger.changed_count(), 0U);
  EXPECT_EQ(ledger.disorder_count(), 0U) << "only first appearances are in order";
  EXPECT_EQ(ledger.missing_count(), 0U);
}

TEST(Ledger, SeesThatARepetitionIsNotTheSame) {
  Ledger ledger;
  ledger.committed(order("1", 1));
  ledger.arrived(record_of(order("1", 1)));
  for (int field = 0; field < 4; ++field) {
    ReadRecord again = record_of(order("1", 1));
    if (field == 0) again.partition = 1;
    if (field == 1) again.key = "b";
    if (field == 2) again.value = "{}";
    if (field == 3) again.topic = "other";
    ledger.arrived(again);
  }
  EXPECT_EQ(ledger.changed_count(), 4U);
}

TEST(Ledger, SeesRecordsThatNobodyCommitted) {
  Ledger ledger;
  ledger.rolled_back("1");
  ledger.arrived(record_of(order("1", 1)));
  ledger.arrived(record_of(order("stranger", 1)));
  EXPECT_EQ(ledger.uncommitted_count(), 2U);
  EXPECT_EQ(ledger.rolled_back_count(), 1U);
}

TEST(Ledger, SeesOtherBytesThanCommitted) {
  Ledger ledger;
  ledger.committed(order("1", 1));
  ReadRecord record = record_of(order("1", 1));
  record.value += " ";
  ledger.arrived(record);
  EXPECT_EQ(ledger.wrong_count(), 1U);
}

TEST(Ledger, JudgesOrderByTopicAndKey) {
  Ledger ledger;
  for (const Order& each : {order("1", 1), order("2", 2), order("3", 1, "b")}) {
    ledger.committed(each);
  }
  ledger.arrived(record_of(order("2", 2)));
  ledger.arrived(record_of(order("3", 1, "b")));
  EXPECT_EQ(ledger.disorder_count(), 0U);
  ledger.arrived(record_of(order("1", 1)));
  EXPECT_EQ(ledger.disorder_count(), 1U);
}

TEST(Ledger, MeasuresFromTheCommitAndNeverBelowZero) {
  Ledger ledger;
  ledger.committed(order("1", 1));
  ledger.committed(order("2", 2));
  EXPECT_EQ(ledger.latency_ms("1"), std::nullopt);
  ledger.arrived(record_of(order("1", 1)));
  ReadRecord early = record_of(order("2", 2));
  early.arrived_at = MonoTime();
  ledger.arrived(early);
  EXPECT_DOUBLE_EQ(ledger.latency_ms("1").value_or(-1), 3.0);
  EXPECT_DOUBLE_EQ(ledger.latency_ms("2").value_or(-1), 0.0);
}

TEST(NumberInPayload, ReadsWhatJsonbPrints) {
  EXPECT_EQ(number_in_payload(R"({"cents": 5, "number": 42})"), 42);
  EXPECT_EQ(number_in_payload(R"({"number":7,"order":1})"), 7);
  EXPECT_EQ(number_in_payload(R"({"order": 1})"), std::nullopt);
  EXPECT_EQ(number_in_payload(R"({"number": )"), std::nullopt);
  EXPECT_EQ(number_in_payload(R"({"number": "x"})"), std::nullopt);
}

TEST(Percentile, IsTheNearestRank) {
  EXPECT_DOUBLE_EQ(percentile({}, 0.5), 0);
  EXPECT_DOUBLE_EQ(percentile({7}, 0.99), 7);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0.99), 4);
  EXPECT_DOUBLE_EQ(percentile({4, 1, 3, 2}, 0), 1);
}

}  // namespace
}  // namespace outrider::demo
