#include "postgres/binary_values.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using namespace std::string_literals;

TEST(BinaryValues, NumbersAreBigEndian) {
  EXPECT_EQ(binary_int4(258), "\0\0\1\2"s);
  EXPECT_EQ(binary_int8(-1), std::string(8, '\xff'));
  EXPECT_EQ(read_int8(binary_int8(INT64_MIN)), INT64_MIN);
  EXPECT_EQ(read_int4(binary_int4(-5)), -5);
  EXPECT_EQ(binary_bool(true) + binary_bool(false), "\1\0"s);
}

TEST(BinaryValues, TimesCountFromTheYear2000) {
  const WallTime turn = WallTime(std::chrono::seconds(946'684'800));
  EXPECT_EQ(binary_timestamptz(turn), std::string(8, '\0'));
  const WallTime now = turn + std::chrono::microseconds(812'345'678'901'234);
  EXPECT_EQ(read_timestamptz(binary_timestamptz(now)), now);
  EXPECT_EQ(read_timestamptz(binary_timestamptz(WallTime{})), WallTime{});
  EXPECT_EQ(read_timestamptz(binary_int8(INT64_MAX)), std::nullopt);
}

TEST(BinaryValues, ByteaArraysKeepNullsEmptiesAndZeroBytes) {
  const std::string zero("a\0b", 3);
  const std::string array = binary_bytea_array({zero, std::nullopt, ""});
  const auto items = read_bytea_array(array);
  ASSERT_TRUE(items.has_value());
  EXPECT_THAT(*items, testing::ElementsAre(std::optional(zero), std::nullopt, std::optional(""s)));
  EXPECT_EQ(array.substr(0, 20), "\0\0\0\1\0\0\0\1\0\0\0\x11\0\0\0\3\0\0\0\1"s);
}

TEST(BinaryValues, AnEmptyArrayHasNoDimension) {
  EXPECT_EQ(binary_bytea_array({}), "\0\0\0\0\0\0\0\0\0\0\0\x11"s);
  EXPECT_EQ(read_bytea_array(binary_bytea_array({}))->size(), 0U);
  EXPECT_EQ(binary_int8_array({}), "\0\0\0\0\0\0\0\0\0\0\0\x14"s);
}

TEST(BinaryValues, Int8ArraysHoldTheirLengths) {
  EXPECT_EQ(binary_int8_array({7}),
            "\0\0\0\1\0\0\0\0\0\0\0\x14\0\0\0\1\0\0\0\1\0\0\0\x08\0\0\0\0\0\0\0\x07"s);
}

TEST(BinaryValues, ReadingNeverTrustsItsInput) {
  EXPECT_EQ(read_int8("1234567"), std::nullopt);
  EXPECT_EQ(read_int4("12345"), std::nullopt);
  EXPECT_EQ(read_bytea_array(""), std::nullopt);
  const std::string array = binary_bytea_array({"abc", "d"});
  for (std::size_t size = 0; size < array.size(); ++size) {
    EXPECT_EQ(read_bytea_array(array.substr(0, size)), std::nullopt) << size;
  }
  EXPECT_EQ(read_bytea_array(array + "x"), std::nullopt);
  EXPECT_EQ(read_bytea_array(binary_int8_array({1})), std::nullopt);
  // Says that four thousand million items follow.
  EXPECT_EQ(read_bytea_array("\0\0\0\1\0\0\0\0\0\0\0\x11\x7f\xff\xff\xff\0\0\0\1"s), std::nullopt);
}

}  // namespace
}  // namespace outrider
