#include "app/unpublished_age.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

using std::chrono::seconds;

Lsn lsn(std::uint64_t position) { return Lsn::from_wire(position); }

class UnpublishedAgeTest : public ::testing::Test {
 protected:
  MonoTime at(int s) const { return start_ + seconds(s); }
  UnpublishedAge::Age age(int s, std::optional<WallTime> oldest = std::nullopt) const {
    return age_.at(Now{at(s), wall_ + seconds(s)}, oldest);
  }

  const MonoTime start_ = MonoTime{} + seconds(1'000);
  const WallTime wall_{seconds(1'700'000'000)};
  UnpublishedAge age_{start_, std::chrono::milliseconds(1'000)};
};

TEST_F(UnpublishedAgeTest, IsExactWhileAReceivedTransactionIsUnconfirmed) {
  const UnpublishedAge::Age shown = age(50, wall_ + seconds(10));
  EXPECT_DOUBLE_EQ(shown.seconds, 40);
  EXPECT_FALSE(shown.upper_bound);
}

TEST_F(UnpublishedAgeTest, IsNeverNegativeWhenTheServersClockIsAhead) {
  EXPECT_DOUBLE_EQ(age(50, wall_ + seconds(60)).seconds, 0);
}

TEST_F(UnpublishedAgeTest, IsZeroWhileTheEndOfTheWalWasReachedAMomentAgo) {
  age_.seen(at(10), lsn(100));
  age_.published(lsn(100));
  EXPECT_DOUBLE_EQ(age(13).seconds, 0);
  EXPECT_FALSE(age(13).upper_bound);
}

TEST_F(UnpublishedAgeTest, RisesAsABoundWhenNobodyCanTellTheEndAnyMore) {
  age_.seen(at(10), lsn(100));
  age_.published(lsn(100));
  EXPECT_DOUBLE_EQ(age(30).seconds, 20);
  EXPECT_TRUE(age(30).upper_bound);
}

TEST_F(UnpublishedAgeTest, RisesAsABoundWhileTheServerIsAheadAndNothingArrives) {
  age_.seen(at(10), lsn(100));
  age_.published(lsn(100));
  for (int s = 11; s <= 30; ++s) {
    age_.seen(at(s), lsn(200));
    age_.published(lsn(100));
  }
  EXPECT_DOUBLE_EQ(age(30).seconds, 20);
}

TEST_F(UnpublishedAgeTest, CountsFromTheQuestionNotFromTheMomentItsPositionIsReached) {
  age_.seen(at(10), lsn(100));
  age_.published(lsn(99));
  age_.published(lsn(100));
  EXPECT_DOUBLE_EQ(age(25).seconds, 15) << "what was committed at 11 s may still wait";
}

TEST_F(UnpublishedAgeTest, KeepsUpWithAServerThatIsAlwaysALittleAhead) {
  std::uint64_t end = 100;
  for (int s = 10; s < 60; ++s) {
    age_.seen(at(s), lsn(end));
    age_.published(lsn(end - 1));  // Never the newest end, always the one before.
    end += 100;
  }
  EXPECT_LE(age(60).seconds, 3);
  EXPECT_FALSE(age(60).upper_bound);
}

TEST_F(UnpublishedAgeTest, CountsFromTheStartUntilItWasCaughtUpOnce) {
  age_.seen(at(5), lsn(100));
  EXPECT_DOUBLE_EQ(age(20).seconds, 20);
  EXPECT_TRUE(age(20).upper_bound);
}

TEST_F(UnpublishedAgeTest, AnInvalidEndTellsNothing) {
  age_.seen(at(15), Lsn());
  age_.published(lsn(1'000));
  EXPECT_DOUBLE_EQ(age(20).seconds, 20);
}

TEST_F(UnpublishedAgeTest, ALongIntervalBetweenQuestionsIsNoDelay) {
  UnpublishedAge slow(start_, std::chrono::milliseconds(60'000));
  slow.seen(at(0), lsn(1));
  slow.published(lsn(1));
  EXPECT_DOUBLE_EQ(slow.at(Now{at(170), wall_}, std::nullopt).seconds, 0);
  EXPECT_DOUBLE_EQ(slow.at(Now{at(190), wall_}, std::nullopt).seconds, 190);
}

}  // namespace
}  // namespace outrider
