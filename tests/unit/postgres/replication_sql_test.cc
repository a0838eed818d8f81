// Commands of the replication connection, names of synchronous standbys, refusals explained.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "postgres/preflight.h"
#include "postgres/preflight_judge.h"
#include "postgres/sql_text.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(ReplicationSql, StartsWithEverythingQuoted) {
  StartPlan plan;
  plan.plugin_options = {{"proto_version", "1"}, {"publication_names", "\"it's\\\""}};
  EXPECT_EQ(start_replication_sql("orders", *Lsn::parse("16/B374D848"), plan),
            "START_REPLICATION SLOT \"orders\" LOGICAL 16/B374D848 (\"proto_version\" '1', "
            "\"publication_names\" '\"it''s\\\"')");
}

TEST(ReplicationSql, CreatesASlotWithoutASnapshotInTheSyntaxOfTheServer) {
  StartPlan plan;
  plan.plugin = Plugin::wal2json;
  plan.server_version_num = 140012;
  EXPECT_EQ(create_slot_sql("s", plan, false),
            "CREATE_REPLICATION_SLOT \"s\" LOGICAL \"wal2json\" NOEXPORT_SNAPSHOT");
  plan.server_version_num = 150000;
  plan.plugin = Plugin::pgoutput;
  EXPECT_EQ(create_slot_sql("s", plan, true),
            "CREATE_REPLICATION_SLOT \"s\" TEMPORARY LOGICAL \"pgoutput\" (SNAPSHOT 'nothing')");
}

