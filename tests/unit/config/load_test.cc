#include "outrider/config/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "config_samples.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kFull[] = R"yaml(version: 1
log: {level: debug, format: json}
http: {listen: "[::1]:0"}
pipelines:
  - name: orders
    source:
      dsn: "host=db password=${env:PW}"
      slot: orders_1
      create_slot: true
      plugin: pgoutput
      publication: pub
      create_publication: true
      status_interval_ms: 1000
      former_partitions: [public.outbox_2020]
    outbox:
      tables: [public.a, '"Odd".b']
      columns: {id: event_id, payload: body}
      headers: [tenant, "trace:trace_id"]
    route: {by: aggregate_type, pattern: "(.*)", replacement: "x.$1", topics_max: 5}
    kafka:
      bootstrap_servers: k1:9092,k2:9092
      properties: {linger.ms: 5, sasl.password: "${file:/run/p}", enable.x: true}
      topics: {create: true, partitions: 3, replication_factor: 2, config: {retention.ms: 7}}
      fatal_errors_max: 9
    limits: {in_flight_records_max: 10, in_flight_bytes_max: 2048, shutdown_timeout_ms: 0}
)yaml";

TEST(LoadConfig, ReadsEveryKindOfValue) {
  Result<LoadedConfig> loaded = load_config_text("o.yaml", kFull);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Config& config = loaded->config;
  EXPECT_EQ(config.log.level, LogLevel::debug);
  EXPECT_EQ(config.log.format, LogFormat::json);
  EXPECT_EQ(config.http.listen, "[::1]:0");
  ASSERT_EQ(config.pipelines.size(), 1U);
  const PipelineConfig& pipeline = config.pipelines[0];
  EXPECT_EQ(pipeline.source.dsn.raw, "host=db password=${env:PW}");
  EXPECT_EQ(pipeline.source.slot, "orders_1");
  EXPECT_TRUE(pipeline.source.create_slot);
  EXPECT_EQ(pipeline.source.plugin, PluginChoice::pgoutput);
  EXPECT_EQ(pipeline.source.status_interval_ms, 1000);
  EXPECT_EQ(pipeline.source.former_partitions, std::vector<std::string>{"public.outbox_2020"});
  EXPECT_EQ(pipeline.outbox.tables, (std::vector<std::string>{"public.a", "\"Odd\".b"}));
  EXPECT_EQ(pipeline.outbox.columns.id, "event_id");
  EXPECT_EQ(pipeline.outbox.columns.event_type, "");
  ASSERT_EQ(pipeline.outbox.headers.size(), 2U);
  EXPECT_EQ(pipeline.outbox.headers[0].column, "tenant");
  EXPECT_EQ(pipeline.outbox.headers[0].header, "");
  EXPECT_EQ(pipeline.outbox.headers[1].column, "trace");
  EXPECT_EQ(pipeline.outbox.headers[1].header, "trace_id");
  EXPECT_EQ(pipeline.route.replacement, "x.$1");
  EXPECT_EQ(pipeline.kafka.properties.at("linger.ms").raw, "5");
  EXPECT_EQ(pipeline.kafka.properties.at("enable.x").raw, "true");
  EXPECT_EQ(pipeline.kafka.properties.at("sasl.password").raw, "${file:/run/p}");
  EXPECT_EQ(pipeline.kafka.topics.config.at("retention.ms"), "7");
  EXPECT_EQ(pipeline.limits.shutdown_timeout_ms, 0);
}

TEST(LoadConfig, KeepsTheDefaultsOfConfigForWhatIsNotWritten) {
  Result<LoadedConfig> loaded = load_config_text("o.yaml", minimal_file());
  ASSERT_TRUE(loaded) << loaded.error().message;
  const PipelineConfig& pipeline = loaded->config.pipelines[0];
  EXPECT_EQ(pipeline.source.status_interval_ms, SourceConfig{}.status_interval_ms);
  EXPECT_EQ(pipeline.outbox.tables, OutboxConfig{}.tables);
  EXPECT_EQ(pipeline.route.replacement, RouteConfig{}.replacement);
  EXPECT_EQ(loaded->origin_of("pipelines[0].route.by").text(), "default");
}

TEST(LoadConfig, RemembersTheLineOfEachValue) {
  Result<LoadedConfig> loaded = load_config_text("o.yaml", kFull);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->origin_of("pipelines[0].source.slot").text(), "file o.yaml:8");
  EXPECT_EQ(loaded->origin_of("pipelines[0].source.slot").place(), "o.yaml:8:13");
  EXPECT_EQ(loaded->origin_of("pipelines[0].kafka.properties.linger.ms").line, 22);
}

