#include "postgres/query_result.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(QueryResult, TellsNullFromEmptyText) {
  QueryResult rows{{"a", "b"}, {{std::string("x"), std::nullopt}}};
  EXPECT_EQ(rows.column("b"), 1U);
  EXPECT_EQ(rows.value(0, "a"), "x");
  EXPECT_FALSE(rows.value(0, "b").has_value());
  EXPECT_EQ(rows.text(0, "b"), "");
}

TEST(QueryResultDeathTest, AColumnWeDidNotAskForIsOurBug) {
  QueryResult rows{{"a"}, {}};
  EXPECT_DEATH((void)rows.column("b"), "names this column");
}

}  // namespace
}  // namespace outrider
