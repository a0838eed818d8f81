#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config_samples.h"
#include "outrider/config/secrets.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

std::string with_slot(const std::string& slot) {
  std::string file = minimal_file();
  return file.replace(file.find("slot: orders"), 12, "slot: " + slot);
}

// Fault 27: a slot name with capitals or a dash passes the check and fails late.
TEST(Validate, Fault27RefusesSlotNamesThatPostgresWouldRefuse) {
  EXPECT_EQ(problem_of(with_slot("My-Slot")),
            "o.yaml:4:34: pipelines[0].source.slot: found \"My-Slot\"; allowed in the name of a "
            "replication slot: 1 to 63 of a-z, 0-9 and _");
  EXPECT_NE(problem_of(with_slot("ünder")), "");
  EXPECT_NE(problem_of(with_slot("a.b")), "");
  EXPECT_EQ(problem_of(with_slot(std::string(63, 'a'))), "");
  EXPECT_NE(problem_of(with_slot(std::string(64, 'a'))), "");
  EXPECT_EQ(problem_of(with_slot("_9z")), "");
}

TEST(Validate, NeedsAPipelineAndItsRequiredValues) {
  EXPECT_THAT(problem_of("version: 1\n"), HasSubstr("o.yaml: pipelines: no pipeline is defined"));
  EXPECT_THAT(problem_of("version: 1\npipelines: []\n"), HasSubstr("no pipeline is defined"));
  std::string problem = problem_of("version: 1\npipelines: [{source: {slot: a}}]\n");
  EXPECT_THAT(problem, HasSubstr("o.yaml:2:13: pipelines[0].name: is required"));
  EXPECT_THAT(problem, HasSubstr("pipelines[0].source.dsn: is required"));
  EXPECT_THAT(problem, HasSubstr("pipelines[0].kafka.bootstrap_servers: is required"));
}

TEST(Validate, BrokersAreHostAndPort) {
  for (const char* good : {"k:1", "k-1.x:9092, k-2.x:9093", "[::1]:9092", "10.0.0.1:65535"}) {
    EXPECT_TRUE(check_bootstrap_servers(good)) << good;
  }
  for (const char* bad : {"k", "k:", ":1", "k:0", "k:65536", "k:x", "http://k:1", "u@k:1", "k:1,",
                          "k:1;k:2", "k:1 k:2", "::1:9092", ""}) {
    EXPECT_FALSE(check_bootstrap_servers(bad)) << bad;
  }
  std::string file = minimal_file();
  file.replace(file.find("k:9092"), 6, "a:1,http://hunter2");
  const std::string problem = problem_of(file);
  EXPECT_THAT(problem, HasSubstr("o.yaml:5:32: pipelines[0].kafka.bootstrap_servers: broker 2 of "
                                 "the list is no host:port, it begins with a scheme"));
  EXPECT_EQ(problem.find("hunter2"), std::string::npos);
  file.replace(file.find("a:1,http://hunter2"), 18, "${env:K}");
  EXPECT_EQ(problem_of(file), "");
}

TEST(Validate, NeedsUniqueNamesAndSlots) {
  std::string second =
      "  - {name: orders, source: {dsn: x=y, slot: orders}, kafka: {bootstrap_servers: \"k:1\"}}\n";
  std::string problem = problem_of(minimal_file(second));
  EXPECT_THAT(problem, HasSubstr("o.yaml:6:12: pipelines[1].name: \"orders\" is already the name "
                                 "of pipelines[0]; each pipeline needs its own"));
  EXPECT_THAT(problem, HasSubstr("pipelines[1].source.slot: \"orders\" is already the slot of"));
  std::string file = minimal_file();
  EXPECT_THAT(problem_of(file.replace(file.find("orders"), 6, "My.Pipe")),
              HasSubstr("found \"My.Pipe\"; allowed: a-z, 0-9, _ and -"));
}

TEST(Validate, OneTopicExcludesThePattern) {
  EXPECT_EQ(problem_of(minimal_file("    route: {topic: t}\n")), "");
  EXPECT_EQ(problem_of(minimal_file("    route: {topic: t, by: event_type}\n")),
            "o.yaml:6:27: pipelines[0].route.by: has no effect beside topic "
            "(o.yaml:6:20); remove one of the two");
  EXPECT_THAT(problem_of(minimal_file("    route: {pattern: p, replacement: r}\n"),
                         {.path = {}, .environment = {}, .sets = {"pipelines.0.route.topic=t"}}),
              HasSubstr("2 problems"));
}

TEST(Validate, IntervalsFitTogether) {
  auto problem = [](const std::string& source) {
    std::string file = minimal_file();
    return problem_of(file.replace(file.find("slot: orders"), 12, "slot: orders, " + source));
  };
  EXPECT_EQ(problem("confirm_interval_ms: 5000"), "");
  EXPECT_THAT(
      problem("confirm_interval_ms: 5001"),
      HasSubstr("pipelines[0].source.confirm_interval_ms: source.confirm_interval_ms (5001) "
                "must not be more than source.status_interval_ms (5000)"));
  EXPECT_THAT(problem("reconnect_max_ms: 50"),
              HasSubstr("pipelines[0].source.reconnect_max_ms: source.reconnect_first_ms (100) "
                        "must not be more than"));
  EXPECT_EQ(problem("evict_holder_after_ms: 10000"), "");
  EXPECT_THAT(problem("evict_holder_after_ms: 9999"),
              HasSubstr("allowed: 0, or at least twice source.status_interval_ms (10000)"));
}