// Fault 125: a typo is ignored and a default used.
TEST(LoadConfig, Fault125RefusesUnknownKeysWithTheNearestOne) {
  EXPECT_EQ(problem_of("version: 1\npipelines:\n  - name: a\n    source: {dsn: x=y}\n"
                       "    kafka: {bootsrap_servers: k}\n"),
            "2 problems in the configuration\n"
            "  o.yaml:5:13: pipelines[0].kafka: unknown key \"bootsrap_servers\"; did you mean "
            "\"bootstrap_servers\"?\n"
            "  o.yaml:3:5: pipelines[0].kafka.bootstrap_servers: is required and has no default");
  EXPECT_THAT(problem_of(minimal_file() + "kafak: {}\n"),
              HasSubstr("o.yaml:6:1: unknown key \"kafak\"; allowed here: version, log, http, "
                        "control, pipelines"));
  EXPECT_THAT(problem_of(minimal_file() + "lgo: {}\n"), HasSubstr("did you mean \"log\"?"));
  EXPECT_THAT(problem_of(minimal_file("    kafka.bootsrap: k\n")),
              HasSubstr("did you mean \"pipelines[].kafka.bootstrap_servers\", each part nested"));
  EXPECT_THAT(problem_of(minimal_file("    linger: k\n    create_slot: true\n")),
              HasSubstr("did you mean \"pipelines[].source.create_slot\""));
}

// Found by the fuzzer: a path as a key reached an option of a pipeline that did not exist.
TEST(LoadConfig, Fault125RefusesPathsAsKeys) {
  for (const char* key : {"pipelines[].kafka.topics.create: true", "pipelines[]: {name: a}",
                          "pipelines[0].name: a", "log.level: debug"}) {
    EXPECT_THAT(problem_of(minimal_file() + key + "\n"), HasSubstr("unknown key \"")) << key;
  }
  EXPECT_THAT(problem_of(minimal_file("    kafka.bootstrap_servers: k\n")),
              HasSubstr("did you mean \"pipelines[].kafka.bootstrap_servers\", each part nested"));
}

TEST(LoadConfig, Fault125RefusesWrongTypes) {
  EXPECT_EQ(problem_of(minimal_file("    limits: {in_flight_records_max: many}\n")),
            "o.yaml:6:37: pipelines[0].limits.in_flight_records_max: found \"many\"; allowed: a "
            "whole number from 1 to 10000000");
  for (const char* number : {"1.5", "1e3", "0x10", "+5", "010", "5s", "\"5\"", "[5]", "{a: 1}",
                             "99999999999999999999", "--5", "-"}) {
    EXPECT_THAT(problem_of(minimal_file(
                    "    limits: {in_flight_records_max: " + std::string(number) + "}\n")),
                HasSubstr("a whole number from 1"))
        << number;
  }
  for (const char* flag : {"yes", "on", "1", "True", "\"true\"", "[true]"}) {
    EXPECT_THAT(problem_of(minimal_file("    kafka2: 1\n    route: {topic: {a: b}}\n")),
                HasSubstr("route.topic: found a map"));
    EXPECT_THAT(
        problem_of("version: 1\npipelines: [{source: {create_slot: " + std::string(flag) + "}}]\n"),
        HasSubstr("allowed: true or false"))
        << flag;
  }
  EXPECT_THAT(problem_of("version: 1\npipelines: {name: a}\n"), HasSubstr("must be a list"));
  EXPECT_THAT(problem_of("version: 1\nlog: loud\n"),
              HasSubstr("o.yaml:2:6: log: must be a map with keys out of: level, format"));
  EXPECT_THAT(problem_of("version: 1\nlog: {level: wran}\n"),
              HasSubstr("found \"wran\"; allowed: one of debug, info, warn, error; did you mean "
                        "\"warn\"?"));
  EXPECT_THAT(problem_of("- version: 1\n"), HasSubstr("o.yaml:1:1: must be a map"));
  EXPECT_THAT(problem_of("just text"), HasSubstr("must be a map"));
}

TEST(LoadConfig, Fault125RefusesDuplicateKeys) {
  EXPECT_EQ(problem_of("version: 1\n" + minimal_file()),
            "o.yaml:2:1: version: is written twice, first in line 1; keep one of them");
  EXPECT_THAT(problem_of(minimal_file("    source: {dsn: host=other}\n")),
              HasSubstr("o.yaml:6:5: pipelines[0].source: is written twice, first in line 4"));
  EXPECT_THAT(problem_of("version: 1\npipelines:\n  - kafka: {properties: {a.b: 1, a.b: 2}}\n"),
              HasSubstr("pipelines[0].kafka.properties.a.b: is written twice"));
}

