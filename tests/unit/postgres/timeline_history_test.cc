#include "postgres/timeline_history.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(TimelineHistory, SaysWhereEachAncestorEnded) {
  const auto forks = parse_timeline_history(
      "# a comment\n1\t0/3000158\tno recovery target specified\n\n2 1/A5 before 2026-11-30\n");
  ASSERT_EQ(forks.size(), 2U);
  EXPECT_EQ(forks.at(1), Lsn::parse("0/3000158"));
  EXPECT_EQ(forks.at(2), Lsn::parse("1/A5"));
}

TEST(TimelineHistory, PassesOverWhatIsNoLineOfIt) {
  EXPECT_TRUE(parse_timeline_history("").empty());
  EXPECT_TRUE(parse_timeline_history("1\n1 x\nx 0/1\n0 0/1\n-1 0/5\n99999999999 0/1").empty());
}

}  // namespace
}  // namespace outrider