TEST(Validate, ReplicationFactorIsNotZero) {
  std::string file = minimal_file();
  EXPECT_THAT(
      problem_of(file.replace(file.find("\"k:9092\""), 8, "k, topics: {replication_factor: 0}")),
      HasSubstr("replication_factor: found \"0\"; allowed: -1"));
}

TEST(Validate, ListensOnHostAndPort) {
  for (const char* good : {"127.0.0.1:9640", "localhost:0", "[::]:65535", "0.0.0.0:1"}) {
    EXPECT_EQ(problem_of(minimal_file() + "http: {listen: \"" + good + "\"}\n"), "") << good;
  }
  for (const char* bad : {"9640", ":9640", "host:", "host:65536", "host:-1", "::1:80", "a b:1",
                          "host:80x", "[]:80"}) {
    EXPECT_THAT(problem_of(minimal_file() + "http: {listen: \"" + bad + "\"}\n"),
                HasSubstr("http.listen: found"))
        << bad;
  }
}

TEST(Validate, ControlSocketIsAnAbsolutePathThatASocketCanHave) {
  const auto file = [](const std::string& path) {
    return "control: {socket: \"" + path + "\"}\n" + minimal_file();
  };
  EXPECT_EQ(problem_of(file("")), "");
  EXPECT_EQ(problem_of(file("/run/outrider/orders.sock")), "");
  EXPECT_EQ(problem_of(file("/" + std::string(106, 'a'))), "");
  EXPECT_THAT(problem_of(file("/" + std::string(107, 'a'))), HasSubstr("of at most 107 bytes"));
  EXPECT_EQ(problem_of(file("orders.sock")),
            "o.yaml:1:19: control.socket: found \"orders.sock\"; allowed: an absolute path of at "
            "most 107 bytes, or an empty text for no socket");
}

TEST(Validate, ExactlyOnceNeedsTheWitness) {
  EXPECT_EQ(problem_of(minimal_file("    delivery: {guarantee: exactly_once}\n")), "");
  EXPECT_EQ(problem_of(minimal_file("    delivery: {witness: false}\n")), "");
  EXPECT_THAT(problem_of(minimal_file("    delivery: {guarantee: exactly_once, witness: false}\n")),
              HasSubstr("o.yaml:6:50: pipelines[0].delivery.witness: exactly_once keeps its "
                        "position in Kafka"));
}

TEST(Validate, ANewSlotInPlaceOfALostOneNeedsTheWitness) {
  EXPECT_EQ(problem_of(minimal_file("    delivery: {on_slot_lost: recreate}\n")), "");
  EXPECT_THAT(problem_of(minimal_file("    delivery: {on_slot_lost: recreate, witness: false}\n")),
              HasSubstr("pipelines[0].delivery.on_slot_lost: without a witness nobody knows"));
}

TEST(Validate, TransactionTimesAreOrdered) {
  EXPECT_THAT(problem_of(minimal_file("    delivery: {transaction_ms: 20000}\n")),
              HasSubstr("delivery.transaction_ms (20000) must not be more than "
                        "delivery.transaction_max_ms (10000)"));
  EXPECT_THAT(problem_of(minimal_file("    delivery: {transaction_timeout_ms: 10000}\n")),
              HasSubstr("pipelines[0].delivery.transaction_timeout_ms: "
                        "delivery.transaction_max_ms (10000) must be less than"));
  EXPECT_THAT(problem_of(minimal_file("    delivery: {transaction_max_ms: 60000}\n")),
              HasSubstr("pipelines[0].delivery.transaction_max_ms: "));
  EXPECT_EQ(problem_of(minimal_file("    delivery: {transaction_ms: 10000}\n")), "");
}

TEST(Validate, TopicsOfItsOwnHaveLegalNames) {
  EXPECT_THAT(problem_of(minimal_file("    delivery: {position_topic: \"a b\"}\n")),
              HasSubstr("pipelines[0].delivery.position_topic: found \"a b\"; allowed"));
  EXPECT_THAT(problem_of(minimal_file("    dead_letters: {topic: \"..\"}\n")),
              HasSubstr("pipelines[0].dead_letters.topic: found \"..\""));
  EXPECT_THAT(
      problem_of(minimal_file("    dead_letters: {topic: " + std::string(250, 't') + "}\n")),
      HasSubstr("1 to 249 of"));
  EXPECT_THAT(problem_of(minimal_file("    dead_letters: {topic: outrider.positions}\n")),
              HasSubstr("which is compacted: letters would be deleted"));
}

TEST(Validate, ATopicOfDeadLettersExcludesWhatNeedsTheTable) {
  EXPECT_EQ(problem_of(minimal_file("    dead_letters: {topic: dead, on_poison: stop}\n")), "");
  EXPECT_THAT(problem_of(minimal_file("    dead_letters: {topic: dead, on_poison: park_key}\n")),
              HasSubstr("pipelines[0].dead_letters.on_poison: park_key has to read the letters"));
  for (const char* other : {"dsn: host=b", "automatic_retry: on", "max_attempts: 2",
                            "retry_first_ms: 200", "retry_max_ms: 200000"}) {
    EXPECT_THAT(
        problem_of(minimal_file("    dead_letters: {topic: dead, " + std::string(other) + "}\n")),
        HasSubstr("has no effect beside topic (o.yaml:6:27); remove one of the two"))
        << other;
  }
}

TEST(Validate, RetryPausesAreOrdered) {
  EXPECT_THAT(problem_of(minimal_file("    dead_letters: {retry_first_ms: 700000}\n")),
              HasSubstr("dead_letters.retry_first_ms (700000) must not be more than "
                        "dead_letters.retry_max_ms (600000)"));
}

}  // namespace
}  // namespace outrider
