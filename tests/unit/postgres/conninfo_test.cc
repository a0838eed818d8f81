#include "postgres/conninfo.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

ConnectionOptions options(bool replication) {
  ConnectionOptions options;
  options.replication = replication;
  options.application_name = "outrider_slot";
  options.dead_after = std::chrono::milliseconds(30'000);
  return options;
}

TEST(Conninfo, AddsWhatTheRelayNeeds) {
  auto values = *connection_parameters("host=h dbname=d", options(true), 0);
  EXPECT_EQ(values["replication"], "database");
  EXPECT_EQ(values["client_encoding"], "UTF8");
  EXPECT_EQ(values["application_name"], "outrider_slot");
  EXPECT_EQ(values["keepalives"], "1");
  EXPECT_EQ(values["tcp_user_timeout"], "30000");
  EXPECT_EQ(values["dbname"], "d");
}

TEST(Conninfo, TheOperatorsValuesWin) {
  auto values = *connection_parameters(
      "postgresql://u@h/d?tcp_user_timeout=5&keepalives=0&application_name=mine"
      "&client_encoding=LATIN1&replication=true",
      options(false), 0);
  EXPECT_EQ(values["tcp_user_timeout"], "5");
  EXPECT_EQ(values["keepalives"], "0");
  EXPECT_EQ(values["application_name"], "mine");
  EXPECT_EQ(values["client_encoding"], "UTF8");
  EXPECT_EQ(values.count("replication"), 0U);
}

TEST(Conninfo, TheWalsenderKeepsTheNameThatPreflightJudges) {
  auto values = *connection_parameters("host=h application_name=mine", options(true), 0);
  EXPECT_EQ(values["application_name"], "outrider_slot");
}

TEST(Conninfo, TurnsTheListOfHostsTogetherWithItsPorts) {
  auto values = *connection_parameters("host=a,b,c port=1,2,3", options(false), 1);
  EXPECT_EQ(values["host"], "b,c,a");
  EXPECT_EQ(values["port"], "2,3,1");
  values = *connection_parameters("host=a,b port=1", options(false), 3);
  EXPECT_EQ(values["host"], "b,a");
  EXPECT_EQ(values["port"], "1");
}

TEST(Conninfo, NeverRepeatsAPieceOfTheDsn) {
  auto values = connection_parameters("host=h password=top secret", options(false), 0);
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().kind, ErrorKind::configuration);
  EXPECT_EQ(describe(values.error()).find("secret"), std::string::npos);
  EXPECT_EQ(describe(values.error()).find("top"), std::string::npos);
}

TEST(Conninfo, DurableWritesLookForAHostThatWritesWhereThereAreSeveral) {
  ConnectionOptions durable = options(false);
  durable.durable_writes = true;
  auto values = *connection_parameters("host=a,b", durable, 0);
  EXPECT_EQ(values["target_session_attrs"], "read-write");
  values = *connection_parameters("host=a,b target_session_attrs=any", durable, 0);
  EXPECT_EQ(values["target_session_attrs"], "any");
  EXPECT_EQ(connection_parameters("host=a", durable, 0)->count("target_session_attrs"), 0U);
  EXPECT_EQ(connection_parameters("host=a,b", options(false), 0)->count("target_session_attrs"),
            0U);
}

TEST(Conninfo, NamesTheOptionThatHoldsTheDsn) {
  ConnectionOptions other = options(false);
  other.dsn_name = "dead_letters.dsn";
  EXPECT_NE(connection_parameters("nonsense", other, 0).error().message.find("dead_letters.dsn"),
            std::string::npos);
}

TEST(PinSettings, DurableWritesWaitForTheDisk) {
  ConnectionOptions durable = options(false);
  EXPECT_EQ(pin_settings_sql(durable).find("synchronous_commit"), std::string::npos);
  durable.durable_writes = true;
  EXPECT_NE(pin_settings_sql(durable).find("('synchronous_commit', 'on')"), std::string::npos);
}

TEST(PinSettings, PinsWhatChangesTheTextOfValues) {
  std::string sql = pin_settings_sql(options(false));
  for (const char* name : {"datestyle", "intervalstyle", "timezone", "extra_float_digits",
                           "bytea_output", "search_path", "statement_timeout", "lock_timeout"}) {
    EXPECT_NE(sql.find("('" + std::string(name) + "'"), std::string::npos) << name;
  }
  EXPECT_EQ(sql.find("wal_sender_timeout"), std::string::npos);
}

TEST(PinSettings, SetsTheSendersTimeoutOnlyWhenAsked) {
  ConnectionOptions sender = options(true);
  EXPECT_EQ(pin_settings_sql(sender).find("wal_sender_timeout"), std::string::npos);
  sender.wal_sender_timeout = std::chrono::milliseconds(5'000);
  EXPECT_NE(pin_settings_sql(sender).find("('wal_sender_timeout', '5000')"), std::string::npos);
}

}  // namespace
}  // namespace outrider
