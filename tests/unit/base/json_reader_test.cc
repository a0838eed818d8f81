#include "outrider/base/json_reader.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace outrider {
namespace {

struct Parsed {
  JsonValue value;
  std::string text;
};

/// The only value of `json`; nothing if it is not one valid value.
std::optional<Parsed> parse(std::string json) {
  JsonReader reader({json.data(), json.size()});
  Parsed parsed;
  if (!reader.value(parsed.value) || !reader.finish()) {
    EXPECT_FALSE(reader.ok());
    EXPECT_NE(reader.why(), nullptr);
    EXPECT_LE(reader.at(), json.size());
    return std::nullopt;
  }
  parsed.text = parsed.value.text;
  return parsed;
}

std::optional<std::string> text_of(const std::string& json) {
  auto parsed = parse(json);
  return parsed ? std::optional(parsed->text) : std::nullopt;
}

TEST(JsonReader, KeepsNumbersAsTheyStand) {
  for (const char* number : {"0", "-0", "10", "1.10", "1e5", "1E+5", "-1.5e-07", "0.0"}) {
    EXPECT_EQ(text_of(number), number);
  }
  std::string digits(100'000, '7');
  EXPECT_EQ(text_of(digits), digits);
}

TEST(JsonReader, RefusesNumbersOutsideTheGrammar) {
  for (const char* number :
       {"-", "+1", "01", ".5", "1.", "1e", "1e+", "NaN", "Infinity", "0x1", "1 2", "--1"}) {
    EXPECT_FALSE(parse(number)) << number;
  }
}

TEST(JsonReader, UnescapesInPlace) {
  EXPECT_EQ(text_of(R"("a\"\\\/\b\f\n\r\tz")"), "a\"\\/\b\f\n\r\tz");
  EXPECT_EQ(text_of(R"("\u0000\u0041\u00e9\u20AC\ud83d\ude00.")"),
            std::string("\0A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80.", 12));
  EXPECT_EQ(text_of(R"("one\ntwo longer than a word\nthree")"),
            "one\ntwo longer than a word\nthree");
}

TEST(JsonReader, FindsTheEndOfStringsOfEveryLength) {
  for (std::size_t size = 0; size < 40; ++size) {
    std::string plain(size, '\x7F');
    EXPECT_EQ(text_of("\"" + plain + "\""), plain);
    EXPECT_EQ(text_of("\"" + plain + "\\n" + plain + "\""), plain + "\n" + plain);
    EXPECT_FALSE(parse("\"" + plain));
    EXPECT_FALSE(parse("\"" + plain + "\\"));
    EXPECT_FALSE(parse("\"" + plain + "\n\""));
  }
}

TEST(JsonReader, PassesEveryByteThatNeedsNoEscape) {
  for (int byte = 0x20; byte < 0x100; ++byte) {
    char c = static_cast<char>(byte);
    if (c != '"' && c != '\\') {
      EXPECT_EQ(text_of("\"1234567" + std::string(9, c) + "\""), "1234567" + std::string(9, c));
    }
  }
}

TEST(JsonReader, RefusesRawControlCharacters) {
  for (int byte = 0; byte < 0x20; ++byte) {
    EXPECT_FALSE(parse("\"" + std::string(1, static_cast<char>(byte)) + "\"")) << byte;
    EXPECT_FALSE(parse("\"12345678" + std::string(1, static_cast<char>(byte)) + "12345678\""));
  }
}

TEST(JsonReader, RefusesBadEscapes) {
  for (const char* json :
       {R"("\x")", R"("\u12")", R"("\u12g4")", R"("\ud800")", R"("\ud800x")", R"("\ud800\n")",
        R"("\ud800\u0041")", R"("\udc00")", R"("\)", R"("\u)", R"("\ud800\)", R"("\ud800\u)"}) {
    EXPECT_FALSE(parse(json)) << json;
  }
}

TEST(JsonReader, ReadsLiterals) {
  EXPECT_EQ(parse("null")->value.kind, JsonValue::Kind::null);
  EXPECT_TRUE(parse(" true ")->value.truth);
  EXPECT_FALSE(parse("false")->value.truth);
  for (const char* json : {"", " ", "nul", "tru", "fals", "nulll", "True", "]", ","}) {
    EXPECT_FALSE(parse(json)) << json;
  }
}

TEST(JsonReader, StepsOverNestedValues) {
  EXPECT_EQ(parse(R"( {"a" : [ 1 , {"b":null} , [] ] , "c" : {} } )")->value.kind,
            JsonValue::Kind::nested);
  for (const char* json : {"[1,]", "[,1]", "[1 2]", "{\"a\":1,}", "{\"a\"}", "{a:1}", "{1:2}", "[",
                           "{", "{\"a\":", "[1", "[}", "{]"}) {
    EXPECT_FALSE(parse(json)) << json;
  }
}

TEST(JsonReader, BoundsTheNesting) {
  auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse(nested(JsonReader::kNestingMax)));
  EXPECT_FALSE(parse(nested(JsonReader::kNestingMax + 1)));
  EXPECT_FALSE(parse(std::string(1'000'000, '[')));
}

TEST(JsonReader, WalksMembersAndElements) {
  std::string json = R"({"a":[1,2],"b":"x"})";
  JsonReader reader({json.data(), json.size()});
  std::string seen;
  std::string_view key;
  JsonValue value;
  bool first = true;
  ASSERT_TRUE(reader.open('{'));
  while (reader.next_member(first, key)) {
    seen += key;
    if (key == "a") {
      bool first_element = true;
      ASSERT_TRUE(reader.open('['));
      while (reader.next_element(first_element) && reader.value(value)) {
        seen += value.text;
      }
    } else if (reader.value(value)) {
      seen += value.text;
    }
  }
  EXPECT_TRUE(reader.finish());
  EXPECT_EQ(seen, "a12bx");
}

TEST(JsonReader, KeepsTheFirstError) {
  std::string json = "[x";
  JsonReader reader({json.data(), json.size()});
  bool first = true;
  JsonValue value;
  ASSERT_TRUE(reader.open('['));
  ASSERT_TRUE(reader.next_element(first));
  ASSERT_FALSE(reader.value(value));
  std::string why = reader.why();
  EXPECT_FALSE(reader.open('{'));
  EXPECT_FALSE(reader.next_element(first));
  EXPECT_FALSE(reader.value(value));
  EXPECT_FALSE(reader.finish());
  EXPECT_EQ(reader.why(), why);
  EXPECT_EQ(reader.at(), 1U);
}

}  // namespace
}  // namespace outrider
