#include "app/doctor_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "app/doctor_input.h"
#include "app/doctor_report.h"
#include "unit/postgres/fake_catalog.h"

namespace outrider {
namespace {

using testing::HasSubstr;

/// A set-up that has nothing wrong with it.
DoctorInput good() {
  DoctorInput in;
  FakeCatalog catalog;
  catalog.have_slot("pgoutput");
  catalog.have_publication();
  in.pipeline.name = "shop";
  in.pipeline.kafka.topics.create = true;
  in.control_socket = "/run/outrider/shop.sock";
  in.http_listen = "127.0.0.1:9640";
  in.connection = {{"host", "db"}, {"port", "5433"}, {"sslrootcert", "/etc/ca.crt"}};
  Preflight preflight(in.pipeline.source, in.pipeline.outbox, in.pipeline.route);
  while (const auto statement = preflight.next_statement()) {
    preflight.take(catalog.answer(*statement));
  }
  in.server = preflight.facts();
  in.wanted = {{"public", "outbox"}};
  in.more.max_wal_size_mb = 1024;
  in.more.sees_all_settings = true;
  in.more.tables = {{{"public", "outbox"}, 12, 8192, 0, false}};
  in.walsender_asked = true;
  LetterFacts letters;
  letters.facts = rows_of({{{"standby", "f"},
                            {"read_only", "f"},
                            {"database", "app"},
                            {"role", "relay"},
                            {"has_schema", "t"},
                            {"has_version", "t"},
                            {"has_table", "t"},
                            {"is_logged", "t"},
                            {"schema.USAGE", "t"},
                            {"v.SELECT", "t"},
                            {"d.SELECT", "t"},
                            {"d.INSERT", "t"},
                            {"d.DELETE", "t"},
                            {"d.UPDATE", "t"}}});
  letters.version = rows_of({{{"version", "1"}}});
  letters.columns.has_view = true;
  in.letters = letters;
  in.bootstrap_servers = "k:9092";
  in.kafka.brokers = 3;
  in.kafka.producer_id = true;
  in.kafka.client_message_bytes_max = 1'000'000;
  for (const TopicUse use : {TopicUse::events, TopicUse::positions}) {
    TopicFacts topic;
    topic.name = use == TopicUse::events ? "orders" : "outrider.positions";
    topic.use = use;
    topic.exists = topic.write_asked = topic.read_asked = topic.settings_known = true;
    topic.partitions = 1;
    topic.replicas = topic.in_sync = 3;
    topic.in_sync_min = 2;
    topic.message_bytes_max = 1'048'588;
    topic.compacts = use == TopicUse::positions;
    in.kafka.topics.push_back(topic);
  }
  return in;
}

Outcome outcome_of(const DoctorInput& in, int number) {
  for (const Check& check : judge_all(in)) {
    if (check.number == number) return check.outcome;
  }
  ADD_FAILURE() << "no check " << number;
  return {};
}

Verdict verdict_of(const DoctorInput& in, int number) { return outcome_of(in, number).verdict; }

Error error_of(const std::string& code) {
  return {ErrorKind::configuration, "refused", "do something", code};
}

TEST(Doctor, FindsNothingWrongWithAGoodSetUp) {
  for (const Check& check : judge_all(good())) {
    EXPECT_THAT(check.outcome.verdict, testing::AnyOf(Verdict::pass, Verdict::not_applicable))
        << check.number << " " << check.outcome.found;
    EXPECT_FALSE(check.outcome.found.empty()) << check.number;
  }
}

TEST(Doctor, NumbersAreUniqueAndRise) {
  int last = 0;
  for (const CheckRow& row : all_checks()) {
    EXPECT_GT(row.number, last);
    last = row.number;
  }
}

struct Fault {
  int number;
  Verdict verdict;
  FixKind kind;
  const char* fix;
  void (*make)(DoctorInput&);
};
const Fault kFaults[] = {
    {1, Verdict::fail, FixKind::none, "",
     [](DoctorInput& in) { in.config_problems = {error_of("")}; }},
    {2, Verdict::warn, FixKind::config, "control.socket: /run/outrider/shop.sock",
     [](DoctorInput& in) { in.control_socket.clear(); }},
    {3, Verdict::warn, FixKind::config, "http.listen",
     [](DoctorInput& in) { in.http_listen.clear(); }},
    {4, Verdict::warn, FixKind::config, "on_poison: dead_letter",
     [](DoctorInput& in) { in.pipeline.dead_letters.on_poison = OnPoison::stop; }},
    {11, Verdict::fail, FixKind::none, "", [](DoctorInput& in) { in.server.version_num = 130005; }},
    {12, Verdict::fail, FixKind::sql, "ALTER SYSTEM SET wal_level = 'logical'",
     [](DoctorInput& in) { in.server.wal_level = "replica"; }},
    {13, Verdict::fail, FixKind::sql, "ALTER ROLE relay REPLICATION",
     [](DoctorInput& in) { in.server.may_replicate = false; }},
    {13, Verdict::fail, FixKind::sql, "GRANT rds_replication TO relay",
     [](DoctorInput& in) {
       in.server.may_replicate = false;
       in.server.lends_replication = true;
     }},
    {14, Verdict::fail, FixKind::none, "",
     [](DoctorInput& in) {
       in.walsender_fault = Error{ErrorKind::configuration, "no", "", ""};
     }},
    {15, Verdict::fail, FixKind::sql, "max_wal_senders = 14",
     [](DoctorInput& in) { in.server.senders_used = 10; }},
    {16, Verdict::fail, FixKind::sql, "max_replication_slots = 14",
     [](DoctorInput& in) {
       in.server.slot.reset();
       in.server.slots_used = 10;
     }},
    {17, Verdict::fail, FixKind::sql, "ALTER SYSTEM SET synchronous_standby_names",
     [](DoctorInput& in) { in.server.synchronous_standby_names = "*"; }},
    {18, Verdict::fail, FixKind::none, "",
     [](DoctorInput& in) { in.server.encoding = "SQL_ASCII"; }},
    {19, Verdict::warn, FixKind::shell, "timedatectl",
     [](DoctorInput& in) { in.clock_ahead_ms = -2'001; }},
    {20, Verdict::warn, FixKind::sql, "max_slot_wal_keep_size = '10GB'",
     [](DoctorInput& in) { in.server.max_slot_wal_keep_mb = -1; }},
    {20, Verdict::warn, FixKind::sql, "SELECT pg_reload_conf()",
     [](DoctorInput& in) { in.server.max_slot_wal_keep_mb = 1023; }},
    {21, Verdict::warn, FixKind::sql, "idle_replication_slot_timeout = 0",
     [](DoctorInput& in) {
       in.server.version_num = 180006;
       in.server.idle_slot_timeout = "3600";
     }},
    {22, Verdict::warn, FixKind::config, "wal_sender_timeout_ms: 30000",
     [](DoctorInput& in) {
       in.pipeline.source.wal_sender_timeout_ms = 0;
       in.server.wal_sender_timeout_ms = 0;
     }},
    {30, Verdict::fail, FixKind::sql,
     "SELECT pg_create_logical_replication_slot('outrider', 'wal2json')",
     [](DoctorInput& in) { in.server.slot.reset(); }},
    {31, Verdict::fail, FixKind::none, "",
     [](DoctorInput& in) { in.server.slot->database = "other"; }},
    {32, Verdict::fail, FixKind::sql, "SELECT pg_terminate_backend(77)",
     [](DoctorInput& in) {
       in.server.slot->active = true;
       in.server.slot->active_pid = 77;
       in.more.holder_application = "pg_recvlogical";
     }},
    {33, Verdict::fail, FixKind::sql,
     "SELECT pg_drop_replication_slot('outrider'); SELECT "
     "pg_create_logical_replication_slot('outrider', 'pgoutput')",
     [](DoctorInput& in) { in.server.slot->wal_status = "lost"; }},
    {33, Verdict::warn, FixKind::sql, "max_slot_wal_keep_size",
     [](DoctorInput& in) { in.server.slot->wal_status = "unreserved"; }},
    {34, Verdict::warn, FixKind::shell, "ALTER_REPLICATION_SLOT outrider (FAILOVER true)",
     [](DoctorInput& in) {
       in.server.version_num = 170011;
       in.more.physical_slots = 1;
     }},
    {35, Verdict::fail, FixKind::sql, "output_plugin_libraries = 'test_decoding', 'pgoutput'",
     [](DoctorInput& in) { in.server.output_plugin_libraries = "test_decoding"; }},
    {40, Verdict::fail, FixKind::sql, "ALTER TABLE public.outbox SET LOGGED",
     [](DoctorInput& in) { in.server.tables.front().persistence = 'u'; }},
    {41, Verdict::fail, FixKind::sql, "CREATE PUBLICATION outrider FOR TABLE public.outbox",
     [](DoctorInput& in) { in.server.publication.reset(); }},
    {41, Verdict::fail, FixKind::sql, "ALTER PUBLICATION outrider SET (publish = 'insert')",
     [](DoctorInput& in) { in.server.publication->publishes_insert = false; }},
    {42, Verdict::warn, FixKind::sql, "DELETE FROM public.outbox",
     [](DoctorInput& in) { in.more.tables.front().rows = 100'000; }},
    {50, Verdict::fail, FixKind::shell, "psql -d app -v role=relay -f sql/dead_letters.sql",
     [](DoctorInput& in) {
       in.letters->facts.rows[0][in.letters->facts.column("has_table")] = "f";
     }},
    {50, Verdict::fail, FixKind::sql, "GRANT SELECT, INSERT, DELETE",
     [](DoctorInput& in) {
       in.letters->facts.rows[0][in.letters->facts.column("d.INSERT")] = "f";
     }},
    {50, Verdict::fail, FixKind::none, "",
     [](DoctorInput& in) { in.letters->columns.missing = {"raw_row"}; }},
    {51, Verdict::warn, FixKind::shell, "psql",
     [](DoctorInput& in) { in.letters->columns.has_view = false; }},
    {60, Verdict::fail, FixKind::none, "",
     [](DoctorInput& in) { in.kafka.unreachable = error_of(""); }},
    {61, Verdict::fail, FixKind::shell, "--operation IdempotentWrite --cluster",
     [](DoctorInput& in) {
       in.kafka.producer_id_fault = error_of("CLUSTER_AUTHORIZATION_FAILED");
     }},
    {62, Verdict::fail, FixKind::shell, "kafka-topics.sh --bootstrap-server k:9092 --create",
     [](DoctorInput& in) { in.kafka.topics[0].exists = false; }},
    {62, Verdict::fail, FixKind::shell, "--operation Create --topic orders",
     [](DoctorInput& in) {
       in.kafka.topics[0].exists = false;
       in.kafka.topics[0].creation_asked = true;
       in.kafka.topics[0].creation = error_of("TOPIC_AUTHORIZATION_FAILED");
     }},
    {63, Verdict::fail, FixKind::shell,
     "kafka-acls.sh --bootstrap-server k:9092 --command-config admin.properties --add "
     "--allow-principal User:relay --operation Write --operation Describe --operation "
     "DescribeConfigs --topic orders",
     [](DoctorInput& in) {
       in.kafka_login = true;
       in.kafka_user = "User:relay";
       in.kafka.topics[0].write = error_of("TOPIC_AUTHORIZATION_FAILED");
     }},
    {64, Verdict::warn, FixKind::shell, "max.message.bytes=1000000",
     [](DoctorInput& in) { in.kafka.topics[0].message_bytes_max = 2000; }},
    {64, Verdict::warn, FixKind::shell, "--operation DescribeConfigs",
     [](DoctorInput& in) {
       in.kafka.topics[0].settings_fault = error_of("TOPIC_AUTHORIZATION_FAILED");
     }},
    {65, Verdict::fail, FixKind::none, "", [](DoctorInput& in) { in.kafka.topics[0].in_sync = 1; }},
    {65, Verdict::warn, FixKind::shell, "min.insync.replicas=2",
     [](DoctorInput& in) { in.kafka.topics[0].in_sync_min = 1; }},
    {66, Verdict::warn, FixKind::shell, "cleanup.policy=compact",
     [](DoctorInput& in) { in.kafka.topics[1].compacts = false; }},
    {67, Verdict::fail, FixKind::shell, "--operation Read --operation Write",
     [](DoctorInput& in) { in.kafka.topics[1].read = error_of("TOPIC_AUTHORIZATION_FAILED"); }},
};

TEST(Doctor, EachFaultIsNamedByItsCheckWithAFix) {
  for (const Fault& fault : kFaults) {
    DoctorInput in = good();
    fault.make(in);
    const Outcome outcome = outcome_of(in, fault.number);
    EXPECT_EQ(outcome.verdict, fault.verdict) << fault.number << " " << outcome.found;
    EXPECT_EQ(outcome.fix.kind, fault.kind) << fault.number;
    EXPECT_THAT(outcome.fix.text, HasSubstr(fault.fix)) << fault.number;
    EXPECT_FALSE(outcome.fix.text.empty() && outcome.fix.note.empty()) << fault.number;
  }
}

TEST(Doctor, AFailureDoesNotHideWhatDoesNotDependOnIt) {
  DoctorInput in = good();
  in.server_fault = error_of("");
  in.kafka.topics[0].write = error_of("TOPIC_AUTHORIZATION_FAILED");
  EXPECT_EQ(verdict_of(in, 10), Verdict::fail);
  EXPECT_EQ(verdict_of(in, 12), Verdict::not_applicable);
  EXPECT_EQ(verdict_of(in, 63), Verdict::fail);
}

TEST(Doctor, AWrongCertificateIsFetchedIntoTheFileThatIsUsed) {
  DoctorInput in = good();
  in.server_fault = Error{ErrorKind::configuration,
                          "cannot connect: SSL error: certificate verify failed",
                          "check",
                          {}};
  const Outcome outcome = outcome_of(in, 10);
  EXPECT_EQ(outcome.fix.kind, FixKind::shell);
  EXPECT_THAT(outcome.fix.text, HasSubstr("-connect db:5433"));
  EXPECT_THAT(outcome.fix.text, HasSubstr("-out /etc/ca.crt"));
  EXPECT_THAT(outcome.fix.note, HasSubstr("fingerprint"));
}

TEST(Doctor, ARelayThatHoldsItsSlotIsNoFault) {
  DoctorInput in = good();
  in.server.slot->active = true;
  in.more.holder_application = walsender_application_name(in.pipeline.source.slot);
  EXPECT_EQ(verdict_of(in, 32), Verdict::pass);
}

TEST(Doctor, AFailoverSlotIsRightOnlyWhereItsCopyIsSyncedAndNotTemporary) {
  DoctorInput in = good();
  in.server.version_num = 170011;
  in.more.failover = true;
  EXPECT_EQ(verdict_of(in, 34), Verdict::warn);  // No other host is known.
  in.standby = StandbyFacts{{}, 170011, "b", in.server.slot};
  in.standby->slot->synced = true;
  EXPECT_EQ(verdict_of(in, 34), Verdict::pass);
  in.standby->slot->temporary = true;
  EXPECT_EQ(verdict_of(in, 34), Verdict::fail);
  in.standby->slot.reset();
  EXPECT_EQ(verdict_of(in, 34), Verdict::fail);
}

TEST(Doctor, ATopicThatCanBeMadeIsNotMissed) {
  DoctorInput in = good();
  in.kafka.topics[0].exists = false;
  in.kafka.topics[0].creation_asked = true;
  EXPECT_EQ(verdict_of(in, 62), Verdict::pass);
  EXPECT_EQ(verdict_of(in, 65), Verdict::pass);
}

TEST(Doctor, TakesTheStatementOutOfAHint) {
  EXPECT_EQ(sql_of_hint("run ALTER ROLE r REPLICATION"), "ALTER ROLE r REPLICATION");
  EXPECT_EQ(sql_of_hint("run ALTER SYSTEM SET wal_level = 'logical' and restart PostgreSQL"),
            "ALTER SYSTEM SET wal_level = 'logical'");
  EXPECT_EQ(sql_of_hint("run in one transaction, so that no row falls between: BEGIN; ALTER "
                        "PUBLICATION p DROP TABLE t; ALTER PUBLICATION p ADD TABLE t; COMMIT; rows "
                        "written meanwhile never arrive"),
            "BEGIN; ALTER PUBLICATION p DROP TABLE t; ALTER PUBLICATION p ADD TABLE t; COMMIT");
  EXPECT_EQ(sql_of_hint("use a permanent table"), "");
}

TEST(DoctorReport, IsOneJsonObjectWithEveryCheck) {
  DoctorInput in = good();
  in.server.may_replicate = false;
  const std::vector<Check> checks = judge_all(in);
  const std::string json = doctor_json("shop", checks);
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), 1);
  for (const Check& check : checks) {
    EXPECT_THAT(json, HasSubstr("\"number\":" + std::to_string(check.number) + ","));
  }
  EXPECT_THAT(json, HasSubstr("\"fail\":1"));
  EXPECT_THAT(json, HasSubstr(R"("kind":"sql","text":"ALTER ROLE relay REPLICATION")"));
}

TEST(DoctorReport, KeepsACommandOnOneLineAndEndsWithTheFigures) {
  DoctorInput in = good();
  in.server.may_replicate = false;
  const std::string text = doctor_text("shop", judge_all(in));
  EXPECT_THAT(text, HasSubstr("\n            in psql: ALTER ROLE relay REPLICATION;\n"));
  EXPECT_THAT(text, HasSubstr(" 1 fail, "));
  EXPECT_THAT(text, HasSubstr("  FAIL  13  role"));
}

}  // namespace
}  // namespace outrider
