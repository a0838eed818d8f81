// What preflight refuses: one cause, one message, one kind, one exact fix.
#include "postgres/preflight.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "unit/postgres/fake_catalog.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr auto kConfiguration = ErrorKind::configuration;
constexpr auto kTransient = ErrorKind::transient;
constexpr auto kFatal = ErrorKind::fatal;

struct RefusalCase {
  const char* name;
  std::function<void(FakeSetup&)> arrange;
  ErrorKind kind;
  const char* message;
  const char* hint;
};

void partition(FakeSetup& setup) {
  setup.catalog.tables[0].kind = "p";
  setup.catalog.add_partition("outbox_1");
}

const std::vector<RefusalCase>& server_cases() {
  static const std::vector<RefusalCase> cases = {
      {"ServerTooOld", [](FakeSetup& s) { s.catalog.server["version_num"] = "130012"; },
       kConfiguration, "PostgreSQL 13 is too old", "use PostgreSQL 14 or later"},
      {"WalLevelReplica", [](FakeSetup& s) { s.catalog.server["wal_level"] = "replica"; },
       kConfiguration, "wal_level is \"replica\"",
       "run ALTER SYSTEM SET wal_level = 'logical' and restart PostgreSQL"},
      {"RoleWithoutReplication", [](FakeSetup& s) { s.catalog.server["may_replicate"] = "f"; },
       kConfiguration, "role \"relay\" lacks the REPLICATION attribute",
       "ALTER ROLE relay REPLICATION"},
      {"StandbyBefore16", [](FakeSetup& s) { s.catalog.server["in_recovery"] = "t"; }, kTransient,
       "server is in recovery", "target_session_attrs=read-write"},
      {"SqlAscii", [](FakeSetup& s) { s.catalog.server["encoding"] = "SQL_ASCII"; }, kConfiguration,
       "has encoding SQL_ASCII", "ENCODING 'UTF8'"},
      {"Latin1UnderWal2json",
       [](FakeSetup& s) {
         s.catalog.server["encoding"] = "LATIN1";
         s.source.plugin = PluginChoice::wal2json;
       },
       kConfiguration, "has encoding LATIN1, which wal2json sends unconverted",
       "set source.plugin: pgoutput"},
      {"SynchronousForAll",
       [](FakeSetup& s) { s.catalog.server["synchronous_standby_names"] = "*"; }, kConfiguration,
       "counts the relay (application_name outrider_orders) as a synchronous standby",
       "ALTER SYSTEM SET synchronous_standby_names = 'FIRST 1 (standby_1, standby_2)'"},
      {"SlotsUsedUp", [](FakeSetup& s) { s.catalog.server["slots_used"] = "10"; }, kConfiguration,
       "all 10 replication slots are in use (max_replication_slots)",
       "ALTER SYSTEM SET max_replication_slots = 14 and restart PostgreSQL"},
      {"SendersUsedUp", [](FakeSetup& s) { s.catalog.server["senders_used"] = "10"; }, kTransient,
       "all 10 walsenders are in use (max_wal_senders)", "ALTER SYSTEM SET max_wal_senders = 14"},
      {"PluginNotListed",
       [](FakeSetup& s) {
         s.catalog.server["output_plugin_libraries"] = "pgoutput, test_decoding, \"my plugin\"";
         s.source.plugin = PluginChoice::wal2json;
       },
       kConfiguration, "output plugin \"wal2json\" is not allowed by output_plugin_libraries",
       "ALTER SYSTEM SET output_plugin_libraries = 'pgoutput', 'test_decoding', 'my plugin', "
       "'wal2json'; SELECT pg_reload_conf(), or set source.plugin: pgoutput"},
  };
  return cases;
}

const std::vector<RefusalCase>& invalidation_cases() {
  static const std::vector<RefusalCase> cases = {
      {"SlotLost",
       [](FakeSetup& s) {
         s.catalog.have_slot("pgoutput");
         (*s.catalog.slot)["wal_status"] = "lost";
       },
       kFatal, "was invalidated by the server (wal_status lost)",
       "SELECT pg_drop_replication_slot('orders')"},
      {"SlotInvalidated",
       [](FakeSetup& s) {
         s.catalog.server["version_num"] = "180000";
         s.catalog.have_slot("pgoutput");
         (*s.catalog.slot)["invalidation_reason"] = "idle_timeout";
       },
       kFatal, "was invalidated by the server (idle_timeout)",
       "so that it does not happen again raise idle_replication_slot_timeout"},
      {"SlotConflictsWithRecovery",
       [](FakeSetup& s) {
         s.catalog.have_slot("pgoutput");
         (*s.catalog.slot)["wal_status"] = "lost";
         (*s.catalog.slot)["invalidation_reason"] = "rows_removed";
       },
       kFatal, "was invalidated by the server (rows_removed)",
       "so that it does not happen again set hot_standby_feedback = on"},
  };
  return cases;
}