TEST(ReplicationSql, EndsASilentHolderOnlyWhereThatIsAskedFor) {
  EXPECT_EQ(holder_sql("it's", 0).find("terminate"), std::string::npos);
  EXPECT_NE(holder_sql("it's", 0).find("slot_name = 'it''s'"), std::string::npos);
  EXPECT_NE(holder_sql("s", 12'000).find("silent_ms >= 12000 THEN"), std::string::npos);
}

TEST(ReplicationSql, NamesItsWalsenderWithinTheServersLimit) {
  EXPECT_EQ(walsender_application_name("orders"), "outrider_orders");
  EXPECT_EQ(walsender_application_name(std::string(63, 'x')).size(), 63U);
}

struct SynchronousCase {
  const char* names;
  bool counts;
};

TEST(SynchronousNames, CountAsTheServerCountsThem) {
  const std::vector<SynchronousCase> cases = {
      {"", false},
      {"  ", false},
      {"*", true},
      {"\"*\"", true},
      {"standby_1", false},
      {"outrider_orders", true},
      {"OUTRIDER_Orders", true},
      {"\"Outrider_Orders\"", true},
      {"\"outrider_orders \"", false},
      {"outrider_orders2", false},
      {"standby_1, outrider_orders", true},
      {"standby_1,*", true},
      {"1 (standby_1, standby_2)", false},
      {"1 (*)", true},
      {"2 (standby_1, outrider_orders)", true},
      {"FIRST 1 (standby_1)", false},
      {"first 1(standby_1,outrider_orders)", true},
      {"FIRST 2 (standby_1, standby_2, outrider_orders)", true},
      {"ANY 1 (standby_1, \"outrider_orders\")", true},
      {"any 1 (\"a\"\"b\", standby_2)", false},
      {"ANY\n 1\t( * )", true},
  };
  for (const SynchronousCase& row : cases) {
    EXPECT_EQ(counts_as_synchronous(row.names, "outrider_orders"), row.counts) << row.names;
  }
}

TEST(SynchronousNames, DoNotTakeMethodOrNumberForAName) {
  EXPECT_FALSE(counts_as_synchronous("FIRST 1 (a)", "first"));
  EXPECT_FALSE(counts_as_synchronous("ANY 1 (a)", "1"));
  EXPECT_TRUE(counts_as_synchronous("ANY 1 (\"any\", 2)", "Any"));
  EXPECT_TRUE(counts_as_synchronous("a, 2", "2"));
  EXPECT_TRUE(counts_as_synchronous("ANY 1 (\"x(\"\"y\")", "X(\"Y"));
}

struct ExplainCase {
  const char* sqlstate;
  const char* message;
  const char* server_hint;
  ErrorKind kind;
  const char* explained;
  const char* hint;
};

const std::vector<ExplainCase>& explain_cases() {
  static const std::vector<ExplainCase> cases = {
      {"42501", "library \"wal2json\" may not be used as an output plugin",
       "add it to \"output_plugin_libraries\"", ErrorKind::configuration,
       "output plugin \"wal2json\" is not allowed",
       "ALTER SYSTEM SET output_plugin_libraries = 'pgoutput', 'test_decoding', 'wal2json'; SELECT "
       "pg_reload_conf(), with the names that SHOW output_plugin_libraries lists kept in it; or "
       "set source.plugin: pgoutput"},
      {"42501", "must be superuser or replication role to use replication slots", "",
       ErrorKind::configuration, "no permission to use replication slot \"orders\"",
       "ALTER ROLE … REPLICATION"},
      {"42704", "replication slot \"orders\" does not exist", "", ErrorKind::fatal,
       "replication slot \"orders\" is gone", "outrider init"},
      {"42704", "publication \"orders_pub\" does not exist", "", ErrorKind::fatal,
       "publication \"orders_pub\" was missing when rows were written",
       "move the slot behind them"},
      {"42704", "Publikation »orders_pub« existiert nicht", "", ErrorKind::fatal,
       "that it exists now does not help", "docs/OPERATIONS.md"},
      {"42710", "replication slot \"orders\" already exists", "", ErrorKind::transient,
       "was just made by another", "looks again"},
      {"53300", "number of requested standby connections exceeds max_wal_senders", "",
       ErrorKind::transient, "all walsenders", "max_wal_senders"},
      {"53400", "all replication slots are in use", "", ErrorKind::configuration,
       "all replication slots are in use", "max_replication_slots"},
      {"55000", "can no longer get changes from replication slot \"orders\"", "", ErrorKind::fatal,
       "can no longer be used", "pg_drop_replication_slot('orders')"},
      {"55000", "logical decoding requires wal_level >= logical", "", ErrorKind::configuration,
       "logical decoding is off", "wal_level = 'logical'"},
      {"55000", "cannot use physical replication slot for logical decoding", "",
       ErrorKind::configuration, "is not a logical one", "another source.slot"},
      {"55000", "replication slot \"orders\" was not created in this database", "",
       ErrorKind::configuration, "is of another database", "source.dsn"},
      {"55000", "logical decoding cannot be used while in recovery", "", ErrorKind::transient,
       "server is a standby", "target_session_attrs=read-write"},
      {"55006", "replication slot \"orders\" is active for PID 4711", "", ErrorKind::transient,
       "is held by another process: replication slot \"orders\" is active for PID 4711",
       "takes over when the slot is free"},
      {"55P03", "canceling statement due to lock timeout", "", ErrorKind::transient,
       "an open transaction kept", "FROM pg_stat_activity WHERE backend_xid IS NOT NULL"},
      {"58P01", "could not access file \"wal2json\": No such file or directory", "",
       ErrorKind::configuration, "output plugin \"wal2json\" is not installed",
       "set source.plugin: pgoutput"},
      {"58P01", "requested WAL segment 00000001 has already been removed", "", ErrorKind::fatal,
       "WAL that replication slot \"orders\" needs is gone", "pg_drop_replication_slot"},
      {"57P03", "the database system is starting up", "", ErrorKind::transient,
       "the database system is starting up", ""},
      {"22023", "option \"nope\" = \"1\" is unknown", "", ErrorKind::configuration,
       "option \"nope\" = \"1\" is unknown", ""},
  };
  return cases;
}

TEST(ReplicationError, IsExplainedCauseByCause) {
  SourceConfig source;
  source.slot = "orders";
  source.publication = "orders_pub";
  StartPlan plan;
  plan.plugin = Plugin::wal2json;
  plan.create_slot = true;
  for (const ExplainCase& row : explain_cases()) {
    const Error error =
        explain_replication_error(row.sqlstate, row.message, row.server_hint, source, plan);
    EXPECT_EQ(error.kind, row.kind) << row.message;
    EXPECT_EQ(error.code, row.sqlstate);
    EXPECT_THAT(error.message, HasSubstr(row.explained));
    EXPECT_THAT(error.message, HasSubstr(row.message)) << "the server's own words stay in it";
    EXPECT_THAT(error.hint, HasSubstr(row.hint));
  }
}

TEST(ReplicationError, TellsAMissingOrRefusedPluginFromTheRest) {
  EXPECT_TRUE(is_plugin_unavailable(
      "42501", "library \"wal2json\" may not be used as an output plugin", Plugin::wal2json));
  EXPECT_TRUE(is_plugin_unavailable("58P01", "could not access file \"wal2json\": No such file",
                                    Plugin::wal2json));
  EXPECT_FALSE(is_plugin_unavailable("42501", "permission denied to use replication slots",
                                     Plugin::wal2json));
  EXPECT_FALSE(is_plugin_unavailable(
      "58P01", "requested WAL segment 000000010000000000000003 has already been removed",
      Plugin::wal2json));
  EXPECT_FALSE(is_plugin_unavailable("55P03", "wal2json", Plugin::wal2json));
}

TEST(SqlText, KeepsTheNamesAlreadyAllowedWhenItAddsAPlugin) {
  EXPECT_EQ(allow_plugin_sql(std::string("decoderbufs, pgoutput"), "wal2json"),
            "ALTER SYSTEM SET output_plugin_libraries = 'decoderbufs', 'pgoutput', 'wal2json'; "
            "SELECT pg_reload_conf()");
  EXPECT_THAT(allow_plugin_sql(std::string("a, wal2json"), "wal2json"),
              Not(HasSubstr("'wal2json', 'wal2json'")));
}

TEST(SqlText, SplitsSettingListsAsTheServerDoes) {
  EXPECT_THAT(split_setting_list(""), IsEmpty());
  EXPECT_THAT(split_setting_list(" a ,b, \"c \"\"d, e\" "), ElementsAre("a", "b", "c \"d, e"));
}

TEST(SqlText, QuotesLiteralsForSqlAndForReplicationCommands) {
  EXPECT_EQ(quote_literal("it's"), "'it''s'");
  EXPECT_EQ(quote_literal("a\\'"), " E'a\\\\'''");
  EXPECT_EQ(quote_replication_literal("a\\'"), "'a\\'''");
  EXPECT_EQ(quote_always("a\"b"), "\"a\"\"b\"");
}

TEST(ExplainStreamError, NamesThePastOfThePublicationAndLeavesTheRestAlone) {
  SourceConfig source;
  source.publication = "orders_pub";
  StartPlan plan;
  plan.plugin = Plugin::pgoutput;
  const Error missing{
      ErrorKind::fatal, "ended: publication \"orders_pub\" does not exist", {}, "42704"};
  EXPECT_NE(explain_stream_error(missing, source, plan).message.find("was missing when rows"),
            std::string::npos);
  const Error other{ErrorKind::transient, "ended: out of memory", "h", "53200"};
  EXPECT_EQ(explain_stream_error(other, source, plan).message, other.message);
}

}  // namespace
}  // namespace outrider
