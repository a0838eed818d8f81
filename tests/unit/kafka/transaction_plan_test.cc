#include "kafka/transaction_plan.h"

#include <gtest/gtest.h>

#include <string>

namespace outrider {
namespace {

using namespace std::chrono_literals;
using Verdict = TransactionPlan::Verdict;

constexpr MonoTime kStart = MonoTime{} + 1h;

DeliveryConfig small() {
  DeliveryConfig config;
  config.transaction_records_max = 10;
  config.transaction_bytes_max = 1'000;
  config.transaction_ms = 100;
  config.transaction_max_ms = 1'000;
  return config;
}

ResumePoint point(std::uint64_t lsn, std::uint64_t rows = 0) {
  ResumePoint made;
  made.lsn = Lsn::from_wire(lsn);
  if (rows > 0) made.partial_commit_lsn = Lsn::from_wire(lsn + 1);
  made.partial_rows = rows;
  return made;
}

TEST(TransactionPlan, EmptyOneIsNeverCommitted) {
  TransactionPlan plan(small());
  plan.mark(point(5), true);
  EXPECT_TRUE(plan.empty());
  EXPECT_EQ(plan.judge(kStart + 1h), Verdict::go_on);
  EXPECT_FALSE(plan.deadline());
}

TEST(TransactionPlan, CommitsAtAWholeMarkOnceTimeIsUp) {
  TransactionPlan plan(small());
  plan.produced(10, kStart);
  EXPECT_EQ(plan.judge(kStart + 500ms), Verdict::go_on) << "no mark covers the record";
  plan.mark(point(7), true);
  EXPECT_EQ(plan.judge(kStart + 99ms), Verdict::go_on);
  EXPECT_EQ(plan.deadline(), kStart + 100ms);
  EXPECT_EQ(plan.judge(kStart + 100ms), Verdict::commit);
  EXPECT_EQ(plan.point(), point(7));
  plan.produced(10, kStart + 50ms);
  EXPECT_EQ(plan.judge(kStart + 200ms), Verdict::go_on) << "within the next transaction";
}

TEST(TransactionPlan, CommitsAtAWholeMarkOnceFull) {
  TransactionPlan records(small());
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(records.judge(kStart), Verdict::go_on);
    records.produced(1, kStart);
    records.mark(point(7), true);
  }
  EXPECT_EQ(records.judge(kStart), Verdict::commit);
  TransactionPlan bytes(small());
  bytes.produced(1'000, kStart);
  bytes.mark(point(7), true);
  EXPECT_EQ(bytes.judge(kStart), Verdict::commit);
}

TEST(TransactionPlan, SplitsOnlyWhatPassesALimitByItself) {
  TransactionPlan plan(small());
  for (int i = 0; i < 9; ++i) plan.produced(1, kStart);
  plan.mark(point(7), true);
  for (std::uint64_t row = 1; row <= 10; ++row) {
    plan.produced(1, kStart);
    plan.mark(point(7, row), false);
    EXPECT_EQ(plan.judge(kStart), Verdict::go_on) << row;
  }
  plan.produced(1, kStart);
  EXPECT_EQ(plan.judge(kStart), Verdict::go_on) << "not before a mark covers the row";
  plan.mark(point(7, 11), false);
  EXPECT_EQ(plan.judge(kStart), Verdict::split);
  EXPECT_EQ(plan.point(), point(7, 11));
}

TEST(TransactionPlan, SlowOneIsSplitInTime) {
  TransactionPlan plan(small());
  plan.produced(1, kStart);
  plan.mark(point(7, 1), false);
  EXPECT_EQ(plan.deadline(), kStart + 1s);
  EXPECT_EQ(plan.judge(kStart + 1s), Verdict::split);
}

TEST(TransactionPlan, LargeOneStopsIfItMayNotBeSplit) {
  DeliveryConfig config = small();
  config.on_large_transaction = OnLargeTransaction::stop;
  TransactionPlan plan(config);
  plan.produced(1'001, kStart);
  plan.mark(point(7, 1), false);
  EXPECT_EQ(plan.judge(kStart), Verdict::too_large);
  EXPECT_EQ(std::string(plan.passed_limit(kStart)), "transaction_bytes_max");
  plan.clear();
  plan.produced(1'001, kStart);
  plan.mark(point(8), true);
  EXPECT_EQ(plan.judge(kStart), Verdict::commit) << "it is whole, so nothing need be split";
}

TEST(TransactionPlan, AfterASplitTheRestCountsAnew) {
  TransactionPlan plan(small());
  for (int i = 0; i < 11; ++i) plan.produced(1, kStart);
  plan.mark(point(7, 11), false);
  ASSERT_EQ(plan.judge(kStart), Verdict::split);
  plan.clear();
  for (int i = 0; i < 10; ++i) plan.produced(1, kStart);
  plan.mark(point(7, 21), false);
  EXPECT_EQ(plan.judge(kStart), Verdict::go_on);
  plan.mark(point(9), true);
  EXPECT_EQ(plan.judge(kStart), Verdict::commit);
  EXPECT_EQ(plan.point(), point(9));
}

}  // namespace
}  // namespace outrider
