#include "config/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "config/values.h"
#include "config_samples.h"
#include "outrider/config/docs.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A value other than the default, as --set takes it.
std::string other_value(const Option& option) {
  DefaultScope defaults;
  Field field = option.field(defaults.scope());
  if (auto* number = std::get_if<std::int64_t*>(&field)) {
    return std::to_string(**number + 2);  // One above -1 is zero, no number of replicas.
  }
  if (auto* flag = std::get_if<bool*>(&field)) {
    return **flag ? "false" : "true";
  }
  if (!option.rule.words.empty()) {
    return std::string(option.rule.words.back());
  }
  if (is_map(field)) {
    return "{a.b: \"# yes: 'no' \\\\ \\\" \\t\", c: \"07\"}";
  }
  if (is_list(field)) {
    return "['public.\"a, b\"', \"c:d # e\"]";
  }
  if (option.key() == "bootstrap_servers") {
    return "a:1, [::1]:2";
  }
  if (option.path == "http.listen") {
    return "localhost:1";
  }
  if (option.path == "control.socket") {
    return "/a folder/other.sock";
  }
  if (option.path.ends_with("letters.topic") || option.key() == "position_topic") {
    return "Other.topic_1-x";
  }
  if (option.rule.conninfo) {
    return "host=a password='${env:X}' user=\"u\"";
  }
  return option.key() == "name" || option.key() == "slot" ? "other" : "it's \"#1\": ünï\n\\x";
}

TEST(Options, HavePathHelpAndSection) {
  std::set<std::string_view> paths;
  for (const Option& option : options()) {
    EXPECT_TRUE(paths.insert(option.path).second) << option.path;
    EXPECT_GE(option.help.size(), 20U) << option.path;
    EXPECT_TRUE(option.help.ends_with('.')) << option.path;
    EXPECT_TRUE(std::any_of(sections().begin(), sections().end(), [&](const Section& section) {
      return section.path == option.section();
    })) << option.path;
  }
}

TEST(Options, ReachFieldsOfTheirOwn) {
  DefaultScope defaults;
  std::set<const void*> fields;
  for (const Option& option : options()) {
    const void* address = std::visit([](auto* field) -> const void* { return field; },
                                     option.field(defaults.scope()));
    EXPECT_TRUE(fields.insert(address).second) << option.path;
  }
}

TEST(Options, TakeTheirOwnDefaults) {
  for (const Option& option : options()) {
    DefaultScope defaults;
    Field field = option.field(defaults.scope());
    if (auto* number = std::get_if<std::int64_t*>(&field)) {
      EXPECT_GE(**number, option.rule.min) << option.path;
      EXPECT_LE(**number, option.rule.max) << option.path;
    }
    EXPECT_EQ(option.rule.words.empty(), type_name(field) != "word") << option.path;
  }
}

TEST(Options, AreAllInHelpAndDocumentation) {
  std::string help = options_help();
  std::string docs = configuration_markdown();
  for (const Option& option : options()) {
    EXPECT_THAT(help, HasSubstr(std::string(option.path) + "  (")) << option.path;
    std::string title = option.section().empty() ? "### The file\n"
                                                 : "### `" + std::string(option.section()) + "`\n";
    std::size_t begin = docs.find(title);
    ASSERT_NE(begin, std::string::npos) << title;
    std::string section = docs.substr(begin, docs.find("\n### ", begin) - begin);
    EXPECT_THAT(section, HasSubstr("\n| `" + std::string(option.key()) + "` | "));
  }
}

