#include "observe/text_escape.h"

#include <gtest/gtest.h>

#include <string>

namespace outrider {
namespace {

std::string quoted(std::string_view text, std::size_t bytes_max = 1000) {
  std::string out;
  append_escaped(out, text, EscapeStyle::quoted, bytes_max);
  return out;
}

std::string plain(std::string_view text) {
  std::string out;
  append_escaped(out, text, EscapeStyle::plain, 1000);
  return out;
}

TEST(TextEscape, EscapesWhatWouldEndAStringOrALine) {
  EXPECT_EQ(quoted("a\"b\\c\nd\re\tf"), "a\\\"b\\\\c\\nd\\re\\tf");
  EXPECT_EQ(plain("a\"b\\c\nd"), "a\"b\\c\\nd");
}

TEST(TextEscape, EscapesControlsOfTerminalsAndUnicodeLineEnds) {
  EXPECT_EQ(quoted(std::string_view("\x00\x1b\x7f", 3)), "\\u0000\\u001b\\u007f");
  EXPECT_EQ(plain("\xC2\x9B\xE2\x80\xA8\xE2\x80\xA9"), "\\u009b\\u2028\\u2029");
}

TEST(TextEscape, KeepsOtherUnicode) {
  EXPECT_EQ(quoted("Zürich 東京 \xF0\x9F\x9A\x80"), "Zürich 東京 \xF0\x9F\x9A\x80");
}

TEST(TextEscape, ReplacesEveryKindOfInvalidUtf8) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(quoted("a\xFF"), "a" + mark);
  EXPECT_EQ(quoted("\xC3"), mark);                                   // cut short
  EXPECT_EQ(quoted("\xC0\xAF"), mark + mark);                        // overlong
  EXPECT_EQ(quoted("\xED\xA0\x80"), mark + mark + mark);             // surrogate
  EXPECT_EQ(quoted("\xF4\x90\x80\x80"), mark + mark + mark + mark);  // over U+10FFFF
  EXPECT_EQ(quoted("\xE2(\xA1"), mark + "(" + mark);
}

TEST(TextEscape, CutsAtTheLimitButNotInsideACharacter) {
  EXPECT_EQ(quoted("abcd", 4), "abcd");
  EXPECT_EQ(quoted("abcde", 4), "abcd\xE2\x80\xA6");
  EXPECT_EQ(quoted("abcü", 4), "abc\xE2\x80\xA6");
  EXPECT_EQ(valid_utf8("abcü", 4), "abc");
}

TEST(TextEscape, KeepsControlsInValidUtf8) {
  EXPECT_EQ(valid_utf8("a\nb\xFF", 100), "a\nb\xEF\xBF\xBD");
}

}  // namespace
}  // namespace outrider
