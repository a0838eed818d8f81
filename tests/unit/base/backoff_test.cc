#include "outrider/base/backoff.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

using std::chrono::milliseconds;

TEST(Backoff, GrowsToTheCapAndStaysInsideItsJitter) {
  Backoff backoff(milliseconds(100), milliseconds(1'000), 7);
  milliseconds ceiling{100};
  for (int i = 0; i < 20; ++i) {
    milliseconds delay = backoff.next();
    EXPECT_GE(delay, ceiling / 2);
    EXPECT_LE(delay, ceiling);
    ceiling = std::min(milliseconds(1'000), ceiling * 2);
  }
  EXPECT_EQ(backoff.failures(), 20U);
}

TEST(Backoff, BeginsAgainAfterReset) {
  Backoff backoff(milliseconds(10), milliseconds(10'000), 7);
  for (int i = 0; i < 8; ++i) {
    backoff.next();
  }
  backoff.reset();
  EXPECT_EQ(backoff.failures(), 0U);
  EXPECT_LE(backoff.next(), milliseconds(10));
}

TEST(Backoff, TheSameSeedGivesTheSameDelays) {
  Backoff one(milliseconds(100), milliseconds(5'000), 42);
  Backoff two(milliseconds(100), milliseconds(5'000), 42);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(one.next(), two.next());
  }
}

}  // namespace
}  // namespace outrider
