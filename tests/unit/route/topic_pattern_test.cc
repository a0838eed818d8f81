#include "route/topic_pattern.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace outrider {
namespace {

const char* const kDefaultPattern = "(?<routedByValue>.*)";
const char* const kDefaultReplacement = "outbox.event.${routedByValue}";

struct Vector {
  std::string pattern;
  std::string replacement;
  std::string value;
  std::string topic;
};

// What java.util.regex (Java 17) makes of these: matches(), then replaceFirst().
const std::vector<Vector> kJavaVectors = {
    {kDefaultPattern, kDefaultReplacement, "User", "outbox.event.User"},
    {kDefaultPattern, kDefaultReplacement, "", "outbox.event."},
    {kDefaultPattern, kDefaultReplacement, "user.address", "outbox.event.user.address"},
    {kDefaultPattern, kDefaultReplacement, "Ünï", "outbox.event.Ünï"},
    {kDefaultPattern, kDefaultReplacement, "a\nb", "a\nb"},
    {kDefaultPattern, kDefaultReplacement, "a\r", "a\r"},
    {kDefaultPattern, kDefaultReplacement, "a\u0085", "a\u0085"},
    {kDefaultPattern, kDefaultReplacement, "a\u2028b", "a\u2028b"},
    {kDefaultPattern, kDefaultReplacement, "a\u2029b", "a\u2029b"},
    {kDefaultPattern, kDefaultReplacement, "a\vb", "outbox.event.a\vb"},
    {kDefaultPattern, "${routedByValue}.events", "Order", "Order.events"},
    {kDefaultPattern, "x$0y", "Order", "xOrdery"},
    {kDefaultPattern, "$10", "Order", "Order0"},
    {kDefaultPattern, "plain", "x", "plain"},
    {kDefaultPattern, "a\\.${routedByValue}\\$", "x", "a.x$"},
    {"(.*)", "outbox.$1", "a\u2028b", "a\u2028b"},
    {"(.*)", "outbox.$1", "a\vb", "outbox.a\vb"},
    {"(?s).*", "t", "a\nb", "t"},
    {"a|ab", "X", "ab", "Xb"},
    {"(.*?)", "<$1>", "ab", "<>ab"},
    {"(.*)|x", "<$1>", "x", "<x>"},
    {"(a)?b", "[$1]", "b", "[]"},
    {"(.+)\\.(.+)", "$2", "a.b.c", "c"},
    {"User", "x.$0", "UserX", "UserX"},
    {"[A-Z].*", "$0", "order", "order"},
    {"(?<a>\\w+)-(?<b>\\w+)", "${b}.${a}", "foo-bar", "bar.foo"},
    {"\\p{Lu}.*", "U", "Éa", "U"},
    {"(x)*", "<$1>", "xx", "<x>"},
    {"(.)*", "last=$1", "abc", "last=c"},
    {"(.+?)_v(\\d+)", "$1.v$2", "User_v12", "User.v12"},
    {"(.*)(?<!Test)", "live.$1", "UserTest", "UserTest"},
    {"(?<=x)User|xUser", "lb.$0", "xUser", "lb.xUser"},
    {"(?<agg>[^.]+)(?:\\.(?<rest>.*))?", "${agg}-${rest}", "Order", "Order-"},
    {"(?i)(user|order)", "evt.$1", "ORDER", "evt.ORDER"},
    {"(?i)(\\w+)(é)?", "t.$1", "Ünï", "Ünï"},
    {"(?i)(\\w+)(é)?", "t.$1", "aÉ", "aÉ"},
    {"(?i)(\\w+)(é)?", "t.$1", "aé", "t.a"},
    {"(?x) ( .* ) # all", "c.$1", "a", "c.a"},
    {"(?x) [ a b ]+", "t", "ab", "t"},
    {"(U)(?>ser)", "atomic.$1", "User", "atomic.U"},
    {"\\QUser.\\E", "lit", "User.", "lit"},
    {"\\w+(?=r).", "la.$0", "User", "la.User"},
    {"^(.*)$", "anch.$1", "a", "anch.a"},
    {"\\u0041\\x41\\0101", "t", "AAA", "t"},
    {"\\ud83d\\ude00.", "t", "\U0001F600x", "t"},
    {"\\x{1F600}", "t", "\U0001F600", "t"},
    {"(a)\\11", "t", "aa1", "t"},
    {"[]a]+", "t", "]a", "t"},
    {"\\p{Alpha}+", "t", "é", "é"},
    {"\\p{IsAlphabetic}+", "t", "é", "t"},
    {"[\\p{Upper}_]+", "t", "A_", "t"},
    {"\\P{Lower}", "t", "é", "t"},
    {"\\p{IsLatin}+", "t", "é", "t"},
};

TEST(TopicPattern, GivesWhatJavaGives) {
  for (const Vector& vector : kJavaVectors) {
    auto pattern = TopicPattern::create(vector.pattern, vector.replacement);
    ASSERT_TRUE(pattern) << vector.pattern << ": " << pattern.error().message;
    auto topic = pattern->apply(vector.value);
    ASSERT_TRUE(topic) << vector.pattern << ": " << topic.error().message;
    EXPECT_EQ(*topic, vector.topic) << vector.pattern << " on " << vector.value;
    // The second time memory of the first is reused.
    EXPECT_EQ(*pattern->apply(vector.value), vector.topic);
  }
}

TEST(TopicPattern, DefaultWithoutRegexMeansTheSameAsWithIt) {
  auto fast = TopicPattern::create(kDefaultPattern, "p.$0.$1.${routedByValue}");
  auto slow = TopicPattern::create("(?<routedByValue>(?:.*))", "p.$0.$1.${routedByValue}");
  ASSERT_TRUE(fast && slow);
  for (std::string value : {"", "a", "a\n", "\n", "\r\n", "é", "\u0085", "\u2027", "\u2028",
                            "\u2029", "\u202a", "\v", "\f", "x\u2028", "Â"}) {
    EXPECT_EQ(*fast->apply(value), *slow->apply(value)) << value;
  }
}

TEST(TopicPattern, RefusesBadPatternsAtCreate) {
  for (std::string pattern : {"[",
                              "(",
                              "a**",
                              "(?<n>a)(?<n>b)",
                              "(?<1>a)",
                              "(?P<n>a)",
                              "\\",
                              "(?u)a",
                              "(?d)a",
                              "(?U)a",
                              "a(?x)b",
                              "[a[b]]",
                              "[a&&b]",
                              "(*UTF)a",
                              "(*LIMIT_MATCH=9)a",
                              "\\K",
                              "\\N",
                              "\\C",
                              "[\\b]",
                              "\\b{g}",
                              "\\1",
                              "(a)\\2",
                              "\\k<n>",
                              "\\uD800",
                              "\\u12",
                              "\\xg",
                              "\\08",
                              "a{,2}",
                              "${x}",
                              "\\p{InGreek}",
                              "\\p{javaLowerCase}",
                              "\\p{IsNope}",
                              "\\p{Lu",
                              "(?i)\\p{Lu}",
                              "(?i)[é]",
                              "(?<=a+)b",
                              "(?R)",
                              "(?1)",
                              "(?|a)",
                              "(?#c)",
                              "\xff"}) {
    auto made = TopicPattern::create(pattern, "x");
    ASSERT_FALSE(made) << pattern;
    EXPECT_EQ(made.error().kind, ErrorKind::configuration) << pattern;
    EXPECT_NE(made.error().message.find("route.pattern"), std::string::npos) << pattern;
    EXPECT_FALSE(made.error().hint.empty());
  }
  EXPECT_FALSE(TopicPattern::create(std::string(5000, 'a'), "x"));
}

TEST(TopicPattern, RefusesBadReplacementsAtCreate) {
  for (std::string replacement :
       {"${nope}", "${1}", "cost$", "a\\", "$2", "${", "${routedByValue", "$x", "${}", "$ 1"}) {
    auto made = TopicPattern::create(kDefaultPattern, replacement);
    ASSERT_FALSE(made) << replacement;
    EXPECT_EQ(made.error().kind, ErrorKind::configuration) << replacement;
    EXPECT_NE(made.error().message.find("route.replacement"), std::string::npos) << replacement;
  }
}

TEST(TopicPattern, GivesUpOnHostilePatternsWithPoison) {
  auto pattern = TopicPattern::create("(?:a+)+[bc]", "x");
  ASSERT_TRUE(pattern);
  auto topic = pattern->apply(std::string(200, 'a'));
  ASSERT_FALSE(topic);
  EXPECT_EQ(topic.error().kind, ErrorKind::poison);
  EXPECT_NE(topic.error().message.find("limit"), std::string::npos) << topic.error().message;
  EXPECT_EQ(topic.error().message.find("aaa"), std::string::npos);
  EXPECT_EQ(*pattern->apply("ab"), "x") << "a later value is not affected";
}

TEST(TopicPattern, RefusesValuesThatAreNotUtf8) {
  auto pattern = TopicPattern::create(".+", "x");
  ASSERT_TRUE(pattern);
  auto topic = pattern->apply("a\xff");
  ASSERT_FALSE(topic);
  EXPECT_EQ(topic.error().kind, ErrorKind::poison);
  EXPECT_NE(topic.error().message.find("UTF-8"), std::string::npos);
}

TEST(TopicPattern, SurvivesRandomTexts) {
  std::mt19937 random(7);
  const std::string alphabet = "ab.*+?()[]{}<>|\\$^-:=!&#\n1{iknpPQEux\xc3\xa9\xff";
  auto text = [&](std::size_t size_max) {
    std::string made(random() % (size_max + 1), ' ');
    for (char& c : made) {
      c = alphabet[random() % alphabet.size()];
    }
    return made;
  };
  int compiled = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (auto pattern = TopicPattern::create(text(10), text(4))) {
      ++compiled;
      (void)pattern->apply(text(12)).has_value();
    }
  }
  EXPECT_GT(compiled, 500);
}

TEST(TopicPattern, ABrokenPatternIsToldBeforeTheGroupsOfTheReplacement) {
  const auto broken = TopicPattern::create("([", "x.$2");
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("route.pattern"), std::string::npos);
  EXPECT_EQ(broken.error().message.find("replacement"), std::string::npos);
}

}  // namespace
}  // namespace outrider
