#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "config_samples.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LoadRequest with_sets(std::vector<std::string> sets) {
  return {.path = {}, .environment = {}, .sets = std::move(sets)};
}

LoadRequest with_variable(const std::string& name, const std::string& value) {
  return {.path = {}, .environment = {{name, value}}, .sets = {}};
}

TEST(Overrides, FlagsBeatEnvironmentBeatsFileBeatsDefault) {
  std::string file = minimal_file("    route: {topics_max: 1}\n");
  auto value = [&](const LoadRequest& request) {
    Result<LoadedConfig> loaded = load_config_text("o.yaml", file, request);
    EXPECT_TRUE(loaded);
    return std::to_string(loaded->config.pipelines[0].route.topics_max) + " " +
           loaded->origin_of("pipelines[0].route.topics_max").text();
  };
  LoadRequest request;
  EXPECT_EQ(value(request), "1 file o.yaml:6");
  request.environment = {{"OUTRIDER_PIPELINES__0__ROUTE__TOPICS_MAX", "2"}, {"HOME", "/"}};
  EXPECT_EQ(value(request), "2 environment OUTRIDER_PIPELINES__0__ROUTE__TOPICS_MAX");
  request.sets = {"pipelines.0.route.topics_max=3"};
  EXPECT_EQ(value(request), "3 --set pipelines.0.route.topics_max");
  request.sets.push_back("pipelines.orders.route.topics_max=4");
  EXPECT_EQ(value(request), "4 --set pipelines.orders.route.topics_max");
  request.sets.push_back("pipelines[0].route.topics_max=5");
  EXPECT_EQ(value(request), "5 --set pipelines[0].route.topics_max");
}

TEST(Overrides, NamesOfPipelinesWorkInTheEnvironment) {
  std::string file = minimal_file();
  file.replace(file.find("orders"), 6, "my-pipe");
  Result<LoadedConfig> loaded = load_config_text(
      "o.yaml", file, with_variable("OUTRIDER_PIPELINES__MY_PIPE__SOURCE__SLOT", "other"));
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.pipelines[0].source.slot, "other");
}

TEST(Overrides, SetOneEntryOrAllOfAMap) {
  std::string file = minimal_file();
  file.replace(file.find("\"k:9092\""), 8, "\"k:9092\", properties: {linger.ms: 1, acks: all}");
  LoadRequest request = with_sets({"pipelines.0.kafka.properties.linger.ms=2"});
  request.environment = {{"OUTRIDER_PIPELINES__0__KAFKA__PROPERTIES__SASL_PASSWORD", "${env:P}"}};
  Result<LoadedConfig> loaded = load_config_text("o.yaml", file, request);
  ASSERT_TRUE(loaded) << loaded.error().message;
  auto properties = loaded->config.pipelines[0].kafka.properties;
  EXPECT_EQ(properties.size(), 3U);
  EXPECT_EQ(properties["linger.ms"].raw, "2");
  EXPECT_EQ(properties["sasl.password"].raw, "${env:P}");
  EXPECT_EQ(loaded->origin_of("pipelines[0].kafka.properties.acks").text(), "file o.yaml:5");
  EXPECT_EQ(loaded->origin_of("pipelines[0].kafka.properties.linger.ms").text(),
            "--set pipelines.0.kafka.properties.linger.ms");

  request.sets = {"pipelines.0.kafka.properties={a.b: c}"};
  loaded = load_config_text("o.yaml", file, request);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->config.pipelines[0].kafka.properties.size(), 1U);
  EXPECT_EQ(loaded->origins.count("pipelines[0].kafka.properties.linger.ms"), 0U);
}

TEST(Overrides, WriteListsInBracketsOrOneTextAlone) {
  auto tables = [](const std::string& value) {
    Result<LoadedConfig> loaded = load_config_text(
        "o.yaml", minimal_file(), with_sets({"pipelines.0.outbox.tables=" + value}));
    return loaded ? loaded->config.pipelines[0].outbox.tables
                  : std::vector<std::string>{loaded.error().message};
  };
  EXPECT_EQ(tables("[a.b, 'c.d']"), (std::vector<std::string>{"a.b", "c.d"}));
  EXPECT_EQ(tables("a.\"b,c\""), (std::vector<std::string>{"a.\"b,c\""}));
  EXPECT_THAT(tables("a,b").front(), HasSubstr("several values are written in brackets: [a, b]"));
  EXPECT_THAT(tables("[a").front(), HasSubstr("not valid YAML"));
  EXPECT_THAT(tables("").front(), HasSubstr("a list of at least one text"));
}

