#include "kafka/log_limiter.h"

#include <gtest/gtest.h>

#include <string>

namespace outrider {
namespace {

using namespace std::chrono_literals;

TEST(LogLimiter, PassesOneLineAnIntervalAndCountsTheRest) {
  LogLimiter limiter(30s);
  const MonoTime start{};
  EXPECT_EQ(limiter.pass("FAIL", start), 0u);
  EXPECT_EQ(limiter.pass("FAIL", start + 1s), std::nullopt);
  EXPECT_EQ(limiter.pass("FAIL", start + 2s), std::nullopt);
  EXPECT_EQ(limiter.pass("ERROR", start + 2s), 0u);
  EXPECT_EQ(limiter.pass("FAIL", start + 30s), 2u);
  EXPECT_EQ(limiter.pass("FAIL", start + 60s), 0u);
}

TEST(LogLimiter, FiveMinutesOfOutageAreAFewLines) {
  LogLimiter limiter(30s);
  int lines = 0;
  for (auto time = 0ms; time < 5min; time += 100ms) {
    lines += limiter.pass("FAIL", MonoTime{} + time).has_value() ? 1 : 0;
  }
  EXPECT_EQ(lines, 10);
}

TEST(LogLimiter, ManyKeysShareOneEntryPastTheLimit) {
  LogLimiter limiter(30s);
  for (std::size_t i = 0; i < LogLimiter::kKeysMax; ++i) {
    EXPECT_TRUE(limiter.pass("key" + std::to_string(i), MonoTime{}));
  }
  EXPECT_TRUE(limiter.pass("one more", MonoTime{}));
  EXPECT_FALSE(limiter.pass("and another", MonoTime{}));
}

}  // namespace
}  // namespace outrider
