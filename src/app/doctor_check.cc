#include "app/doctor_check.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "app/doctor_input.h"

namespace outrider {

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::warn:
      return "warn";
    case Verdict::fail:
      return "fail";
    case Verdict::not_applicable:
      return "not applicable";
  }
  return "fail";
}

const char* to_string(FixKind kind) {
  switch (kind) {
    case FixKind::none:
      return "none";
    case FixKind::sql:
      return "sql";
    case FixKind::shell:
      return "shell";
    case FixKind::config:
      return "config";
  }
  return "none";
}

std::vector<CheckRow> all_checks() {
  std::vector<CheckRow> rows;
  for (const std::span<const CheckRow> some :
       {configuration_checks(), server_checks(), slot_checks(), outbox_checks(), kafka_checks()}) {
    rows.insert(rows.end(), some.begin(), some.end());
  }
  return rows;
}

std::vector<Check> judge_all(const DoctorInput& input) {
  std::vector<Check> checks;
  for (const CheckRow& row : all_checks()) {
    checks.push_back({row.number, row.group, row.name, row.judge(input)});
  }
  return checks;
}

// The judges of preflight put the statement into a sentence; what follows it is one of these.
std::string sql_of_hint(const std::string& hint) {
  constexpr std::array<const char*, 4> kBegins = {"BEGIN; ", "ALTER ", "CREATE PUBLICATION ",
                                                  "SELECT pg_"};
  constexpr std::array<const char*, 8> kEnds = {
      "; mind that", "; rows written", "; a new slot", " and restart",
      " (rows that", " (an empty",     ", or ",        ", and so",
  };
  std::size_t begin = hint.npos;
  for (const char* word : kBegins) {
    begin = std::min(begin, hint.find(word));
  }
  if (begin == hint.npos) {
    return {};
  }
  std::size_t end = hint.size();
  for (const char* word : kEnds) {
    end = std::min(end, hint.find(word, begin));
  }
  return hint.substr(begin, end - begin);
}

Outcome failed(const Error& error) {
  Outcome outcome{Verdict::fail, error.message};
  const std::string sql = sql_of_hint(error.hint);
  if (!sql.empty()) {
    outcome.fix = {FixKind::sql, sql, error.hint == "run " + sql ? "" : error.hint};
  } else {
    outcome.fix.note = error.hint;
  }
  return outcome;
}

bool stores_positions(const PipelineConfig& pipeline) {
  return pipeline.delivery.witness || pipeline.delivery.guarantee == Delivery::exactly_once;
}

std::string size_text(std::int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"bytes", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 || value >= 100 ? "%.0f %s" : "%.1f %s", value,
                kUnits[unit]);
  return text.data();
}

}  // namespace outrider
