#include "demo/throwaway_postgres.h"

#include <gtest/gtest.h>

namespace outrider::demo {
namespace {

TEST(MajorOfVersionText, IsTheFirstNumber) {
  EXPECT_EQ(major_of_version_text("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)"), 15);
  EXPECT_EQ(major_of_version_text("postgres (PostgreSQL) 18beta1"), 18);
  EXPECT_EQ(major_of_version_text("no such file"), 0);
}

}  // namespace
}  // namespace outrider::demo