const std::vector<RefusalCase>& slot_cases() {
  static const std::vector<RefusalCase> cases = {
      {"SlotMissing", [](FakeSetup& s) { s.source.create_slot = false; }, kConfiguration,
       "replication slot \"orders\" does not exist",
       "SELECT pg_create_logical_replication_slot('orders', 'pgoutput')"},
      {"SlotPhysical",
       [](FakeSetup& s) {
         s.catalog.have_slot("");
         (*s.catalog.slot)["slot_type"] = "physical";
       },
       kConfiguration, "is physical, a logical one is needed",
       "SELECT pg_drop_replication_slot('orders')"},
      {"SlotOfOtherDatabase",
       [](FakeSetup& s) {
         s.catalog.have_slot("wal2json");
         (*s.catalog.slot)["database"] = "billing";
       },
       kConfiguration, "belongs to database \"billing\", not to \"app\"",
       "correct the database in source.dsn"},
      {"SlotOfUnknownPlugin", [](FakeSetup& s) { s.catalog.have_slot("test_decoding"); },
       kConfiguration, "was made with output plugin \"test_decoding\", not with",
       "choose another source.slot"},
      {"SlotOfOtherPlugin",
       [](FakeSetup& s) {
         s.catalog.have_slot("pgoutput");
         s.source.plugin = PluginChoice::wal2json;
       },
       kConfiguration, "was made with output plugin \"pgoutput\", source.plugin is \"wal2json\"",
       "set source.plugin: pgoutput"},
      {"SlotTemporary",
       [](FakeSetup& s) {
         s.catalog.have_slot("pgoutput");
         (*s.catalog.slot)["temporary"] = "t";
         (*s.catalog.slot)["active"] = "t";
         (*s.catalog.slot)["active_pid"] = "4711";
       },
       kTransient, "exists as a temporary slot of another session (process 4711)",
       "wait until that session ends"},
      {"SlotSynchronisedCopy",
       [](FakeSetup& s) {
         s.catalog.server["version_num"] = "170004";
         s.catalog.server["in_recovery"] = "t";
         s.catalog.have_slot("pgoutput");
         (*s.catalog.slot)["synced"] = "t";
       },
       kTransient, "usable only after promotion", "point source.dsn at the primary"},
      {"SlotNeverCompleted",
       [](FakeSetup& s) {
         s.catalog.have_slot("pgoutput");
         (*s.catalog.slot)["confirmed_flush_lsn"] = std::nullopt;
       },
       kFatal, "was never completed", "SELECT pg_drop_replication_slot('orders')"},
  };
  return cases;
}

const std::vector<RefusalCase>& table_cases() {
  static const std::vector<RefusalCase> cases = {
      {"BadTableName", [](FakeSetup& s) { s.outbox.tables = {"a.b.c.d"}; }, kConfiguration, "", ""},
      {"NoTable", [](FakeSetup& s) { s.outbox.tables.clear(); }, kConfiguration,
       "no outbox table is configured", "set outbox.tables"},
      {"TableMissing", [](FakeSetup& s) { s.catalog.tables.clear(); }, kConfiguration,
       "outbox table public.outbox does not exist in database \"app\"",
       "create it with outrider init"},
      {"TableOfOtherCase",
       [](FakeSetup& s) {
         s.catalog.tables[0].name = "Outbox";
         s.catalog.tables[0].schema = "shop";
       },
       kConfiguration, "outbox table public.outbox does not exist",
       "set outbox.tables to one that exists (shop.\"Outbox\";"},
      {"View", [](FakeSetup& s) { s.catalog.tables[0].kind = "v"; }, kConfiguration,
       "public.outbox is a view", "set outbox.tables to the table that the application"},
      {"ForeignTable", [](FakeSetup& s) { s.catalog.tables[0].kind = "f"; }, kConfiguration,
       "public.outbox is a foreign table", "set outbox.tables to the table that the application"},
      {"PartitionNamed", [](FakeSetup& s) { s.catalog.tables[0].is_partition = true; },
       kConfiguration, "outbox table public.outbox is a partition", "the partitioned table"},
      {"Unlogged", [](FakeSetup& s) { s.catalog.tables[0].persistence = "u"; }, kConfiguration,
       "outbox table public.outbox is unlogged", "run ALTER TABLE public.outbox SET LOGGED"},
      {"Temporary", [](FakeSetup& s) { s.catalog.tables[0].persistence = "t"; }, kConfiguration,
       "is temporary", "use a permanent table"},
      {"UnloggedPartition",
       [](FakeSetup& s) {
         s.catalog.tables[0].kind = "p";
         s.catalog.add_partition("outbox_1", "r", "u");
       },
       kConfiguration, "outbox table public.outbox_1 is unlogged",
       "run ALTER TABLE public.outbox_1 SET LOGGED"},
      {"ForeignPartition",
       [](FakeSetup& s) {
         s.catalog.tables[0].kind = "p";
         s.catalog.add_partition("outbox_1", "f");
       },
       kConfiguration, "partition public.outbox_1 of outbox table public.outbox is a foreign table",
       "run ALTER TABLE public.outbox DETACH PARTITION public.outbox_1"},
  };
  return cases;
}

