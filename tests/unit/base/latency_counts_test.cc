#include "outrider/base/latency_counts.h"

#include <gtest/gtest.h>

#include <chrono>

#include "outrider/base/stage_timer.h"

namespace outrider {
namespace {

TEST(LatencyCounts, PutsAValueAtABoundBelowIt) {
  LatencyCounts latency;
  latency.add(0.001);
  latency.add(0.0011);
  latency.add(1'000);
  EXPECT_EQ(latency.counts()[0], 1U);
  EXPECT_EQ(latency.counts()[1], 1U);
  EXPECT_EQ(latency.counts().back(), 1U);
}

TEST(LatencyCounts, AClockThatIsAheadCountsAsZero) {
  LatencyCounts latency;
  latency.add(-3);
  EXPECT_EQ(latency.counts()[0], 1U);
  EXPECT_DOUBLE_EQ(latency.sum(), 0);
}

TEST(StageTimer, EstimatesTheWholeFromASample) {
  StageTimer timer;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 3'200; ++i) {
    timer.run([&] {
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
      while (std::chrono::steady_clock::now() < until) {
      }
      return i;
    });
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(timer.seconds(), 0.5 * 3'200 * 20e-6);
  EXPECT_LT(timer.seconds(), 3 * took.count()) << "a busy machine may stop one sampled call";
}

TEST(StageTimer, GivesBackWhatTheCallGave) {
  StageTimer timer;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(timer.run([i] { return i; }), i);
  }
}

}  // namespace
}  // namespace outrider
