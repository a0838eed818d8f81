#include "postgres/silence_judge.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

using std::chrono::milliseconds;
using Verdict = SilenceJudge::Verdict;

constexpr auto kUnknown = WalsenderActivity::unknown;

MonoTime at(int ms) { return MonoTime(std::chrono::seconds(100)) + milliseconds(ms); }

class SilenceJudgeTest : public ::testing::Test {
 protected:
  SilenceJudgeTest() { judge_.restart(at(0)); }

  /// Silent since the start, probed at 1000, overdue from 2000.
  void probe() { ASSERT_EQ(judge_.judge(at(1000), at(0), kUnknown), Verdict::probe); }

  SilenceJudge judge_{milliseconds(1000)};
};

TEST_F(SilenceJudgeTest, ProbesBeforeItJudges) {
  EXPECT_EQ(judge_.judge(at(999), at(0), kUnknown), Verdict::fine);
  probe();
  EXPECT_EQ(judge_.judge(at(1001), at(0), kUnknown), Verdict::fine);
}

TEST_F(SilenceJudgeTest, AnIdleLinkThatAnswersLivesForEver) {
  for (int round = 0; round < 10; ++round) {
    int start = round * 1000;
    EXPECT_EQ(judge_.judge(at(start + 1000), at(start), kUnknown), Verdict::probe);
    EXPECT_EQ(judge_.judge(at(start + 1001), at(start + 1000), kUnknown), Verdict::fine);
  }
}

TEST_F(SilenceJudgeTest, AsksWhatTheWalsenderDoesBeforeItJudges) {
  probe();
  EXPECT_EQ(judge_.overdue_since(), at(2000));
  EXPECT_EQ(judge_.judge(at(2000), at(0), kUnknown), Verdict::ask);
  EXPECT_EQ(judge_.deadline(), at(3000));
}

TEST_F(SilenceJudgeTest, ToleratesAServerThatDecodes) {
  probe();
  for (int ms = 2000; ms < 20'000; ms += 1000) {
    EXPECT_EQ(judge_.judge(at(ms), at(0), WalsenderActivity::working), Verdict::fine) << ms;
  }
}

TEST_F(SilenceJudgeTest, CallsALinkDeadWhenTheWalsenderHadNothingElseToDo) {
  probe();
  EXPECT_EQ(judge_.judge(at(2001), at(0), WalsenderActivity::waiting), Verdict::dead);
}

TEST_F(SilenceJudgeTest, CallsALinkDeadWhenTheWalsenderIsGone) {
  probe();
  EXPECT_EQ(judge_.judge(at(2001), at(0), WalsenderActivity::gone), Verdict::dead);
}

TEST_F(SilenceJudgeTest, CallsALinkDeadWhenNobodyAnswersAtAll) {
  probe();
  EXPECT_EQ(judge_.judge(at(2999), at(0), kUnknown), Verdict::ask);
  EXPECT_EQ(judge_.judge(at(3000), at(0), kUnknown), Verdict::dead);
}

TEST_F(SilenceJudgeTest, StartsAnewAfterAPause) {
  probe();
  judge_.restart(at(10'000));
  EXPECT_EQ(judge_.judge(at(10'001), at(0), kUnknown), Verdict::fine);
  EXPECT_EQ(judge_.deadline(), at(11'000));
}

TEST(WalsenderActivity, IsReadFromItsWaitEvent) {
  EXPECT_EQ(activity_of(false, ""), WalsenderActivity::gone);
  EXPECT_EQ(activity_of(true, ""), WalsenderActivity::working);
  EXPECT_EQ(activity_of(true, "ReorderBufferWrite"), WalsenderActivity::working);
  EXPECT_EQ(activity_of(true, "WalSenderMain"), WalsenderActivity::waiting);
  EXPECT_EQ(activity_of(true, "WalSenderWaitForWAL"), WalsenderActivity::waiting);
  EXPECT_EQ(activity_of(true, "WalSenderWaitForWal"), WalsenderActivity::waiting);
  EXPECT_EQ(activity_of(true, "WalSenderWriteData"), WalsenderActivity::waiting);
  EXPECT_EQ(activity_of(true, "ClientWrite"), WalsenderActivity::waiting);
}

}  // namespace
}  // namespace outrider
