#include "postgres/init_sql.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::vector<InitStatement> statements_of(const PipelineConfig& pipeline,
                                         const InitOptions& options) {
  Result<std::vector<InitStatement>> statements = init_statements(pipeline, options);
  EXPECT_TRUE(statements.has_value()) << describe(statements.error());
  return statements ? *statements : std::vector<InitStatement>{};
}

TEST(InitSql, MakesRoleTablesPublicationAndSlotInThatOrder) {
  PipelineConfig pipeline;
  pipeline.outbox.tables = {"shop.outbox"};
  const auto statements = statements_of(pipeline, {.database = "app"});
  ASSERT_EQ(statements.size(), 9U);
  EXPECT_THAT(statements[0].sql, HasSubstr("CREATE ROLE outrider_relay LOGIN"));
  EXPECT_THAT(statements[1].sql, HasSubstr("GRANT CONNECT ON DATABASE app TO outrider_relay"));
  EXPECT_THAT(statements[2].sql, HasSubstr("CREATE SCHEMA IF NOT EXISTS shop"));
  EXPECT_THAT(statements[3].sql, HasSubstr("CREATE TABLE IF NOT EXISTS shop.outbox"));
  EXPECT_THAT(statements[4].sql, HasSubstr("CREATE SCHEMA IF NOT EXISTS outrider"));
  EXPECT_THAT(statements[5].sql, HasSubstr("CREATE TABLE IF NOT EXISTS outrider.dead_letters"));
  EXPECT_THAT(statements[6].sql, HasSubstr("ON outrider.dead_letters TO outrider_relay"));
  EXPECT_THAT(statements[7].sql, HasSubstr("CREATE PUBLICATION outrider FOR TABLE shop.outbox"));
  EXPECT_THAT(statements[8].sql, HasSubstr("pg_create_logical_replication_slot('outrider'"));
}

TEST(InitSql, MakesTheDeadLetterTableOnlyWhereItIsUsed) {
  PipelineConfig pipeline;
  pipeline.dead_letters.topic = "dead";
  const Result<std::string> with_topic = init_sql(pipeline, {});
  ASSERT_TRUE(with_topic.has_value());
  EXPECT_THAT(*with_topic, Not(HasSubstr("dead_letters")));
  pipeline.dead_letters = DeadLetterConfig{};
  pipeline.dead_letters.dsn.raw = "host=elsewhere";
  const Result<std::string> elsewhere = init_sql(pipeline, {});
  ASSERT_TRUE(elsewhere.has_value());
  EXPECT_THAT(*elsewhere, Not(HasSubstr("CREATE TABLE IF NOT EXISTS outrider")));
  EXPECT_THAT(*elsewhere, HasSubstr("sql/dead_letters.sql"));
}

TEST(InitSql, MakesTheSlotLastAndAlone) {
  const auto statements = statements_of(PipelineConfig{}, {});
  for (std::size_t i = 0; i < statements.size(); ++i) {
    EXPECT_EQ(statements[i].alone, i + 1 == statements.size());
  }
}

TEST(InitSql, GivesTheRoleNoPasswordAndNoRightOnTheOutbox) {
  const Result<std::string> script = init_sql(PipelineConfig{}, {.database = "app"});
  ASSERT_TRUE(script.has_value());
  EXPECT_THAT(*script, Not(HasSubstr("PASSWORD")));
  EXPECT_THAT(*script, Not(::testing::ContainsRegex("GRANT [A-Z, ]*ON [a-z.]*outbox")));
  EXPECT_THAT(*script, Not(HasSubstr("ON outrider.outbox_dead_letters TO")));
  EXPECT_THAT(*script, Not(HasSubstr("SUPERUSER")));
}

TEST(InitSql, TakesThePluginFromTheConfigurationBeforeTheOption) {
  PipelineConfig pipeline;
  EXPECT_THAT(statements_of(pipeline, {.plugin = Plugin::wal2json}).back().sql,
              HasSubstr("'wal2json'"));
  pipeline.source.plugin = PluginChoice::pgoutput;
  EXPECT_THAT(statements_of(pipeline, {.plugin = Plugin::wal2json}).back().sql,
              HasSubstr("'pgoutput'"));
}

