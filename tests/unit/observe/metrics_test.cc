#include "outrider/observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
}

/// Length of the series (a name, then perhaps labels in braces) that a sample line begins with.
std::size_t series_length(std::string_view line) {
  std::size_t end = 0;
  while (end < line.size() && is_name_char(line[end])) ++end;
  if (end == 0 || end == line.size() || line[end] != '{') return end;
  bool quoted = false;
  for (++end; end < line.size(); ++end) {
    if (quoted && line[end] == '\\') {
      ++end;
      if (end == line.size() ||
          std::string_view("\\\"n").find(line[end]) == std::string_view::npos) {
        return 0;
      }
    } else if (line[end] == '"') {
      quoted = !quoted;
    } else if (!quoted && line[end] == '}') {
      return end + 1;
    } else if (!quoted && !is_name_char(line[end]) && line[end] != '=' && line[end] != ',') {
      return 0;
    }
  }
  return 0;
}

bool is_comment(std::string_view line) {
  if (line.starts_with("# HELP ")) return true;
  return line.starts_with("# TYPE ") &&
         (line.ends_with(" counter") || line.ends_with(" gauge") || line.ends_with(" histogram"));
}

/// Value by series, as a scraper would read them; a line that is none fails the test.
std::map<std::string, std::string> series(const std::string& text) {
  std::map<std::string, std::string> result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (is_comment(line)) continue;
    const std::size_t end = series_length(line);
    const std::string value = end == 0 || end == line.size() ? "" : line.substr(end + 1);
    EXPECT_TRUE(end != 0 && line[end] == ' ' && !value.empty()) << line;
    EXPECT_EQ(value.find(' '), std::string::npos) << line;
    EXPECT_TRUE(result.emplace(line.substr(0, end), value).second) << line;
  }
  return result;
}

TEST(MetricsRegistry, PrintsEachKindWithHelpAndType) {
  MetricsRegistry registry;
  registry.counter("outrider_b_total", "Things done.").add(3);
  registry.gauge("outrider_a_bytes", "Bytes held.").set(2.5);
  auto histogram = registry.histogram("outrider_c_seconds", "Time taken.", {0.1, 1});
  histogram.observe(0.05);
  histogram.observe(0.5);
  histogram.observe(5);
  EXPECT_EQ(registry.text(),
            "# HELP outrider_a_bytes Bytes held.\n"
            "# TYPE outrider_a_bytes gauge\n"
            "outrider_a_bytes 2.5\n"
            "# HELP outrider_b_total Things done.\n"
            "# TYPE outrider_b_total counter\n"
            "outrider_b_total 3\n"
            "# HELP outrider_c_seconds Time taken.\n"
            "# TYPE outrider_c_seconds histogram\n"
            "outrider_c_seconds_count 3\n"
            "outrider_c_seconds_sum 5.55\n"
            "outrider_c_seconds_bucket{le=\"0.1\"} 1\n"
            "outrider_c_seconds_bucket{le=\"1\"} 2\n"
            "outrider_c_seconds_bucket{le=\"+Inf\"} 3\n");
}

TEST(MetricsRegistry, SortsLabelSetsAndEscapesTheirValues) {
  MetricsRegistry registry;
  auto family = registry.counters("outrider_x_total", "X.", {"slot", "topic"});
  family.with({"s", "b"}).add();
  family.with({"s", "a\"\\\n\xFF"}).add(2);
  EXPECT_THAT(registry.text(),
              HasSubstr("outrider_x_total{slot=\"s\",topic=\"a\\\"\\\\\\n\xEF\xBF\xBD\"} 2\n"
                        "outrider_x_total{slot=\"s\",topic=\"b\"} 1\n"));
  EXPECT_EQ(series(registry.text()).size(), 2U);
}

TEST(MetricsRegistry, RunsCollectCallbacksBeforeEachText) {
  MetricsRegistry registry;
  auto gauge = registry.gauge("outrider_turns", "Turns.");
  int turns = 0;
  const auto id = registry.on_collect([&] { gauge.set(++turns); });
  EXPECT_EQ(series(registry.text()).at("outrider_turns"), "1");
  EXPECT_EQ(series(registry.text()).at("outrider_turns"), "2");
  registry.remove_on_collect(id);
  EXPECT_EQ(series(registry.text()).at("outrider_turns"), "2");
}

