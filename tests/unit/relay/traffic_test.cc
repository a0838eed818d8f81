#include "outrider/relay/traffic.h"

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace outrider {
namespace {

TEST(Traffic, CountsRowsAndBytesByTable) {
  Traffic traffic;
  traffic.received("public.a", 10);
  traffic.received("public.b", 1);
  traffic.received("public.a", 5);
  ASSERT_EQ(traffic.tables().size(), 2U);
  EXPECT_EQ(traffic.tables()[0].table, "public.a");
  EXPECT_EQ(traffic.tables()[0].rows, 2U);
  EXPECT_EQ(traffic.tables()[0].bytes, 15U);
}

TEST(Traffic, TablesHaveALimitAndTheRestSharesOne) {
  Traffic traffic;
  for (std::size_t i = 0; i < Traffic::kTablesMax + 3; ++i) {
    traffic.received("t" + std::to_string(i), 1);
  }
  EXPECT_EQ(traffic.tables().size(), Traffic::kTablesMax + 1);
  EXPECT_EQ(traffic.tables().back().table, "other");
  EXPECT_EQ(traffic.tables().back().rows, 3U);
}

TEST(Traffic, ATopicKeepsItsNumberAndTheNumberItsName) {
  Traffic traffic;
  std::deque<std::string> names;
  for (int i = 0; i < 500; ++i) {  // More than the cache has lines.
    names.push_back("topic-" + std::to_string(i));
  }
  for (int round = 0; round < 2; ++round) {
    for (const std::string& name : names) {
      EXPECT_EQ(traffic.topic_name(traffic.topic_number(name)), name);
    }
  }
}

TEST(Traffic, TopicsPastTheLimitHaveNoName) {
  Traffic traffic;
  std::deque<std::string> names;
  for (int i = 0; i < Traffic::kTopicsMax + 1; ++i) {
    names.push_back("topic-" + std::to_string(i));
    (void)traffic.topic_number(names.back());
  }
  EXPECT_EQ(traffic.topic_name(traffic.topic_number(names.front())), names.front());
  EXPECT_EQ(traffic.topic_name(traffic.topic_number(names.back())), "");
}

}  // namespace
}  // namespace outrider
