#include "config/suggest.h"

#include <gtest/gtest.h>

#include <string>

namespace outrider {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", ""), 3U);
  EXPECT_EQ(edit_distance("slot", "slots"), 1U);
  EXPECT_EQ(edit_distance("slot", "slto"), 1U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
}

TEST(EditDistance, StopsAtTheLimit) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 4), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting", 3), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting", 2), 2U);
  EXPECT_EQ(edit_distance("ba", "ab", 2), 1U);
  EXPECT_EQ(edit_distance("abcdefgh", "zzzzzzzz", 3), 3U);
}

TEST(Nearest, FindsTheNearestOrNothing) {
  std::vector<std::string> keys = {"slot", "create_slot", "plugin", "publication"};
  EXPECT_EQ(nearest("slto", keys), "slot");
  EXPECT_EQ(nearest("create_slots", keys), "create_slot");
  EXPECT_EQ(nearest("publ", keys), "");
  EXPECT_EQ(nearest("publica", keys), "publication");
  EXPECT_EQ(nearest("elephant", keys), "");
  EXPECT_EQ(nearest(std::string(kSuggestBytesMax + 1, 's'), keys), "");
  EXPECT_EQ(nearest("", keys), "");
}

}  // namespace
}  // namespace outrider