const std::vector<RefusalCase>& column_cases() {
  static const std::vector<RefusalCase> cases = {
      {"ColumnMissing", [](FakeSetup& s) { s.outbox.columns.payload = "body"; }, kConfiguration,
       "outbox table public.outbox: no column \"body\" (outbox.columns.payload)", ""},
      {"VirtualColumn",
       [](FakeSetup& s) {
         s.catalog.server["version_num"] = "180001";
         s.catalog.tables[0].columns[2].generated = "v";
       },
       kConfiguration, "column \"aggregateid\" of outbox table public.outbox is a virtual",
       "make it an ordinary column"},
      {"GeneratedUnderPgoutput",
       [](FakeSetup& s) {
         s.source.plugin = PluginChoice::pgoutput;
         s.catalog.tables[0].columns[2].generated = "s";
       },
       kConfiguration,
       "column \"aggregateid\" of outbox table public.outbox is a generated column, which pgoutput "
       "leaves out",
       "set source.plugin: wal2json"},
      {"NumericUnderWal2json",
       [](FakeSetup& s) {
         s.source.plugin = PluginChoice::wal2json;
         s.catalog.tables[0].columns[2].type_oid = kNumericOid;
       },
       kConfiguration,
       "is a float or numeric column, whose NaN and Infinity wal2json sends as null",
       "set source.plugin: pgoutput, or store the value as text"},
      {"FloatInWal2jsonSlot",
       [](FakeSetup& s) {
         s.catalog.have_slot("wal2json");
         s.catalog.tables[0].columns[2].type_oid = kFloat8Oid;
       },
       kConfiguration, "is a float or numeric column",
       "make a new slot with the other plugin (another source.slot and source.plugin: pgoutput)"},
  };
  return cases;
}

const std::vector<RefusalCase>& publication_cases() {
  static const std::vector<RefusalCase> cases = {
      {"PublicationMissing",
       [](FakeSetup& s) {
         s.source.create_publication = false;
         s.source.plugin = PluginChoice::pgoutput;
       },
       kConfiguration, "publication \"orders_pub\" does not exist (pgoutput needs it)",
       "CREATE PUBLICATION orders_pub FOR TABLE public.outbox WITH (publish = 'insert', "
       "publish_via_partition_root = true)"},
      {"PublicationMissingBesideASlot",
       [](FakeSetup& s) {
         s.source.create_publication = false;
         s.catalog.have_slot("pgoutput");
       },
       kConfiguration, "publication \"orders_pub\" does not exist (pgoutput needs it)",
       "rows written while it was missing cannot be read"},
      {"PublicationNotOnStandby",
       [](FakeSetup& s) {
         s.catalog.server["version_num"] = "160004";
         s.catalog.server["in_recovery"] = "t";
         s.source.plugin = PluginChoice::pgoutput;
       },
       kConfiguration, "cannot be created on a standby",
       "run on the primary: CREATE PUBLICATION orders_pub"},
      {"PublicationNeedsCreate",
       [](FakeSetup& s) {
         s.catalog.server["may_create_in_database"] = "f";
         s.source.plugin = PluginChoice::pgoutput;
       },
       kConfiguration, "role \"relay\" may not create it in database \"app\"",
       "CREATE PUBLICATION orders_pub FOR TABLE public.outbox"},
      {"PublicationNeedsOwner",
       [](FakeSetup& s) {
         s.catalog.tables[0].may_alter = false;
         s.source.plugin = PluginChoice::pgoutput;
       },
       kConfiguration, "role \"relay\" does not own public.outbox",
       "run as the owner \"shop\": CREATE PUBLICATION orders_pub"},
      {"PublicationWithoutInsert",
       [](FakeSetup& s) {
         s.source.plugin = PluginChoice::pgoutput;
         s.catalog.have_publication();
         (*s.catalog.publication)["pubinsert"] = "f";
         (*s.catalog.publication)["pubdelete"] = "t";
       },
       kConfiguration, "publication \"orders_pub\" does not publish inserts",
       "ALTER PUBLICATION orders_pub SET (publish = 'insert, delete')"},
      {"PublicationNotViaRoot",
       [](FakeSetup& s) {
         partition(s);
         s.catalog.have_publication();
         (*s.catalog.publication)["pubviaroot"] = "f";
       },
       kConfiguration, "publishes the partitions of public.outbox under their own names",
       "ALTER PUBLICATION orders_pub SET (publish_via_partition_root = true)"},
  };
  return cases;
}