TEST(LoadConfig, Fault125RefusesEmptyValues) {
  EXPECT_THAT(problem_of("version: 1\nlog:\n  level:\n"),
              HasSubstr("log.level: has no value; leave the line out for the default, or write one "
                        "of debug"));
  EXPECT_THAT(problem_of("version: 1\nlog: {level: ~}\n"), HasSubstr("has no value"));
  EXPECT_THAT(problem_of("version: 1\nlog:\n"), HasSubstr("log: must be a map"));
  EXPECT_THAT(problem_of("version: 1\npipelines:\n"), HasSubstr("must be a list"));
  EXPECT_THAT(problem_of("version: 1\npipelines:\n  -\n"),
              HasSubstr("pipelines[0]: must be a map"));
  EXPECT_THAT(problem_of("version: 1\npipelines: [{source: {slot: \"\"}}]\n"),
              HasSubstr("found an empty text; allowed: a text that is not empty"));
  EXPECT_THAT(problem_of(minimal_file("    outbox: {tables: []}\n")),
              HasSubstr("a list of at least one text"));
  EXPECT_THAT(problem_of(minimal_file("    outbox: {tables: [a, \"\"]}\n")),
              HasSubstr("found an empty text"));
  EXPECT_EQ(problem_of(minimal_file() + "http: {listen: \"\"}\n"), "");
}

TEST(LoadConfig, Fault125RefusesValuesOutOfRange) {
  EXPECT_THAT(problem_of(minimal_file("    kafka2: {}\n    limits: {in_flight_bytes_max: 1023}\n")),
              HasSubstr("found \"1023\"; allowed: a whole number from 1024 to"));
  EXPECT_EQ(problem_of(minimal_file("    limits: {in_flight_bytes_max: 1024}\n")), "");
  EXPECT_THAT(problem_of(minimal_file("    limits: {shutdown_timeout_ms: -1}\n")),
              HasSubstr("from 0 to 86400000 (milliseconds)"));
}

TEST(LoadConfig, NeedsVersionOne) {
  EXPECT_THAT(problem_of("pipelines: []\n"),
              HasSubstr("o.yaml:1:1: version: is missing; write \"version: 1\" as the first line"));
  EXPECT_THAT(problem_of("version: 2\nnew_thing: 1\n"),
              AllOf(HasSubstr("o.yaml:1:10: version: found \"2\"; this release reads version 1, "
                              "written as \"version: 1\""),
                    HasSubstr("unknown key \"new_thing\""), HasSubstr("no pipeline is defined")));
  EXPECT_THAT(problem_of("version: \"1\"\n"), HasSubstr("this release reads version 1"));
  EXPECT_THAT(problem_of("version:\n"), HasSubstr("found no number"));
  EXPECT_THAT(problem_of(""), HasSubstr("o.yaml: is empty"));
  EXPECT_THAT(problem_of("# only a comment\n"), HasSubstr("o.yaml: is empty"));
}

TEST(LoadConfig, ReportsWhatItUnderstoodBesideWhatIsWrong) {
  const Result<ConfigReport> report =
      report_config({.path = {},
                     .environment = {},
                     .sets = {"pipelines.0.source.slot=orders", "log.level=lodu"}});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->problem_count, 4U);
  EXPECT_EQ(report->problems.size(), 4U);
  EXPECT_EQ(report->loaded.config.pipelines.at(0).source.slot, "orders");
}

TEST(LoadConfig, NeedsNoKafkaWhereItNeedNotBeComplete) {
  LoadRequest request;
  request.complete = false;
  EXPECT_TRUE(load_config(request));
  request.sets = {"pipelines.0.source.slot=orders"};
  const Result<LoadedConfig> loaded = load_config(request);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.pipelines.at(0).source.slot, "orders");
  request.sets = {"pipelines.0.source.slot=Or ders"};
  EXPECT_FALSE(load_config(request));
}

TEST(LoadConfig, TellsTheFirstTwentyProblemsAndCountsTheRest) {
  std::string text = "version: 1\n";
  for (int i = 0; i < 30; ++i) {
    text += "wrong_" + std::to_string(i) + ": 1\n";
  }
  std::string problem = problem_of(text);
  EXPECT_THAT(problem, StartsWith("31 problems in the configuration\n  o.yaml:2:1: "));
  EXPECT_THAT(problem, HasSubstr("wrong_19"));
  EXPECT_THAT(problem, Not(HasSubstr("wrong_20")));
  EXPECT_THAT(problem, HasSubstr("\n  and 11 more"));
}

