#include "outrider/base/byte_reader.h"

#include <string>

#include <gtest/gtest.h>

namespace outrider {
namespace {

using namespace std::string_literals;

TEST(ByteReader, ReadsBigEndianNumbersAndTexts) {
  const std::string bytes = "\x01\x02\x03\xFF\xFF\xFF\xFFname\0rest"s;
  ByteReader reader(bytes);
  EXPECT_EQ(reader.u8(), 1);
  EXPECT_EQ(reader.u16(), 0x0203);
  EXPECT_EQ(reader.i32(), -1);
  EXPECT_EQ(reader.c_string(), "name");
  EXPECT_EQ(reader.bytes(4), "rest");
  EXPECT_EQ(reader.left(), 0U);
  EXPECT_TRUE(reader.ok());
}

TEST(ByteReader, FailsInsteadOfReadingPastTheEnd) {
  ByteReader reader("\x01\x02");
  EXPECT_EQ(reader.u32(), 0U);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.u8(), 0U);
  EXPECT_EQ(reader.left(), 0U);
}

TEST(ByteReader, ATextWithoutItsEndFails) {
  ByteReader reader("abc");
  EXPECT_EQ(reader.c_string(), "");
  EXPECT_FALSE(reader.ok());
}

TEST(ByteReader, AHugeLengthDoesNotOverflow) {
  ByteReader reader("abc");
  reader.u8();
  EXPECT_EQ(reader.bytes(~std::size_t{0}), "");
  EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace outrider
