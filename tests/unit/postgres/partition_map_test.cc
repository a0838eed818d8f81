#include "postgres/partition_map.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

using Kind = PartitionMap::Kind;

const QualifiedName kRoot{"public", "outbox"};
const QualifiedName kLeaf{"public", "outbox_2024"};
const std::vector<Column> kColumns = {{"id", kUuidOid}, {"payload", kJsonbOid}};
const std::vector<std::string> kNeeded = {"id", "payload"};

StartPlan plan() {
  StartPlan plan;
  plan.follows_all_tables = true;
  plan.event_columns[kRoot] = kNeeded;
  plan.partition_roots[kLeaf] = kRoot;
  return plan;
}

Relation relation(std::uint64_t id, const char* table, std::vector<Column> columns = kColumns) {
  return Relation{id, {"public", table}, std::move(columns)};
}

QueryResult no_rows() { return {{"ancestor_schema", "ancestor_table"}, {}}; }

QueryResult not_a_partition() {
  return {{"ancestor_schema", "ancestor_table"}, {{std::nullopt, std::nullopt}}};
}

QueryResult ancestors(std::vector<std::string> tables) {
  QueryResult rows = no_rows();
  for (std::string& table : tables) {
    rows.rows.push_back({std::string("public"), std::move(table)});
  }
  return rows;
}

class PartitionMapTest : public ::testing::Test {
 protected:
  void make(const std::vector<std::string>& former = {}) {
    map_ = std::make_unique<PartitionMap>(std::move(*PartitionMap::create(former)));
    map_->begin(plan());
  }
  std::unique_ptr<PartitionMap> map_;
};

TEST_F(PartitionMapTest, KnowsTheTableItselfAndItsLeaves) {
  make();
  EXPECT_EQ(map_->place(relation(1, "outbox"))->kind, Kind::own);
  auto leaf = map_->place(relation(2, "outbox_2024"));
  ASSERT_TRUE(leaf);
  EXPECT_EQ(leaf->kind, Kind::leaf);
  EXPECT_EQ(*leaf->root, kRoot);
}

TEST_F(PartitionMapTest, AsksForATableItDoesNotKnow) {
  make();
  EXPECT_EQ(map_->place(relation(1, "outbox_2025"))->kind, Kind::unknown);
}

TEST_F(PartitionMapTest, LearnsALeafAttachedWhileStreaming) {
  make();
  Relation leaf = relation(1, "outbox_2025");
  auto learned = map_->learn(leaf, ancestors({"outbox_2025", "outbox_q1", "outbox"}), Lsn());
  ASSERT_TRUE(learned);
  EXPECT_EQ(learned->kind, Kind::leaf);
  EXPECT_EQ(*learned->root, kRoot);
  EXPECT_EQ(map_->place(leaf)->kind, Kind::leaf);
}

TEST_F(PartitionMapTest, KeepsALeafAfterItIsGone) {
  make();
  Relation leaf = relation(1, "outbox_2025");
  ASSERT_TRUE(map_->learn(leaf, ancestors({"outbox_2025", "outbox"}), Lsn()));
  StartPlan later = plan();
  later.partition_roots.clear();
  map_->begin(later);
  EXPECT_EQ(map_->place(relation(7, "outbox_2025"))->kind, Kind::leaf);
  EXPECT_EQ(map_->place(relation(8, "outbox_2024"))->kind, Kind::leaf);
}

TEST_F(PartitionMapTest, TakesATableWithoutTheNeededColumnsForForeignUnasked) {
  make();
  EXPECT_EQ(map_->place(relation(1, "noise", {{"a", kInt4Oid}}))->kind, Kind::foreign);
  EXPECT_EQ(map_->place(relation(2, "noise", {{"id", kUuidOid}}))->kind, Kind::foreign);
}

TEST_F(PartitionMapTest, AsksAgainWhenTheLayoutOfAForeignTableChanges) {
  make();
  EXPECT_EQ(map_->place(relation(1, "noise", {{"id", kUuidOid}}))->kind, Kind::foreign);
  EXPECT_EQ(map_->place(relation(2, "noise"))->kind, Kind::unknown);
}

TEST_F(PartitionMapTest, StopsLoudlyAtADroppedLeaf) {
  make();
  auto placed = map_->learn(relation(1, "outbox_2023"), no_rows(), Lsn::from_wire(0x10));
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().kind, ErrorKind::fatal);
  EXPECT_NE(placed.error().message.find("outbox_2023"), std::string::npos);
  EXPECT_NE(placed.error().message.find("0/10"), std::string::npos);
  EXPECT_NE(placed.error().hint.find("source.former_partitions"), std::string::npos);
}

TEST_F(PartitionMapTest, StopsLoudlyAtADetachedLeaf) {
  make();
  EXPECT_FALSE(map_->learn(relation(1, "outbox_2023"), not_a_partition(), Lsn()));
}

TEST_F(PartitionMapTest, StopsLoudlyAtALookalikeWhateverTheOrderOfColumns) {
  make();
  std::vector<Column> turned = {kColumns[1], kColumns[0]};
  EXPECT_FALSE(map_->learn(relation(1, "outbox_2023", turned), no_rows(), Lsn()));
}

TEST_F(PartitionMapTest, StopsLoudlyAtALeafOfAnOlderShape) {
  make();
  std::vector<Column> older = {
      {"id", kTextOid}, {"payload", kJsonbOid}, {"since_dropped", kInt4Oid}};
  EXPECT_FALSE(map_->learn(relation(1, "outbox_2023", older), no_rows(), Lsn()));
}

TEST_F(PartitionMapTest, TakesAListedFormerPartitionForALeaf) {
  make({"public.outbox_2023"});
  auto placed = map_->place(relation(1, "outbox_2023"));
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->kind, Kind::leaf);
  EXPECT_EQ(*placed->root, kRoot);
}

TEST_F(PartitionMapTest, RefusesAFormerPartitionThatFitsNone) {
  make({"public.outbox_2023"});
  EXPECT_FALSE(map_->place(relation(1, "outbox_2023", {{"a", kInt4Oid}})));
}

TEST_F(PartitionMapTest, PlacesAFormerPartitionThatFitsSeveral) {
  make({"public.outbox_2023"});
  StartPlan two = plan();
  two.event_columns[QualifiedName{"public", "outbox_b"}] = kNeeded;
  map_->begin(two);
  EXPECT_EQ(map_->place(relation(2, "outbox_2023"))->kind, Kind::leaf);
}

TEST_F(PartitionMapTest, ForgetsLayoutsAtItsLimit) {
  make();
  for (std::uint64_t id = 1; id <= PartitionMap::kLayoutsMax + 1; ++id) {
    ASSERT_TRUE(map_->place(relation(id, "noise", {{"a", kInt4Oid}})));
  }
  // Layout 1 is forgotten: the same id is judged anew.
  EXPECT_EQ(map_->place(relation(1, "noise"))->kind, Kind::unknown);
  EXPECT_EQ(map_->place(relation(PartitionMap::kLayoutsMax + 1, "noise"))->kind, Kind::foreign);
}

TEST_F(PartitionMapTest, QuotesNamesInItsLookup) {
  std::string sql = PartitionMap::lookup_sql(QualifiedName{"o'brien", "t"});
  EXPECT_NE(sql.find("o''brien"), std::string::npos);
}

TEST_F(PartitionMapTest, RefusesAFormerPartitionThatIsNoName) {
  EXPECT_FALSE(PartitionMap::create({"a.b.c.d"}));
}

}  // namespace
}  // namespace outrider