TEST(LoadConfig, SaysWhereTextIsNotYaml) {
  EXPECT_THAT(problem_of("version: 1\npipelines: [\n"), StartsWith("o.yaml:"));
  EXPECT_THAT(problem_of("version: 1\n\tlog: {}\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(problem_of("version: 1\n---\nversion: 1\n"), HasSubstr("a second document"));
  EXPECT_THAT(problem_of("version: *nowhere\n"), HasSubstr("not valid YAML"));
}

TEST(LoadConfig, ExpandsAliasesButNotWithoutBound) {
  std::string text =
      "version: 1\npipelines:\n"
      "  - {name: a, source: {dsn: host=a, slot: a}, kafka: &k {bootstrap_servers: "
      "\"k:1\"}}\n"
      "  - {name: b, source: {dsn: host=b, slot: b}, kafka: *k}\n";
  Result<LoadedConfig> loaded = load_config_text("o.yaml", text);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.pipelines[1].kafka.bootstrap_servers.raw, "k:1");

  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 10; ++i) {
    std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) {
      bomb += before + (j < 9 ? "," : "]\n");
    }
  }
  EXPECT_THAT(problem_of(bomb), HasSubstr("too many values"));
  EXPECT_THAT(problem_of("version: &v [*v]\n"), HasSubstr("alias of a value that contains it"));
  EXPECT_THAT(problem_of(minimal_file("    <<: {a: b}\n")), HasSubstr("merge keys"));
}

TEST(LoadConfig, RefusesDeepNestingAndLargeFilesAndZeroBytes) {
  EXPECT_NE(problem_of("version: " + std::string(100'000, '[')), "");
  EXPECT_THAT(problem_of(std::string(kConfigBytesMax + 1, ' ')), HasSubstr("is larger than"));
  EXPECT_THAT(problem_of(minimal_file("    route: {topic: \"a\\0b\"}\n")), HasSubstr("zero byte"));
}

TEST(LoadConfig, NeverShowsASecret) {
  std::string problem = problem_of(
      "version: 1\npipelines:\n  - name: a\n"
      "    source: {dsn: \"host=a password=hunter2${\", slot: [hunter2]}\n"
      "    kafka: {bootstrap_servers: [hunter2], properties: {sasl.password: [hunter2], b: "
      "\"${hunter2}\"}}\n");
  EXPECT_THAT(problem, HasSubstr("has a \"${\" that is no reference; write ${env:NAME}"));
  EXPECT_THAT(problem, Not(HasSubstr("hunter2")));
}

TEST(LoadConfig, RunsWithoutAFileWhenAPipelineIsGiven) {
  LoadRequest request;
  request.sets = {"pipelines.0.name=orders", "pipelines.0.source.dsn=host=db",
                  "pipelines.orders.kafka.bootstrap_servers=k:9092"};
  Result<LoadedConfig> loaded = load_config(request);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.pipelines[0].source.dsn.raw, "host=db");
  EXPECT_EQ(loaded->config.pipelines[0].source.slot, "outrider");

  Result<LoadedConfig> nothing = load_config({});
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().kind, ErrorKind::configuration);
  EXPECT_THAT(nothing.error().message, HasSubstr("no pipeline is defined"));
}

TEST(LoadConfig, ReadsTheFileOfThePathOrOfTheVariable) {
  std::string path = ::testing::TempDir() + "outrider_load_test.yaml";
  std::ofstream(path) << minimal_file();
  EXPECT_TRUE(load_config({.path = path, .environment = {}, .sets = {}}));
  EXPECT_TRUE(load_config({.path = {}, .environment = {{"OUTRIDER_CONFIG", path}}, .sets = {}}));
  std::remove(path.c_str());
  Result<LoadedConfig> missing = load_config({.path = path, .environment = {}, .sets = {}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message,
            "cannot read the configuration \"" + path + "\": No such file or directory");
  EXPECT_FALSE(load_config({.path = "/", .environment = {}, .sets = {}}));
}

TEST(LoadConfig, SplitsAnEnvironmentBlock) {
  const char* block[] = {"A=1", "B=x=y", "broken", nullptr};
  auto variables = environment_of(block);
  ASSERT_EQ(variables.size(), 2U);
  EXPECT_EQ(variables[1].second, "x=y");
  EXPECT_TRUE(environment_of(nullptr).empty());
}

}  // namespace
}  // namespace outrider
