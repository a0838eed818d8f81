#include "postgres/catalog_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_catalog.h"

namespace outrider {
namespace {

using Kind = CatalogReport::Kind;
using ::testing::HasSubstr;
using ::testing::Not;

/// One look at one healthy outbox table; tests change a field.
Row healthy() {
  return {{"lsn", "0/1000"},
          {"oldest_xid", "900"},
          {"next_xid", "901"},
          {"catalog_xmin", std::nullopt},
          {"restart_lsn", std::nullopt},
          {"schema_name", "public"},
          {"table_name", "outbox"},
          {"oid", "16400"},
          {"owner", "10"},
          {"relkind", "r"},
          {"relpersistence", "p"},
          {"relispartition", "f"},
          {"type_xmin", "700"},
          {"publication", "16500"},
          {"publication_xmin", "710"},
          {"puballtables", "f"},
          {"pubinsert", "t"},
          {"pubviaroot", "t"},
          {"publication_rest", "10,f,f,f"},
          {"member", "16501"},
          {"member_xmin", "710"},
          {"schema_member", std::nullopt},
          {"has_filter", "f"},
          {"column_list", std::nullopt},
          {"leaves", std::nullopt},
          {"bad_leaf", std::nullopt},
          {"moved_schema", "public"},
          {"moved_table", "outbox"},
          {"xmaxes", "0,0,0,0,0"}};
}

SourceConfig source_config() {
  SourceConfig source;
  source.slot = "orders";
  source.publication = "orders";
  return source;
}

OutboxConfig outbox_config() {
  OutboxConfig outbox;
  outbox.tables = {"public.outbox"};
  return outbox;
}

class CatalogWatchTest : public ::testing::Test {
 protected:
  CatalogWatchTest() : watch_(source_config(), outbox_config()) { begin(Plugin::pgoutput); }

  void begin(Plugin plugin, bool new_slot = false) {
    watch_.begin({plugin, 150020, Lsn::from_wire(0x500), new_slot});
  }
  CatalogReport look(const Row& row) { return watch_.take(rows_of({row})); }
  /// A good look, then this one at 0/2000.
  CatalogReport then(Row row) {
    EXPECT_EQ(look(healthy()).kind, Kind::nothing);
    row["lsn"] = "0/2000";
    row["oldest_xid"] = "950";
    row["next_xid"] = "951";
    return look(row);
  }

