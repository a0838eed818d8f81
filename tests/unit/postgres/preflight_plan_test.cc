// What preflight plans when nothing is wrong.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "postgres/preflight_judge.h"
#include "unit/postgres/fake_catalog.h"

namespace outrider {
namespace {

using ::testing::_;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

StartPlan plan_of(FakeSetup& setup, std::optional<Plugin> instead = std::nullopt) {
  Result<StartPlan> plan = setup.judge(instead);
  EXPECT_TRUE(plan.has_value()) << describe(plan.error());
  return plan ? *plan : StartPlan{};
}

TEST(PreflightPlan, TriesWal2jsonFirstAndFallsBackToPgoutput) {
  FakeSetup setup;
  const StartPlan first = plan_of(setup);
  EXPECT_EQ(first.plugin, Plugin::wal2json);
  EXPECT_EQ(first.fallback_plugin, Plugin::pgoutput);
  EXPECT_TRUE(first.create_slot);
  EXPECT_THAT(first.statements, IsEmpty());

  const StartPlan second = plan_of(setup, first.fallback_plugin);
  EXPECT_EQ(second.plugin, Plugin::pgoutput);
  EXPECT_FALSE(second.fallback_plugin.has_value());
  EXPECT_THAT(second.statements, ElementsAre(HasSubstr("CREATE PUBLICATION orders_pub")));
}

TEST(PreflightPlan, TakesPgoutputWhereTheListOfPluginsLacksWal2json) {
  FakeSetup setup;
  setup.catalog.server["output_plugin_libraries"] = "pgoutput, test_decoding";
  EXPECT_EQ(plan_of(setup).plugin, Plugin::pgoutput);
  setup.catalog.server["output_plugin_libraries"] = "pgoutput, \"wal2json\"";
  EXPECT_EQ(plan_of(setup).plugin, Plugin::wal2json);
}

TEST(PreflightPlan, TakesPgoutputForWhatWal2jsonCannotCarry) {
  for (const std::uint32_t type : {kFloat4Oid, kFloat8Oid, kNumericOid}) {
    FakeSetup setup;
    setup.catalog.tables[0].columns.push_back({"weight", type});
    EXPECT_EQ(plan_of(setup).plugin, Plugin::wal2json) << "the column is not used";
    setup.outbox.headers = {{"weight", ""}};
    EXPECT_EQ(plan_of(setup).plugin, Plugin::pgoutput);
  }
  FakeSetup latin;
  latin.catalog.server["encoding"] = "LATIN1";
  EXPECT_EQ(plan_of(latin).plugin, Plugin::pgoutput);
  FakeSetup partitioned;
  partitioned.catalog.tables[0].kind = "p";
  EXPECT_EQ(plan_of(partitioned).plugin, Plugin::pgoutput);
}

TEST(PreflightPlan, KeepsThePluginOfAnExistingSlot) {
  for (const auto& [name, plugin] :
       {std::pair("wal2json", Plugin::wal2json), std::pair("pgoutput", Plugin::pgoutput)}) {
    FakeSetup setup;
    setup.source.create_slot = false;
    setup.catalog.have_slot(name);
    const StartPlan plan = plan_of(setup);
    EXPECT_EQ(plan.plugin, plugin);
    EXPECT_FALSE(plan.create_slot);
    EXPECT_FALSE(plan.fallback_plugin.has_value());
    EXPECT_EQ(plan.confirmed_flush_lsn.to_string(), "0/1A2B3C4D");
  }
}

TEST(PreflightPlan, WaitsForASlotThatAnotherHoldsThoughAllSlotsAreUsed) {
  FakeSetup setup;
  setup.catalog.have_slot("pgoutput");
  setup.catalog.have_publication();
  setup.catalog.server["slots_used"] = "10";
  (*setup.catalog.slot)["active"] = "t";
  (*setup.catalog.slot)["active_pid"] = "815";
  const StartPlan plan = plan_of(setup);
  EXPECT_TRUE(plan.slot_active);
  EXPECT_EQ(plan.slot_active_pid, 815);
}

TEST(PreflightPlan, AsksPgoutputForThePublicationAsAQuotedIdentifier) {
  FakeSetup setup;
  setup.source.plugin = PluginChoice::pgoutput;
  setup.source.publication = "my \"pub\", it's";
  EXPECT_THAT(
      plan_of(setup).plugin_options,
      ElementsAre(Pair("proto_version", "1"), Pair("publication_names", "\"my \"\"pub\"\", it's\""),
                  Pair("messages", "false")));
}

TEST(PreflightPlan, EscapesOddTableNamesForWal2json) {
  FakeSetup setup;
  setup.catalog.tables[0].schema = "a.b";
  setup.catalog.tables[0].name = "Out,Box*Q \"q'";
  setup.outbox.tables = {"\"a.b\".\"Out,Box*Q \"\"q'\""};
  const StartPlan plan = plan_of(setup);
  EXPECT_THAT(plan.plugin_options,
              ElementsAre(Pair("format-version", "2"), Pair("include-lsn", "true"),
                          Pair("include-timestamp", "true"), Pair("include-types", "false"),
                          Pair("include-type-oids", "true"), Pair("actions", "insert"),
                          Pair("add-msg-prefixes", "outrider"),
                          Pair("add-tables", "a\\.b.Out\\,Box\\*Q\\ \\\"q\\'")));
  EXPECT_EQ(wal2json_name("back\\slash"), "back\\\\slash");
  EXPECT_EQ(wal2json_name("größe_1"), "größe_1");
}

TEST(PreflightPlan, TakesAllTablesForAPartitionedOutboxUnderWal2json) {
  FakeSetup setup;
  setup.source.plugin = PluginChoice::wal2json;
  setup.source.foreign_tables = {"tenant_b.outbox", "attic.events"};
  setup.catalog.tables[0].kind = "p";
  setup.catalog.tables.push_back({.oid = "16500", .schema = "shop", .name = "events"});
  setup.outbox.tables = {"public.outbox", "shop.events"};
  setup.catalog.add_partition("outbox_1");
  setup.catalog.add_partition("outbox_2", "r", "p", "old");
  const StartPlan plan = plan_of(setup);
  EXPECT_TRUE(plan.follows_all_tables);
  EXPECT_THAT(plan.plugin_options, Not(Contains(Pair("add-tables", _))));
  EXPECT_THAT(plan.plugin_options, Contains(Pair("filter-tables", "tenant_b.outbox,attic.events")));
  const QualifiedName root{"public", "outbox"};
  EXPECT_THAT(plan.partition_roots, ElementsAre(Pair(QualifiedName{"old", "outbox_2"}, root),
                                                Pair(QualifiedName{"public", "outbox_1"}, root)));
  EXPECT_THAT(plan.event_columns.at(root), ElementsAre("id", "aggregateid", "payload", "type"));
}

TEST(PreflightPlan, TakesAllTablesWhenAPartitionIsListedAsFormer) {
  FakeSetup setup;
  setup.source.plugin = PluginChoice::wal2json;
  setup.source.former_partitions = {"attic.outbox_gone"};
  EXPECT_TRUE(plan_of(setup).follows_all_tables);
}

TEST(PreflightPlan, RefusesAForeignTableThatIsAPartition) {
  FakeSetup setup;
  setup.source.plugin = PluginChoice::wal2json;
  setup.source.foreign_tables = {"public.outbox_1"};
  setup.catalog.tables[0].kind = "p";
  setup.catalog.add_partition("outbox_1");
  const Result<StartPlan> judged = setup.judge();
  ASSERT_FALSE(judged);
  EXPECT_EQ(judged.error().kind, ErrorKind::configuration);
  EXPECT_NE(judged.error().message.find("public.outbox_1"), std::string::npos);
}

TEST(PreflightPlan, CarriesTheIdentityOfTheServer) {
  FakeSetup setup;
  const StartPlan plan = plan_of(setup);
  EXPECT_EQ(plan.system_identifier, "7714043951656354439");
  EXPECT_EQ(plan.timeline, 3U);
  EXPECT_EQ(plan.server_version_num, 150020);
}

TEST(PreflightPlan, DoesNotAskForWhatItsRoleMayNotRead) {
  FakeSetup setup;
  setup.catalog.server["may_read_control"] = "f";
  const StartPlan plan = plan_of(setup);
  EXPECT_EQ(plan.system_identifier, "");
  EXPECT_THAT(setup.catalog.asked, Not(Contains(HasSubstr("pg_control_system()  s"))));
  EXPECT_THAT(setup.catalog.asked, Not(Contains(HasSubstr("FROM pg_catalog.pg_control_system"))));
}

TEST(PreflightPlan, AsksEachVersionOnlyForColumnsItHas) {
  EXPECT_THAT(slot_statement(140000, "s"), Not(HasSubstr("conflicting")));
  EXPECT_THAT(slot_statement(160000, "s"), HasSubstr("WHEN conflicting"));
  EXPECT_THAT(slot_statement(160000, "s"), Not(HasSubstr("WHEN invalidation_reason")));
  EXPECT_THAT(slot_statement(170000, "s"), HasSubstr("synced AS synced"));
  EXPECT_THAT(published_tables_statement(140000, "p"), Not(HasSubstr("attnames")));
  EXPECT_THAT(published_tables_statement(150000, "p"), HasSubstr("attnames"));
}

TEST(PreflightPlan, QuotesNamesInItsStatements) {
  EXPECT_THAT(slot_statement(150000, "o'b\\x"), HasSubstr("slot_name =  E'o''b\\\\x'"));
  EXPECT_THAT(tables_statement({{"s'1", "t\"2"}}),
              HasSubstr("(n.nspname = 's''1' AND c.relname = 't\"2')"));
}

TEST(PreflightPlan, UsesAPublicationThatPublishesMore) {
  FakeSetup setup;
  setup.source.plugin = PluginChoice::pgoutput;
  setup.source.create_publication = false;
  setup.catalog.have_publication();
  (*setup.catalog.publication)["pubdelete"] = "t";
  EXPECT_THAT(plan_of(setup).warnings, IsEmpty());
  (*setup.catalog.publication)["puballtables"] = "t";
  EXPECT_THAT(plan_of(setup).warnings, ElementsAre(HasSubstr("is FOR ALL TABLES")));
}

TEST(PreflightPlan, AcceptsAColumnListThatHasWhatIsUsedAndSaysSo) {
  FakeSetup setup;
  setup.source.plugin = PluginChoice::pgoutput;
  setup.catalog.tables[0].columns.push_back({"note", kTextOid});
  setup.catalog.have_publication();
  setup.catalog.published.pop_back();
  EXPECT_THAT(plan_of(setup).warnings, ElementsAre(HasSubstr("has a column list")));
}

TEST(PreflightPlan, LetsPostgres18PublishGeneratedColumns) {
  FakeSetup setup;
  setup.source.plugin = PluginChoice::pgoutput;
  setup.catalog.server["version_num"] = "180001";
  setup.catalog.tables[0].columns[4].generated = "s";
  EXPECT_THAT(plan_of(setup).statements,
              ElementsAre(HasSubstr("publish_generated_columns = stored")));
}

TEST(PreflightPlan, WarnsOfWhatCanHurtLater) {
  FakeSetup setup;
  setup.source.plugin = PluginChoice::pgoutput;
  setup.catalog.have_slot("pgoutput");
  (*setup.catalog.slot)["wal_status"] = "unreserved";
  setup.catalog.server["max_slot_wal_keep_mb"] = "-1";
  setup.catalog.server["wal_sender_timeout_ms"] = "5000";
  setup.catalog.server["idle_slot_timeout"] = "3600";
  EXPECT_THAT(plan_of(setup).warnings,
              ElementsAre(HasSubstr("is made after the slot"), HasSubstr("is unlimited"),
                          HasSubstr("about to be invalidated"),
                          HasSubstr("idle_replication_slot_timeout is set"),
                          HasSubstr("(5000 ms) is shorter than")));
  FakeSetup quiet;
  quiet.source.wal_sender_timeout_ms = 0;
  quiet.catalog.server["wal_sender_timeout_ms"] = "0";
  EXPECT_THAT(plan_of(quiet).warnings, ElementsAre(HasSubstr("wal_sender_timeout is 0")));
}

}  // namespace
}  // namespace outrider