TEST(MetricsRegistry, ListsFamiliesForTheDocumentation) {
  MetricsRegistry registry;
  registry.histograms("outrider_z_seconds", "Z.", {"topic"}, {1});
  registry.gauge("outrider_a", "A.");
  registry.counters("outrider_m_total", "M.", {"slot", "reason"});
  auto families = registry.families();
  ASSERT_EQ(families.size(), 3U);
  EXPECT_EQ(families[0].name, "outrider_a");
  EXPECT_STREQ(to_string(families[0].type), "gauge");
  EXPECT_EQ(families[1].help, "M.");
  EXPECT_THAT(families[1].labels, ElementsAre("slot", "reason"));
  EXPECT_STREQ(to_string(families[1].type), "counter");
  EXPECT_STREQ(to_string(families[2].type), "histogram");
}

TEST(MetricsRegistry, LeavesOutFamiliesWithoutAValue) {
  MetricsRegistry registry;
  registry.gauge("outrider_unknown", "Never set.");
  registry.counters("outrider_by_topic_total", "No topic yet.", {"topic"});
  EXPECT_EQ(registry.text(), "");
}

TEST(MetricsRegistry, KeepsLargeCountersExact) {
  MetricsRegistry registry;
  registry.counter("outrider_bytes_total", "Bytes.").set_total(1234567890123456.0);
  const auto value = series(registry.text()).at("outrider_bytes_total");
  EXPECT_EQ(std::stod(value), 1234567890123456.0);
}

TEST(MetricsRegistryDeathTest, RefusesOurOwnMistakes) {
  MetricsRegistry registry;
  registry.gauge("outrider_a", "A.");
  EXPECT_DEATH(registry.counter("outrider_a", "Again."), "registered once");
  EXPECT_DEATH(registry.counter("not a name", "B."), "metric name");
  EXPECT_DEATH(registry.counters("outrider_c_total", "C.", {"no-label"}), "underscores");
  EXPECT_DEATH(registry.counter("outrider_d_total", "two\nlines"), "one plain line");
  auto family = registry.counters("outrider_e_total", "E.", {"a", "b"});
  EXPECT_DEATH(family.with({"only one"}), "one value for each label");
  EXPECT_DEATH(Counter().add(), "comes from the registry");
}

TEST(Counter, TakesAbsoluteTotalsAndNeverGoesBack) {
  MetricsRegistry registry;
  auto counter = registry.counter("outrider_total", "T.");
  EXPECT_EQ(series(registry.text()).at("outrider_total"), "0");
  counter.set_total(10);
  counter.set_total(7);
  EXPECT_EQ(counter.value(), 10);
  counter.set_total(12);
  counter.add(1);
  EXPECT_EQ(series(registry.text()).at("outrider_total"), "13");
}

TEST(CounterFamily, GivesTheSameHandleForTheSameValues) {
  MetricsRegistry registry;
  auto family = registry.counters("outrider_total", "T.", {"topic"});
  family.with({"a"}).set_total(5);
  family.with({"a"}).set_total(6);
  EXPECT_EQ(family.with({"a"}).value(), 6);
}

// A bug or an attacker that makes ten thousand topics must not make ten thousand series.
TEST(CounterFamily, CountsOneLabelSetOverTheLimitUnderOther) {
  MetricsRegistry registry;
  auto family = registry.counters("outrider_total", "T.", {"slot", "topic"}, 2);
  family.with({"s", "a"}).add();
  family.with({"s", "b"}).add();
  EXPECT_THAT(registry.text(), Not(HasSubstr("other")));
  family.with({"s", "c"}).add(5);
  for (int i = 0; i < 10000; ++i) {
    family.with({"s", "topic" + std::to_string(i)}).add();
  }
  family.with({"s", "a"}).add();
  const auto values = series(registry.text());
  EXPECT_EQ(values.size(), 3U);
  EXPECT_EQ(values.at("outrider_total{slot=\"s\",topic=\"a\"}"), "2");
  EXPECT_EQ(values.at("outrider_total{slot=\"s\",topic=\"other\"}"), "10005");
}

