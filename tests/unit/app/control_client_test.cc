#include "app/control_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "app/control_text.h"
#include "app/json_tree.h"
#include "outrider/model/dead_letter.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(ControlClient, ReadsAges) {
  EXPECT_EQ(parse_age("90s"), 90);
  EXPECT_EQ(parse_age("10m"), 600);
  EXPECT_EQ(parse_age("2h"), 7'200);
  EXPECT_EQ(parse_age("7d"), 604'800);
  for (const char* bad :
       {"", "m", "10", "10x", "0m", "-1m", "1.5h", "10 m", "10mm", "99999999999999999999s"}) {
    EXPECT_FALSE(parse_age(bad)) << bad;
  }
}

TEST(ControlClient, NamesEveryReasonThatALetterCanHave) {
  const std::string reasons = letter_reasons();
  for (int i = 0; i <= static_cast<int>(DeadLetterReason::key_parked); ++i) {
    EXPECT_THAT(reasons, HasSubstr(to_string(static_cast<DeadLetterReason>(i))));
  }
}

TEST(ControlClient, MakesArgumentsOfFlags) {
  CommandFlags flags;
  flags.pipeline = "orders";
  flags.letters.numbers = {"1", "2"};
  flags.letters.older_than = "10m";
  flags.letters.dry_run = true;
  const auto arguments = control_arguments(flags);
  ASSERT_TRUE(arguments);
  EXPECT_THAT(arguments->at("number"), ElementsAre("1", "2"));
  EXPECT_THAT(arguments->at("older_than_s"), ElementsAre("600"));
  EXPECT_THAT(arguments->at("dry_run"), ElementsAre("true"));
  EXPECT_EQ(arguments->count("all"), 0U);
  flags.letters.reason = "too-large";
  EXPECT_THAT(control_arguments(flags).error().hint, HasSubstr("too_large"));
}

TEST(JsonTree, ReadsNestedValuesAndNothingElse) {
  const auto tree = JsonTree::parse(R"({"a":{"b":[1,"x",true,null]},"c":-2})");
  ASSERT_TRUE(tree);
  EXPECT_EQ((*tree)["a"]["b"].members[1].text, "x");
  EXPECT_TRUE((*tree)["a"]["b"].members[2].is_true());
  EXPECT_EQ((*tree)["c"].text, "-2");
  EXPECT_EQ((*tree)["missing"]["deeper"].text, "");
  EXPECT_FALSE(JsonTree::parse("{"));
  EXPECT_FALSE(JsonTree::parse(""));
  EXPECT_FALSE(JsonTree::parse("{} {}"));
  EXPECT_FALSE(JsonTree::parse(std::string(1'000, '[')));
}

TEST(ControlText, KeepsPayloadsFromDrivingTheTerminal) {
  EXPECT_EQ(shown_text("grün 10 €"), "grün 10 €");
  EXPECT_EQ(shown_text("a\x1b[31m\r\n"), "a\\u001b[31m\\u000d\\n");
  EXPECT_EQ(shown_text("\xC2\x9B"), "\\u009b");
  const auto letter = JsonTree::parse(
      R"({"number":1,"mapped":true,"key":null,"value":{"text":"one\ntwo\u001b[2J"},)"
      R"("headers":[["h",{"hex":"ff"}]],"event_type":"a\u001bb"})");
  ASSERT_TRUE(letter);
  const std::string text = letter_text(*letter);
  EXPECT_THAT(text, HasSubstr("payload:\none\ntwo\\u001b[2J\n"));
  EXPECT_THAT(text, HasSubstr("h: hex ff"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(ControlText, ErrorsBecomeErrorsAndTheLastLineACode) {
  ControlText text("dead-letters.retry", true, false);
  const auto error = text.show(R"({"error":{"kind":"transient","message":"m","hint":"h"}})");
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().kind, ErrorKind::transient);
  EXPECT_EQ(error.error().hint, "h");
  EXPECT_FALSE(text.show("nonsense"));
  EXPECT_FALSE(text.show("{}"));
  const auto running = text.show(R"({"progress":{"matched":1}})");
  ASSERT_TRUE(running);
  EXPECT_FALSE(*running);
  const auto refused = text.show(R"({"result":{"matched":2,"sent":2,"refused":1}})");
  ASSERT_TRUE(refused && *refused);
  EXPECT_EQ(**refused, 65);
}

}  // namespace
}  // namespace outrider
