#include "decode/layout_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace outrider {
namespace {

std::uint64_t id_of(LayoutCache& cache, std::string_view table, std::uint32_t type_oid) {
  IncomingColumn columns[] = {{"id", kInt8Oid}, {"payload", type_oid}};
  return cache.find("public", table, columns)->layout_id;
}

TEST(LayoutCache, KnowsALayoutAgain) {
  LayoutCache cache;
  IncomingColumn columns[] = {{"id", kInt8Oid}};
  const Relation* made = cache.find("public", "outbox", columns);
  EXPECT_EQ(made->name, (QualifiedName{"public", "outbox"}));
  EXPECT_EQ(made->columns, (std::vector<Column>{{"id", kInt8Oid}}));
  EXPECT_EQ(cache.find("public", "outbox", columns), made);
  EXPECT_EQ(cache.find("public", "outbox", columns)->layout_id, 1U);
}

TEST(LayoutCache, TellsNamesTypesAndCountsApart) {
  LayoutCache cache;
  IncomingColumn columns[] = {{"a", kTextOid}, {"b", kTextOid}};
  IncomingColumn renamed[] = {{"a", kTextOid}, {"c", kTextOid}};
  std::span<const IncomingColumn> shorter(columns, 1);
  EXPECT_EQ(cache.find("s", "t", columns)->layout_id, 1U);
  EXPECT_EQ(cache.find("s", "t", renamed)->layout_id, 2U);
  EXPECT_EQ(cache.find("s", "t", shorter)->layout_id, 3U);
  EXPECT_EQ(cache.find("s", "u", columns)->layout_id, 4U);
  EXPECT_EQ(cache.find("st", "", columns)->layout_id, 5U);
  EXPECT_EQ(cache.find("s", "t", columns)->layout_id, 1U);
}

TEST(LayoutCache, DropsTheLayoutUnusedForLongest) {
  LayoutCache cache;
  for (std::uint32_t type = 1; type <= LayoutCache::kLayoutsPerTableMax; ++type) {
    EXPECT_EQ(id_of(cache, "t", type), type);
  }
  EXPECT_EQ(id_of(cache, "t", 1), 1U);
  EXPECT_EQ(id_of(cache, "t", 1000), LayoutCache::kLayoutsPerTableMax + 1);
  EXPECT_EQ(cache.layouts("public", "t"), LayoutCache::kLayoutsPerTableMax);
  EXPECT_EQ(id_of(cache, "t", 1), 1U);
  EXPECT_EQ(id_of(cache, "t", 2), LayoutCache::kLayoutsPerTableMax + 2);
}

TEST(LayoutCache, ForgetsAllTablesAtTheLimit) {
  LayoutCache cache;
  for (std::size_t i = 0; i < LayoutCache::kTablesMax; ++i) {
    id_of(cache, "leaf_" + std::to_string(i), 1);
  }
  EXPECT_EQ(cache.tables(), LayoutCache::kTablesMax);
  EXPECT_EQ(id_of(cache, "one_more", 1), LayoutCache::kTablesMax + 1);
  EXPECT_EQ(cache.tables(), 1U);
  EXPECT_EQ(id_of(cache, "leaf_0", 1), LayoutCache::kTablesMax + 2);
}

TEST(LayoutCache, GoesOnCountingAfterClear) {
  LayoutCache cache;
  EXPECT_EQ(id_of(cache, "t", 1), 1U);
  cache.clear();
  EXPECT_EQ(cache.tables(), 0U);
  EXPECT_EQ(cache.layouts("public", "t"), 0U);
  EXPECT_EQ(id_of(cache, "t", 1), 2U);
}

}  // namespace
}  // namespace outrider