TEST(InitSql, NamesColumnsAsTheMappingDoesAndAddsHeaderColumns) {
  PipelineConfig pipeline;
  pipeline.outbox.columns.payload = "Body";
  pipeline.outbox.headers = {{"tenant", ""}, {"event_type", ""}, {"tenant", "again"}};
  const std::string sql = statements_of(pipeline, {.role = ""}).front().sql;
  EXPECT_THAT(sql, HasSubstr("\"Body\" jsonb"));
  EXPECT_EQ(sql.find("tenant text,"), sql.rfind("tenant text,"));
  EXPECT_EQ(sql.find("event_type text"), sql.rfind("event_type text"));
}

TEST(InitSql, LeavesOutWhatIsNotWanted) {
  PipelineConfig without_table;
  without_table.dead_letters.topic = "dead";
  const auto statements =
      statements_of(without_table, {.role = "", .create_tables = false, .create_slot = false});
  ASSERT_EQ(statements.size(), 1U);
  EXPECT_THAT(statements[0].sql, HasSubstr("CREATE PUBLICATION"));
}

TEST(InitSql, KeepsNamesInsideTheirQuotes) {
  PipelineConfig pipeline;
  pipeline.source.publication = "p$outrider$'\"";
  pipeline.outbox.tables = {"\"S\".\"t'x\""};
  const Result<std::string> script = init_sql(pipeline, {.role = "r\"'"});
  ASSERT_TRUE(script.has_value());
  EXPECT_THAT(*script, HasSubstr("DO $outrider_$"));
  EXPECT_THAT(*script, HasSubstr("\"p$outrider$'\"\"\""));
  EXPECT_THAT(*script, HasSubstr("rolname = 'r\"'''"));
}

TEST(InitSql, RefusesATableNameThatIsNone) {
  PipelineConfig pipeline;
  pipeline.outbox.tables = {"a..b"};
  EXPECT_FALSE(init_sql(pipeline, {}).has_value());
  pipeline.outbox.tables.clear();
  EXPECT_FALSE(init_sql(pipeline, {}).has_value());
}

ServerFacts able_server() {
  ServerFacts facts;
  facts.version_num = 150020;
  facts.wal_level = "logical";
  facts.role = "admin";
  facts.database = "app";
  return facts;
}

TEST(InitSql, EveryStatementKnowsHowToSeeThatItIsDone) {
  for (const InitStatement& each : statements_of(PipelineConfig{}, {.database = "app"})) {
    EXPECT_THAT(each.present, ::testing::StartsWith("SELECT 1 FROM")) << each.purpose;
  }
}

TEST(CheckInit, NeedsLogicalDecodingBeforeAnythingIsDone) {
  ServerFacts facts = able_server();
  facts.wal_level = "replica";
  facts.is_superuser = true;
  const Result<> checked = check_init(facts, statements_of(PipelineConfig{}, {}));
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().kind, ErrorKind::configuration);
  EXPECT_THAT(checked.error().hint,
              HasSubstr("ALTER SYSTEM SET wal_level = 'logical' and restart"));
  EXPECT_TRUE(check_init(facts, {}));
}

TEST(CheckInit, NamesWhatTheRoleLacks) {
  ServerFacts facts = able_server();
  const auto statements = statements_of(PipelineConfig{}, {});
  const Result<> checked = check_init(facts, statements);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, "42501");
  for (const char* part : {"\"admin\"", "SUPERUSER", "REPLICATION", "CREATE on database \"app\""}) {
    EXPECT_THAT(checked.error().message, HasSubstr(part));
  }
  facts.is_superuser = true;
  EXPECT_TRUE(check_init(facts, statements));
}

TEST(CheckInit, AnOwnerWithBothAttributesIsEnoughFromSixteenOn) {
  ServerFacts facts = able_server();
  facts.may_create_role = facts.may_replicate = facts.may_create_in_database = true;
  const auto statements = statements_of(PipelineConfig{}, {});
  EXPECT_FALSE(check_init(facts, statements));
  facts.version_num = 160000;
  EXPECT_TRUE(check_init(facts, statements));
}

}  // namespace
}  // namespace outrider