TEST(Options, RoundTripThroughTheEffectiveText) {
  for (const Option& option : options()) {
    if (option.rule.file_only) {
      continue;
    }
    std::string path = option.concrete_path(0);
    LoadRequest request;
    request.sets = {path + "=" + other_value(option)};
    if (option.key() == "confirm_interval_ms") {
      request.sets.push_back("pipelines.0.source.status_interval_ms=3600000");
    }
    if (option.key() == "evict_holder_after_ms") {
      request.sets = {path + "=10000"};
    }
    Result<LoadedConfig> first = load_config_text("o.yaml", minimal_file(), request);
    ASSERT_TRUE(first) << first.error().message;
    std::string text = effective_config_text(*first);
    EXPECT_THAT(text, HasSubstr("  # --set " + path)) << text;
    Result<LoadedConfig> second = load_config_text("p.yaml", text);
    ASSERT_TRUE(second) << second.error().message << "\n" << text;
    for (const Option& each : options()) {
      std::int64_t version = 1;
      auto text_of = [&](LoadedConfig& loaded) {
        Field field = each.field({&loaded.config, &loaded.config.pipelines[0], &version});
        std::string value = value_text(each, field);
        if (auto* texts = std::get_if<std::map<std::string, std::string>*>(&field)) {
          for (const auto& [key, entry] : **texts) {
            value += "\n" + key + "=" + entry;
          }
        }
        if (auto* texts = std::get_if<std::map<std::string, SecretText>*>(&field)) {
          for (const auto& [key, entry] : **texts) {
            value += "\n" + key + "=" + entry.raw;
          }
        }
        return value;
      };
      EXPECT_EQ(text_of(*first), text_of(*second)) << each.path << " after setting " << path;
    }
  }
}

TEST(EffectiveText, ShowsOriginsAndHidesWrittenPasswords) {
  LoadRequest request;
  request.environment = {{"OUTRIDER_LOG__LEVEL", "warn"}};
  request.sets = {"pipelines.0.source.dsn=host=h password=hunter2",
                  "pipelines.0.kafka.properties.sasl.password=hunter2",
                  "pipelines.0.kafka.properties.ssl.key.password=${env:KEY_PW}",
                  "pipelines.0.kafka.properties.linger.ms=5"};
  Result<LoadedConfig> loaded = load_config_text("o.yaml", minimal_file(), request);
  ASSERT_TRUE(loaded) << loaded.error().message;
  std::string text = effective_config_text(*loaded);
  EXPECT_THAT(text, Not(HasSubstr("hunter2")));
  EXPECT_THAT(text, HasSubstr("version: 1  # "));
  EXPECT_THAT(text, HasSubstr("  level: warn  # environment OUTRIDER_LOG__LEVEL\n"));
  EXPECT_THAT(text, HasSubstr("  - name: orders  # file o.yaml:3\n"));
  EXPECT_THAT(text, HasSubstr("      dsn: \"host=h password=***\"  # --set "));
  EXPECT_THAT(text, HasSubstr("        sasl.password: \"***\"  # --set "));
  EXPECT_THAT(text, HasSubstr("        ssl.key.password: \"${env:KEY_PW}\"  # --set "));
  EXPECT_THAT(text, HasSubstr("        linger.ms: \"5\"  # --set "));
  EXPECT_THAT(text, HasSubstr("      replication_factor: -1  # default\n"));
  EXPECT_TRUE(load_config_text("p.yaml", text));
}

TEST(Documentation, CommittedFileIsTheGeneratedOne) {
  std::ifstream file("../docs/CONFIGURATION.md");
  ASSERT_TRUE(file) << "run: outrider config-docs > docs/CONFIGURATION.md";
  std::stringstream committed;
  committed << file.rdbuf();
  EXPECT_EQ(committed.str(), configuration_markdown())
      << "the table of options has changed; run: outrider config-docs > docs/CONFIGURATION.md";
}

// The example of the documentation is one that works.
TEST(Documentation, ExampleLoads) {
  std::string docs = configuration_markdown();
  std::size_t begin = docs.find("```yaml\n") + 8;
  Result<LoadedConfig> loaded =
      load_config_text("example", docs.substr(begin, docs.find("```", begin) - begin));
  EXPECT_TRUE(loaded) << loaded.error().message;
}

}  // namespace
}  // namespace outrider