  CatalogWatch watch_;
};

TEST_F(CatalogWatchTest, HasNothingToSayWhenNothingChanged) {
  EXPECT_EQ(then(healthy()).kind, Kind::nothing);
  EXPECT_EQ(watch_.last_good(), Lsn::from_wire(0x2000));
}

TEST_F(CatalogWatchTest, NamesBoundsAndRepairWhenTheTableLeftThePublication) {
  Row row = healthy();
  row["member"] = row["member_xmin"] = std::nullopt;
  CatalogReport report = then(row);
  EXPECT_EQ(report.kind, Kind::drift);
  EXPECT_THAT(report.what, HasSubstr("public.outbox is not in publication \"orders\""));
  EXPECT_THAT(report.rows, HasSubstr("written after 0/1000 may never arrive (seen at 0/2000"));
  EXPECT_THAT(report.hint, HasSubstr("ALTER PUBLICATION orders ADD TABLE public.outbox"));
  EXPECT_THAT(report.hint, HasSubstr("DELETE FROM public.outbox WHERE age(xmin) <= "
                                     "age('900'::xid) RETURNING *"));
  EXPECT_EQ(watch_.last_good(), Lsn::from_wire(0x1000));
}

TEST_F(CatalogWatchTest, FindsATableThatWasOutAndBackBetweenTwoLooks) {
  Row row = healthy();
  row["member"] = "16502";
  row["member_xmin"] = "940";
  CatalogReport report = then(row);
  EXPECT_EQ(report.kind, Kind::drift);
  EXPECT_THAT(report.what, HasSubstr("taken out of publication \"orders\" and added again "
                                     "(16501 -> 16502)"));
  EXPECT_THAT(report.rows, HasSubstr("after 0/1000 and before 0/2000 may never arrive"));
  EXPECT_THAT(report.hint,
              HasSubstr("age(xmin) <= age('900'::xid) AND age(xmin) > age('951'::xid)"));
}

TEST_F(CatalogWatchTest, KeepsTheLowerBoundWhileSomebodyChangesTheCatalogue) {
  EXPECT_EQ(look(healthy()).kind, Kind::nothing);
  Row busy = healthy();
  busy["lsn"] = "0/1800";
  busy["oldest_xid"] = "920";
  busy["xmaxes"] = "0,0,0,0,920";
  EXPECT_EQ(look(busy).kind, Kind::nothing);
  EXPECT_EQ(watch_.last_good(), Lsn::from_wire(0x1000));
  busy["xmaxes"] = "0,0,0,0,919";  // Rolled back.
  EXPECT_EQ(look(busy).kind, Kind::nothing);
  EXPECT_EQ(watch_.last_good(), Lsn::from_wire(0x1800));
}

TEST_F(CatalogWatchTest, StopsForARowFilterAndPrintsTheTransactionThatTakesItAway) {
  Row row = healthy();
  row["member"] = "16502";
  row["has_filter"] = "t";
  CatalogReport report = then(row);
  EXPECT_EQ(report.kind, Kind::drift);
  EXPECT_THAT(report.what, HasSubstr("row filter for public.outbox"));
  EXPECT_THAT(report.hint, HasSubstr("BEGIN; ALTER PUBLICATION orders DROP TABLE public.outbox; "
                                     "ALTER PUBLICATION orders ADD TABLE public.outbox; COMMIT"));
}

TEST_F(CatalogWatchTest, ARowFilterDoesNotCountWhenTheSchemaIsPublished) {
  Row row = healthy();
  row["schema_member"] = "16600";
  EXPECT_EQ(look(row).kind, Kind::nothing);
  row["has_filter"] = "t";
  row["member"] = "16502";
  EXPECT_EQ(look(row).kind, Kind::nothing);
}

TEST_F(CatalogWatchTest, StopsForASwapWhoseNewTableJoinedLater) {
  Row row = healthy();
  row["oid"] = "16700";
  row["type_xmin"] = "940";
  row["member"] = "16502";
  row["member_xmin"] = "941";
  row["moved_table"] = "outbox_old";
  CatalogReport report = then(row);
  EXPECT_EQ(report.kind, Kind::drift);
  EXPECT_THAT(report.what, HasSubstr("replaced by another table (16400 -> 16700)"));
  row["member"] = std::nullopt;
  EXPECT_THAT(look(row).what, HasSubstr("is not in publication"));
}

TEST_F(CatalogWatchTest, GoesOnAfterASwapWithinOneTransaction) {
  Row row = healthy();
  row["oid"] = "16700";
  row["type_xmin"] = row["member_xmin"] = "940";
  row["member"] = "16502";
  CatalogReport report = then(row);
  EXPECT_EQ(report.kind, Kind::changed);
  EXPECT_THAT(report.what, HasSubstr("no row was missed"));
  EXPECT_EQ(look(row).kind, Kind::nothing);
}

TEST_F(CatalogWatchTest, ASwapUnderAPublicationOfAllTablesMissesNothing) {
  Row row = healthy();
  row["puballtables"] = "t";
  row["member"] = row["member_xmin"] = std::nullopt;
  EXPECT_EQ(look(row).kind, Kind::nothing);
  row["oid"] = "16700";
  row["type_xmin"] = "940";
  EXPECT_EQ(look(row).kind, Kind::changed);
}

TEST_F(CatalogWatchTest, RenamedAwayAndBackLeavesATrace) {
  for (Plugin plugin : {Plugin::pgoutput, Plugin::wal2json}) {
    watch_ = CatalogWatch(source_config(), outbox_config());
    begin(plugin);
    Row row = healthy();
    row["type_xmin"] = "940";
    CatalogReport report = then(row);
    EXPECT_EQ(report.kind, Kind::drift);
    EXPECT_THAT(report.what, HasSubstr("another name or schema for a while"));
  }
}

TEST_F(CatalogWatchTest, SaysWhereARenamedTableIs) {
  begin(Plugin::wal2json);
  Row row = healthy();
  row["oid"] = row["type_xmin"] = std::nullopt;
  row["moved_table"] = "my events";
  CatalogReport report = then(row);
  EXPECT_EQ(report.kind, Kind::drift);
  EXPECT_THAT(report.what, HasSubstr("(public.outbox -> public.\"my events\")"));
  EXPECT_THAT(report.hint, HasSubstr("ALTER TABLE public.\"my events\" RENAME TO outbox;"));
}

TEST_F(CatalogWatchTest, BringsATableBackFromAnotherSchemaAndName) {
  Row row = healthy();
  row["oid"] = std::nullopt;
  row["moved_schema"] = "attic";
  row["moved_table"] = "old";
  EXPECT_THAT(then(row).hint, HasSubstr("ALTER TABLE attic.old RENAME TO outbox; "
                                        "ALTER TABLE attic.outbox SET SCHEMA public;"));
  row["moved_schema"] = row["moved_table"] = std::nullopt;
  EXPECT_THAT(look(row).what, HasSubstr("does not exist any more"));
}

TEST_F(CatalogWatchTest, Wal2jsonDoesNotCareForPublications) {
  begin(Plugin::wal2json);
  Row row = healthy();
  row["publication"] = row["member"] = row["member_xmin"] = std::nullopt;
  EXPECT_EQ(then(row).kind, Kind::nothing);
}

TEST_F(CatalogWatchTest, AnotherOwnerIsNoDrift) {
  Row row = healthy();
  row["owner"] = "11";
  row["type_xmin"] = "940";
  EXPECT_EQ(then(row).kind, Kind::changed);
}

TEST_F(CatalogWatchTest, AnAttachedPartitionIsNoDriftButAnUnloggedOneIs) {
  Row row = healthy();
  row["relkind"] = "p";
  row["leaves"] = "2 (aa)";
  EXPECT_EQ(look(row).kind, Kind::nothing);
  row["leaves"] = "3 (bb)";
  CatalogReport report = look(row);
  EXPECT_EQ(report.kind, Kind::changed);
  EXPECT_THAT(report.what, HasSubstr("(2 (aa) -> 3 (bb))"));
  row["bad_leaf"] = "public.outbox_3";
  EXPECT_EQ(look(row).kind, Kind::drift);
}

TEST_F(CatalogWatchTest, FlippingTheRootMattersForPartitionedTablesOnly) {
  Row row = healthy();
  row["pubviaroot"] = "f";
  row["publication_xmin"] = "940";
  EXPECT_EQ(then(row).kind, Kind::changed);
  row["relkind"] = "p";
  CatalogReport report = look(row);
  EXPECT_EQ(report.kind, Kind::drift);
  EXPECT_THAT(report.hint, HasSubstr("publish_via_partition_root = true"));
}

struct Flaw {
  const char* name;
  const char* field;
  const char* value;
  const char* what;
};

class CatalogFlaw : public CatalogWatchTest, public ::testing::WithParamInterface<Flaw> {};

TEST_P(CatalogFlaw, IsDriftWithItsOwnWords) {
  Row row = healthy();
  row[GetParam().field] =
      GetParam().value == nullptr ? std::optional<std::string>() : std::string(GetParam().value);
  CatalogReport report = then(row);
  EXPECT_EQ(report.kind, Kind::drift);
  EXPECT_THAT(report.what, HasSubstr(GetParam().what));
  EXPECT_THAT(report.hint, HasSubstr("put it back: "));
}

INSTANTIATE_TEST_SUITE_P(
    All, CatalogFlaw,
    ::testing::Values(Flaw{"Unlogged", "relpersistence", "u", "became unlogged"},
                      Flaw{"Partition", "relispartition", "t", "became a partition"},
                      Flaw{"View", "relkind", "v", "no table any more"},
                      Flaw{"NoInsert", "pubinsert", "f", "does not publish inserts"},
                      Flaw{"NoPublication", "publication", nullptr, "does not exist any more"}),
    [](const auto& flaw) { return std::string(flaw.param.name); });

TEST_F(CatalogWatchTest, ReportsAPublicationThatWasDroppedAndMadeAgain) {
  Row row = healthy();
  row["publication"] = "16900";
  row["publication_xmin"] = row["member_xmin"] = "940";
  row["member"] = "16901";
  CatalogReport report = then(row);
  EXPECT_EQ(report.kind, Kind::drift);
  EXPECT_THAT(report.what, HasSubstr("dropped and made again (16500 -> 16900)"));
}

TEST_F(CatalogWatchTest, ReportsAGapButGoesOnAfterAnAlterThatShowsNothing) {
  Row row = healthy();
  row["publication_xmin"] = "940";
  CatalogReport report = then(row);
  EXPECT_EQ(report.kind, Kind::gap);
  EXPECT_THAT(report.rows, HasSubstr("after 0/1000 and before 0/2000"));
  EXPECT_EQ(look(row).kind, Kind::nothing);
}

TEST_F(CatalogWatchTest, RemembersAcrossStreams) {
  EXPECT_EQ(look(healthy()).kind, Kind::nothing);
  begin(Plugin::pgoutput);
  Row row = healthy();
  row["member"] = "16502";
  EXPECT_EQ(look(row).kind, Kind::drift);
}

TEST_F(CatalogWatchTest, AFirstLookThatIsBadHasTheStreamsStartAsItsBound) {
  Row row = healthy();
  row["member"] = std::nullopt;
  row["catalog_xmin"] = "690";
  CatalogReport report = look(row);
  EXPECT_EQ(report.kind, Kind::drift);
  EXPECT_THAT(report.rows, HasSubstr("written after 0/500"));
}

// The start: a relay without memory -----------------------------------------------------------

TEST_F(CatalogWatchTest, WarnsAtTheStartOfAMembershipYoungerThanTheSlotsCatalogue) {
  Row row = healthy();
  row["catalog_xmin"] = "705";
  row["restart_lsn"] = "0/400";
  CatalogReport report = look(row);
  EXPECT_EQ(report.kind, Kind::gap);
  EXPECT_THAT(report.what, HasSubstr("added to publication \"orders\" by transaction 710"));
  EXPECT_THAT(report.rows, HasSubstr("after 0/400 and before 0/1000"));
  EXPECT_THAT(report.hint, HasSubstr("age('705'::xid)"));
  EXPECT_EQ(look(row).kind, Kind::nothing);
}

TEST_F(CatalogWatchTest, DoesNotWarnOfATableThatJoinedAtItsBirth) {
  Row row = healthy();
  row["catalog_xmin"] = "705";
  row["publication_xmin"] = "600";
  row["type_xmin"] = "710";
  EXPECT_EQ(look(row).kind, Kind::nothing);
}

TEST_F(CatalogWatchTest, WarnsAtTheStartOfATableNamedSinceUnderWal2json) {
  begin(Plugin::wal2json);
  Row row = healthy();
  row["catalog_xmin"] = "700";
  CatalogReport report = look(row);
  EXPECT_EQ(report.kind, Kind::gap);
  EXPECT_THAT(report.what, HasSubstr("created, renamed, moved"));
}

TEST_F(CatalogWatchTest, ComparesTransactionsAsTheServerDoes) {
  EXPECT_TRUE(xid_precedes(5, 6));
  EXPECT_FALSE(xid_precedes(6, 6));
  EXPECT_TRUE(xid_precedes(4'294'967'290U, 10));  // Around the end of the numbers.
  EXPECT_FALSE(xid_precedes(10, 4'294'967'290U));
  EXPECT_TRUE(xid_precedes(2, 4'294'967'290U));  // Frozen: before all.
  Row row = healthy();
  row["catalog_xmin"] = "4294967290";
  row["next_xid"] = "4294967299";  // With an epoch: 3.
  row["type_xmin"] = row["publication_xmin"] = "3000000000";
  row["member_xmin"] = "1";
  EXPECT_EQ(look(row).kind, Kind::nothing);
  watch_ = CatalogWatch(source_config(), outbox_config());
  begin(Plugin::pgoutput);
  row["next_xid"] = "4294967310";
  row["member_xmin"] = "4";
  EXPECT_EQ(look(row).kind, Kind::gap);
}

TEST_F(CatalogWatchTest, TakesANumberFromTheFutureForAnOldOne) {
  Row row = healthy();
  row["catalog_xmin"] = "890";
  row["member_xmin"] = "2000000000";  // Frozen, more than half of all numbers ago.
  EXPECT_EQ(look(row).kind, Kind::nothing);
}

TEST_F(CatalogWatchTest, AsksForTheSlotAtTheFirstLookOnlyAndNotForANewSlot) {
  EXPECT_THAT(watch_.statement(), HasSubstr("slot_name = 'orders'"));
  begin(Plugin::pgoutput, true);
  EXPECT_THAT(watch_.statement(), Not(HasSubstr("slot_name")));
  begin(Plugin::pgoutput);
  look(healthy());
  EXPECT_THAT(watch_.statement(), Not(HasSubstr("slot_name")));
  EXPECT_THAT(watch_.statement(), HasSubstr("16400::pg_catalog.oid"));
}

TEST_F(CatalogWatchTest, AsksFourteenOnlyForWhatItHas) {
  watch_.begin({Plugin::pgoutput, 140010, Lsn(), false});
  EXPECT_THAT(watch_.statement(), Not(HasSubstr("prqual")));
  EXPECT_THAT(watch_.statement(), Not(HasSubstr("pg_publication_namespace")));
  watch_.begin({Plugin::pgoutput, 180000, Lsn(), false});
  EXPECT_THAT(watch_.statement(), HasSubstr("pubgencols"));
}

// Rows that call for a look -------------------------------------------------------------------

Relation relation(std::uint64_t layout, const char* table) {
  return {layout, {"public", table}, {}};
}

TEST_F(CatalogWatchTest, ALookPrecedesARowOfAnUnknownTableOrANewLayout) {
  EXPECT_FALSE(watch_.needs_look(relation(1, "outbox")));
  EXPECT_TRUE(watch_.needs_look(relation(2, "outbox_old")));
  EXPECT_FALSE(watch_.needs_look(relation(1, "outbox")));
  EXPECT_FALSE(watch_.needs_look(relation(2, "outbox_old")));
  EXPECT_TRUE(watch_.needs_look(relation(3, "outbox")));
  begin(Plugin::pgoutput);
  EXPECT_FALSE(watch_.needs_look(relation(4, "outbox")));
}

}  // namespace
}  // namespace outrider
