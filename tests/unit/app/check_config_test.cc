#include "app/check_config.h"

#include <gtest/gtest.h>

#include <string>

namespace outrider {
namespace {

PipelineConfig good() {
  PipelineConfig config;
  config.name = "shop";
  config.source.dsn = {"postgresql://u:${env:OUTRIDER_TEST_NOT_SET}@h/d"};
  config.kafka.bootstrap_servers = {"k:9092"};
  return config;
}

bool tells(const PipelineCheck& check, const std::string& what) {
  for (const Error& error : check.problems) {
    if (describe(error).find(what) != std::string::npos) {
      return true;
    }
  }
  return false;
}

TEST(CheckPipeline, AMissingSecretIsNoProblem) {
  PipelineConfig config = good();
  config.kafka.properties["sasl.password"] = {"${file:/nowhere/at/all}"};
  const PipelineCheck check = check_pipeline(config);
  EXPECT_TRUE(check.problems.empty()) << describe(check.problems.front());
  EXPECT_EQ(check.missing_secrets.size(), 2U);
}

TEST(CheckPipeline, TellsEverythingAtOnce) {
  PipelineConfig config = good();
  config.source.dsn = {"host=h password=top secret"};
  config.outbox.tables = {"a..b"};
  config.route.pattern = "([";
  config.kafka.properties["acks"] = {"0"};
  config.kafka.properties["no.such.property"] = {"1"};
  const PipelineCheck check = check_pipeline(config);
  EXPECT_EQ(check.problems.size(), 5U);
  for (const char* what : {"source.dsn", "a..b", "route.pattern", "acks", "no.such.property"}) {
    EXPECT_TRUE(tells(check, what)) << what;
  }
  EXPECT_FALSE(tells(check, "secret"));
}

TEST(CheckPipeline, ChecksTheDsnAlsoWithoutItsSecret) {
  PipelineConfig config = good();
  config.source.dsn = {"postgresql://u:${env:OUTRIDER_TEST_NOT_SET}@h/d?no_such=1"};
  EXPECT_TRUE(tells(check_pipeline(config), "source.dsn"));
  config.source.dsn = {"${env:OUTRIDER_TEST_NOT_SET}"};
  EXPECT_TRUE(check_pipeline(config).problems.empty());
}

}  // namespace
}  // namespace outrider
