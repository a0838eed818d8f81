#include "outrider/base/murmur2.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

// The values of Apache Kafka's own UtilsTest.testMurmur2.
TEST(Murmur2, IsTheHashOfKafkasJavaClient) {
  EXPECT_EQ(static_cast<std::int32_t>(murmur2("21")), -973932308);
  EXPECT_EQ(static_cast<std::int32_t>(murmur2("foobar")), -790332482);
  EXPECT_EQ(static_cast<std::int32_t>(murmur2("a-little-bit-long-string")), -985981536);
  EXPECT_EQ(static_cast<std::int32_t>(murmur2("a-little-bit-longer-string")), -1486304829);
  EXPECT_EQ(static_cast<std::int32_t>(murmur2("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8")),
            -58897971);
  EXPECT_EQ(static_cast<std::int32_t>(murmur2("abc")), 479470107);
}

TEST(Murmur2, APartitionIsNeverNegative) {
  for (const char* key : {"21", "foobar", "abc", ""}) {
    const std::int32_t partition = murmur2_partition(murmur2(key), 6);
    EXPECT_GE(partition, 0);
    EXPECT_LT(partition, 6);
  }
}

}  // namespace
}  // namespace outrider
