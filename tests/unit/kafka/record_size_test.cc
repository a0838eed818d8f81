#include "kafka/record_size.h"

#include <gtest/gtest.h>

#include <string>

namespace outrider {
namespace {

KafkaRecord record_of(std::string_view key, std::string_view value) {
  KafkaRecord record;
  record.topic = "t";
  record.key = key;
  record.value = value;
  return record;
}

TEST(RecordSize, CountsHeaderPrefixLengthsAndBytes) {
  // 61 + length(1) + 3 + key(1 + 1) + value(1 + 2) + header count(1).
  EXPECT_EQ(lone_batch_bytes(record_of("k", "vv")), 61 + 1 + 3 + 2 + 3 + 1);
  KafkaRecord nothing;
  EXPECT_EQ(lone_batch_bytes(nothing), 61 + 1 + 3 + 1 + 1 + 1);
}

TEST(RecordSize, LengthsOf64AndMoreTakeTwoBytes) {
  const std::string value(64, 'x');
  EXPECT_EQ(lone_batch_bytes(record_of("", value)), 61 + 2 + 3 + 1 + (2 + 64) + 1);
}

TEST(RecordSize, CountsHeadersWithNullAndEmptyValues) {
  KafkaRecord record = record_of("k", "vv");
  const std::int64_t bare = lone_batch_bytes(record);
  record.headers = {{"id", "7"}, {"a", std::nullopt}, {"b", ""}};
  EXPECT_EQ(lone_batch_bytes(record), bare + (3 + 2) + (2 + 1) + (2 + 1));
}

TEST(RecordSize, TopicNamesFollowKafkasRule) {
  EXPECT_TRUE(is_legal_topic("outbox.event.Order-1_x"));
  EXPECT_TRUE(is_legal_topic(std::string(249, 'a')));
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("a b"), std::string("ä"),
        std::string("a/b"), std::string(250, 'a'), std::string("a\0b", 3)}) {
    EXPECT_FALSE(is_legal_topic(name)) << name;
  }
}

TEST(RecordSize, IllegalTopicAndNegativePartitionArePoison) {
  KafkaRecord record = record_of("k", "v");
  EXPECT_TRUE(check_record(record));
  record.partition = -1;
  EXPECT_EQ(check_record(record).error().kind, ErrorKind::poison);
  record.partition = 0;
  record.topic = "a b";
  EXPECT_EQ(check_record(record).error().kind, ErrorKind::poison);
}

}  // namespace
}  // namespace outrider
