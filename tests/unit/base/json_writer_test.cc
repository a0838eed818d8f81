#include "outrider/base/json_writer.h"

#include <gtest/gtest.h>

#include <string>

namespace outrider {
namespace {

TEST(JsonWriter, SetsCommasAndBrackets) {
  JsonWriter json;
  json.open_object().name("a").number(std::int64_t{-1}).name("b").open_array();
  json.text("x").boolean(true).null().open_object().close_object().close_array();
  json.name("c").raw("[1,2]").close_object();
  EXPECT_EQ(json.json(), R"({"a":-1,"b":["x",true,null,{}],"c":[1,2]})");
}

TEST(JsonWriter, EscapesWhatWouldBreakALineOrDriveATerminal) {
  EXPECT_EQ(json_quoted("a\"\\\n\t\x1b\x7f"), R"("a\"\\\n\t\u001b\u007f")");
  EXPECT_EQ(json_quoted("\xC2\x9B"
                        "m"),
            R"("\u009bm")");
  EXPECT_EQ(json_quoted("\xC2\xA0ü€😀"), "\"\xC2\xA0ü€😀\"");
}

TEST(JsonWriter, ReplacesWhatIsNoUtf8ByteByByte) {
  EXPECT_EQ(json_quoted("a\xFF\xC3"), "\"a\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_EQ(json_quoted(std::string("\0", 1)), "\"\\u0000\"");
}

TEST(JsonWriter, KnowsUtf8) {
  for (const char* good : {"", "a", "ü", "€", "😀", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad :
       {"\x80", "\xC0\xAF", "\xC1\x81", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xC3", "a\xFF"}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
}

TEST(JsonWriterDeathTest, BracketsThatDoNotMatchAreABug) {
  JsonWriter json;
  json.open_object();
  EXPECT_DEATH(json.close_array(), "brackets do not match");
}

}  // namespace
}  // namespace outrider
