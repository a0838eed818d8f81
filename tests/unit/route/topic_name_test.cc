#include "route/topic_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace outrider {
namespace {

TEST(TopicName, AllowsWhatKafkaAllows) {
  const std::vector<std::string> topics = {"a", "outbox.event.User",  "A-B_c.9", "...",
                                           "_", std::string(249, 'x')};
  for (const std::string& topic : topics) {
    EXPECT_EQ(topic_name_fault(topic), "") << topic;
  }
}

TEST(TopicName, NamesTheReasonAndTheCharacterAsCode) {
  struct Case {
    std::string topic;
    std::string reason;
  };
  const std::vector<Case> cases = {
      {"", "empty"},
      {".", "no names"},
      {"..", "no names"},
      {std::string(250, 'x'), "250 bytes"},
      {"a b", "U+0020 at byte 1"},
      {"a/b", "U+002F"},
      {std::string("a\0b", 3), "U+0000"},
      {"Ünï", "U+00DC at byte 0"},
      {"a\u2028", "U+2028"},
      {"\U0001F600", "U+1F600"},
      {"a\xff", "byte 0xFF"},
      {"a\xc3", "byte 0xC3"},
      {"a\x80", "byte 0x80"},
      {"a\xe2\x80", "byte 0xE2"},
  };
  for (const Case& item : cases) {
    EXPECT_NE(topic_name_fault(item.topic).find(item.reason), std::string::npos)
        << item.reason << ": " << topic_name_fault(item.topic);
  }
}

TEST(TopicName, ShowsTextEscapedAndCut) {
  EXPECT_EQ(shown("a\"\\\n\xff"), "a\\x22\\x5C\\x0A\\xFF");
  EXPECT_EQ(shown(std::string(81, 'x')), std::string(80, 'x') + "...");
}

TEST(TopicSet, KeepsOneAddressForEachName) {
  TopicSet topics(1000);
  std::vector<const char*> addresses;
  for (int i = 0; i < 1000; ++i) {
    addresses.push_back(topics.add("t" + std::to_string(i))->data());
  }
  for (int i = 0; i < 1000; ++i) {
    auto again = topics.add("t" + std::to_string(i));
    EXPECT_EQ(again->data(), addresses[static_cast<std::size_t>(i)]);
    EXPECT_EQ(*again, "t" + std::to_string(i));
  }
}

TEST(TopicSet, RefusesOneTopicMoreThanTheLimit) {
  TopicSet topics(2);
  ASSERT_TRUE(topics.add("a"));
  ASSERT_TRUE(topics.add("b"));
  auto third = topics.add("c");
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().kind, ErrorKind::poison);
  EXPECT_NE(third.error().message.find("route.topics_max"), std::string::npos);
  EXPECT_TRUE(topics.add("a")) << "known topics go on";
}

TEST(TopicSet, RefusesNamesThatDifferOnlyByDotAndUnderscore) {
  TopicSet topics(9);
  ASSERT_TRUE(topics.add("user.created"));
  auto other = topics.add("user_created");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::poison);
  EXPECT_NE(other.error().message.find("\"user.created\""), std::string::npos);
  EXPECT_TRUE(topics.add("user-created"));
  EXPECT_TRUE(topics.add("user.created"));
}

TEST(TopicSet, ForgetsRefusedNames) {
  TopicSet topics(1);
  EXPECT_FALSE(topics.add("a b"));
  EXPECT_FALSE(topics.add(""));
  EXPECT_TRUE(topics.add("a"));
}

}  // namespace
}  // namespace outrider
