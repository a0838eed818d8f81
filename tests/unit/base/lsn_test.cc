#include "outrider/base/lsn.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(Lsn, PrintsAsPostgresDoes) {
  EXPECT_EQ(Lsn::from_wire(0x16B374D848ULL).to_string(), "16/B374D848");
  EXPECT_EQ(Lsn::from_wire(0x1D7AD60).to_string(), "0/1D7AD60");
  EXPECT_EQ(Lsn{}.to_string(), "0/0");
}

TEST(Lsn, ParsesWhatItPrints) {
  for (std::uint64_t value : {0ULL, 1ULL, 0xFFFFFFFFULL, 0x100000000ULL, ~0ULL}) {
    Lsn lsn = Lsn::from_wire(value);
    EXPECT_EQ(Lsn::parse(lsn.to_string()), lsn);
  }
}

TEST(Lsn, RefusesEverythingElse) {
  for (const char* text :
       {"", "/", "0/", "/0", "0", "0/G", "0/1 ", " 0/1", "-1/0", "0x1/0", "123456789/0", "0/1/2"}) {
    EXPECT_FALSE(Lsn::parse(text)) << text;
  }
}

TEST(Lsn, DistanceIsNeverNegative) {
  EXPECT_EQ(bytes_between(Lsn::from_wire(10), Lsn::from_wire(25)), 15U);
  EXPECT_EQ(bytes_between(Lsn::from_wire(25), Lsn::from_wire(10)), 0U);
}

}  // namespace
}  // namespace outrider