const std::vector<RefusalCase>& published_cases() {
  static const std::vector<RefusalCase> cases = {
      {"PublicationLacksTable",
       [](FakeSetup& s) {
         s.source.plugin = PluginChoice::pgoutput;
         s.catalog.have_publication();
         s.catalog.published.clear();
       },
       kConfiguration, "publication \"orders_pub\" lacks public.outbox",
       "run ALTER PUBLICATION orders_pub ADD TABLE public.outbox"},
      {"PublicationWithRowFilter",
       [](FakeSetup& s) {
         s.source.plugin = PluginChoice::pgoutput;
         s.catalog.have_publication();
         for (Row& row : s.catalog.published) {
           row["has_row_filter"] = "t";
         }
       },
       kConfiguration, "has a row filter for public.outbox",
       "BEGIN; ALTER PUBLICATION orders_pub DROP TABLE public.outbox; ALTER "
       "PUBLICATION orders_pub ADD TABLE public.outbox"},
      {"PublicationWithColumnList",
       [](FakeSetup& s) {
         s.source.plugin = PluginChoice::pgoutput;
         s.catalog.have_publication();
         s.catalog.published.pop_back();
       },
       kConfiguration, "has a column list without column \"payload\" of public.outbox",
       "ALTER PUBLICATION orders_pub ADD TABLE public.outbox"},
      {"PublicationWithoutGenerated",
       [](FakeSetup& s) {
         s.source.plugin = PluginChoice::pgoutput;
         s.catalog.server["version_num"] = "180001";
         s.catalog.tables[0].columns[4].generated = "s";
         s.catalog.have_publication();
         s.catalog.published.pop_back();
       },
       kConfiguration, "leaves out the generated column \"payload\"",
       "SET (publish_generated_columns = stored)"},
  };
  return cases;
}

class PreflightRefusal : public ::testing::TestWithParam<RefusalCase> {};

TEST_P(PreflightRefusal, NamesItsCauseAndTheFix) {
  FakeSetup setup;
  GetParam().arrange(setup);
  const Result<StartPlan> verdict = setup.judge();
  ASSERT_FALSE(verdict.has_value());
  EXPECT_EQ(verdict.error().kind, GetParam().kind) << describe(verdict.error());
  EXPECT_THAT(verdict.error().message, HasSubstr(GetParam().message));
  EXPECT_THAT(verdict.error().hint, HasSubstr(GetParam().hint));
  EXPECT_FALSE(verdict.error().hint.empty());
  EXPECT_NE(verdict.error().message.back(), '.');
}

std::string case_name(const ::testing::TestParamInfo<RefusalCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Server, PreflightRefusal, ::testing::ValuesIn(server_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Slot, PreflightRefusal, ::testing::ValuesIn(slot_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Invalidated, PreflightRefusal, ::testing::ValuesIn(invalidation_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Table, PreflightRefusal, ::testing::ValuesIn(table_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Column, PreflightRefusal, ::testing::ValuesIn(column_cases()), case_name);
INSTANTIATE_TEST_SUITE_P(Publication, PreflightRefusal, ::testing::ValuesIn(publication_cases()),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Published, PreflightRefusal, ::testing::ValuesIn(published_cases()),
                         case_name);

std::vector<const std::vector<RefusalCase>*> all_cases() {
  return {&server_cases(), &slot_cases(),        &invalidation_cases(), &table_cases(),
          &column_cases(), &publication_cases(), &published_cases()};
}

TEST(Preflight, GivesEachCauseAMessageOfItsOwn) {
  std::set<std::string> messages;
  std::size_t cases = 0;
  for (const auto* list : all_cases()) {
    for (const RefusalCase& refusal : *list) {
      FakeSetup setup;
      refusal.arrange(setup);
      const Result<StartPlan> verdict = setup.judge();
      ASSERT_FALSE(verdict.has_value()) << refusal.name;
      messages.insert(verdict.error().message + verdict.error().hint);
      ++cases;
    }
  }
  EXPECT_EQ(messages.size(), cases);
}

TEST(Preflight, SuggestsNoPluginSettingToServersThatMayNotHaveIt) {
  for (const auto* list : all_cases()) {
    for (const RefusalCase& refusal : *list) {
      FakeSetup setup;
      refusal.arrange(setup);
      setup.catalog.server["output_plugin_libraries"] = std::nullopt;
      const Result<StartPlan> verdict = setup.judge();
      if (!verdict) {
        EXPECT_EQ(verdict.error().hint.find("output_plugin_libraries"), std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace outrider