TEST(Overrides, NameTheNearestOption) {
  EXPECT_EQ(problem_of(minimal_file(), with_variable("OUTRIDER_LOG_LEVEL", "debug")),
            "environment OUTRIDER_LOG_LEVEL: names no option; did you mean "
            "\"OUTRIDER_LOG__LEVEL\"?");
  EXPECT_THAT(problem_of(minimal_file(), with_variable("OUTRIDER_log__level", "debug")),
              HasSubstr("did you mean \"OUTRIDER_LOG__LEVEL\"?"));
  EXPECT_THAT(
      problem_of(minimal_file(), with_variable("OUTRIDER_PIPELINES__0__SOURCE__SLOTS", "x")),
      HasSubstr("did you mean \"OUTRIDER_PIPELINES__0__SOURCE__SLOT\"?"));
  EXPECT_THAT(problem_of(minimal_file(), with_sets({"pipelines.orders.kafka.bootsrap_servers=x"})),
              HasSubstr("did you mean \"pipelines.orders.kafka.bootstrap_servers\"?"));
  EXPECT_THAT(problem_of(minimal_file(), with_sets({"pipelines.order.source.slot=x"})),
              HasSubstr("there is no pipeline named \"order\"; did you mean \"orders\"?"));
  EXPECT_THAT(problem_of(minimal_file(), with_sets({"pipelines.7.source.slot=x"})),
              HasSubstr("there is no pipeline 7; 1 are defined, counted from 0"));
  EXPECT_THAT(problem_of(minimal_file(), with_variable("OUTRIDER_ZZZZZZZZ", "x")),
              HasSubstr("names no option; every option is in"));
}

TEST(Overrides, RefuseSectionsAndWhatBelongsInTheFile) {
  EXPECT_THAT(problem_of(minimal_file(), with_sets({"pipelines.0.source={}"})),
              HasSubstr("names no option"));
  EXPECT_THAT(problem_of(minimal_file(), with_sets({"pipelines=[]"})),
              HasSubstr("names no option"));
  EXPECT_THAT(problem_of(minimal_file(), with_sets({"version=1"})),
              HasSubstr("can be written in the file only"));
  EXPECT_THAT(problem_of(minimal_file(), with_sets({"pipelines.0.kafka.properties.=1"})),
              HasSubstr("names no option"));
}

TEST(Overrides, CheckValuesLikeTheFile) {
  EXPECT_EQ(problem_of(minimal_file(), with_variable("OUTRIDER_LOG__LEVEL", "loud")),
            "environment OUTRIDER_LOG__LEVEL: log.level: found \"loud\"; allowed: one of debug, "
            "info, warn, error");
  EXPECT_THAT(problem_of(minimal_file(), with_sets({"pipelines.0.source.slot="})),
              HasSubstr("--set pipelines.0.source.slot: pipelines[0].source.slot: found an empty "
                        "text"));
  EXPECT_THAT(problem_of(minimal_file(), with_sets({"pipelines.0.source.slot=My-Slot"})),
              HasSubstr("--set pipelines.0.source.slot: pipelines[0].source.slot: found "
                        "\"My-Slot\""));
}

TEST(Overrides, NeverShowAFlagThatLostItsName) {
  std::string problem = problem_of(minimal_file(), with_sets({"postgresql://u:hunter2@h/d"}));
  EXPECT_THAT(problem, HasSubstr("--set number 1: has no \"path=value\""));
  EXPECT_THAT(problem, Not(HasSubstr("hunter2")));
}

TEST(Overrides, LeaveVariablesOfKubernetesServicesAlone) {
  LoadRequest request;
  request.environment = {{"OUTRIDER_SERVICE_HOST", "10.0.0.1"},
                         {"OUTRIDER_SERVICE_PORT", "9640"},
                         {"OUTRIDER_SERVICE_PORT_METRICS", "9640"},
                         {"OUTRIDER_PORT", "tcp://10.0.0.1:9640"},
                         {"OUTRIDER_PORT_9640_TCP", "tcp://10.0.0.1:9640"},
                         {"OUTRIDER_PORT_9640_TCP_PROTO", "tcp"},
                         {"OUTRIDER_PORT_9640_TCP_ADDR", "10.0.0.1"},
                         {"OUTRIDER_METRICS_SERVICE_HOST", "10.0.0.1"},
                         {"OUTRIDER_CONFIG", "x.yaml"}};
  EXPECT_EQ(problem_of(minimal_file(), request), "");
  EXPECT_NE(problem_of(minimal_file(), with_variable("OUTRIDER_PORT", "9640")), "");
}

TEST(Overrides, MakePipelinesOneAfterTheOther) {
  LoadRequest request =
      with_sets({"pipelines.2.name=c", "pipelines.1.name=b", "pipelines.1.source.dsn=host=b"});
  std::string problem = problem_of(minimal_file(), request);
  EXPECT_THAT(problem, HasSubstr("--set pipelines.2.name: pipelines[2].source.dsn: is required"));
  EXPECT_THAT(problem, HasSubstr("--set pipelines.1.name: pipelines[1].kafka.bootstrap_servers"));
  EXPECT_THAT(problem, Not(HasSubstr("pipelines[1].source.dsn: is required")));
}

}  // namespace
}  // namespace outrider