TEST(CounterFamily, AddsUpTheTotalsBehindOther) {
  MetricsRegistry registry;
  auto family = registry.counters("outrider_total", "T.", {"topic"}, 1);
  family.with({"a"}).set_total(1);
  for (int scrape = 1; scrape <= 3; ++scrape) {
    family.with({"b"}).set_total(10.0 * scrape);
    family.with({"c"}).set_total(100.0 * scrape);
  }
  EXPECT_EQ(series(registry.text()).at("outrider_total{topic=\"other\"}"), "330");
}

TEST(CounterFamily, BoundsTheOtherSetsTooWhenLeadingLabelsVary) {
  MetricsRegistry registry;
  auto family = registry.counters("outrider_total", "T.", {"slot", "topic"}, 10);
  for (int i = 0; i < 1000; ++i) {
    family.with({"slot" + std::to_string(i), "t"}).add();
  }
  const auto values = series(registry.text());
  EXPECT_EQ(values.size(), 21U);
  EXPECT_EQ(values.at("outrider_total{slot=\"other\",topic=\"other\"}"), "980");
}

TEST(Gauge, DisappearsWhenItsValueIsNotKnownAnyMore) {
  MetricsRegistry registry;
  auto family = registry.gauges("outrider_lag_bytes", "Lag.", {"slot"});
  auto first = family.with({"a"});
  auto second = family.with({"b"});
  first.set(1);
  second.set(2);
  first.clear();
  first.clear();
  EXPECT_EQ(series(registry.text()).size(), 1U);
  first.set(3);
  EXPECT_EQ(series(registry.text()).at("outrider_lag_bytes{slot=\"a\"}"), "3");
  family.clear();
  EXPECT_EQ(registry.text(), "");
  second.set(4);
  EXPECT_EQ(series(registry.text()).at("outrider_lag_bytes{slot=\"b\"}"), "4");
}

TEST(Gauge, SharesOtherOverTheLimit) {
  MetricsRegistry registry;
  auto family = registry.gauges("outrider_lag_bytes", "Lag.", {"slot"}, 1);
  family.with({"a"}).set(1);
  auto over = family.with({"b"});
  over.set(2);
  family.with({"c"}).set(3);
  EXPECT_EQ(series(registry.text()).at("outrider_lag_bytes{slot=\"other\"}"), "3");
  over.clear();
  EXPECT_EQ(series(registry.text()).size(), 1U);
}

TEST(Histogram, KeepsBucketsForEachLabelSet) {
  MetricsRegistry registry;
  auto family = registry.histograms("outrider_seconds", "S.", {"slot"}, {1, 2}, 1);
  family.with({"a"}).observe(1.5);
  family.with({"a"}).observe(0.5);
  family.with({"b"}).observe(9);
  family.with({"c"}).observe(9);
  const auto values = series(registry.text());
  EXPECT_EQ(values.at("outrider_seconds_bucket{slot=\"a\",le=\"2\"}"), "2");
  EXPECT_EQ(values.at("outrider_seconds_count{slot=\"other\"}"), "2");
}

TEST(Histogram, IsRaisedToTotalsThatSomebodyElseKeeps) {
  MetricsRegistry registry;
  auto histogram = registry.histogram("outrider_seconds", "S.", {1, 2});
  histogram.set_totals(std::vector<std::uint64_t>{1, 2, 3}, 20);
  histogram.set_totals(std::vector<std::uint64_t>{1, 4, 3}, 23);
  const auto values = series(registry.text());
  EXPECT_EQ(values.at("outrider_seconds_bucket{le=\"1\"}"), "1");
  EXPECT_EQ(values.at("outrider_seconds_bucket{le=\"2\"}"), "5");
  EXPECT_EQ(values.at("outrider_seconds_count"), "8");
  EXPECT_EQ(values.at("outrider_seconds_sum"), "23");
}

}  // namespace
}  // namespace outrider
