#include "demo/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider::demo {
namespace {

using testing::ElementsAre;

TEST(Grouped, PutsACommaBeforeEachThreeDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1'000), "1,000");
  EXPECT_EQ(grouped(1'234'567), "1,234,567");
}

TEST(Megabytes, AreOfAMillionBytes) { EXPECT_EQ(megabytes(1'000'000), "1024.0 MB"); }

TEST(Padded, NeverCuts) {
  EXPECT_EQ(padded("ab", 4), "ab  ");
  EXPECT_EQ(padded("abcdef", 4), "abcdef");
}

TEST(Report, RemembersWhatDidNotHold) {
  Report report;
  EXPECT_TRUE(report.check(true, "fine"));
  EXPECT_FALSE(report.check(false, "one record lost"));
  EXPECT_THAT(report.failures(), ElementsAre("one record lost"));
}

}  // namespace
}  // namespace outrider::demo
