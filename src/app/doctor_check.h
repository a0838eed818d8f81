// Check: one numbered question of `outrider doctor`, its verdict and what repairs it.
//
// A number keeps its meaning for good (docs/OPERATIONS.md has the table); a check that is given up
// leaves a gap. The tables below are in the order of the report. Judges are pure: facts in, outcome
// out; what could not be asked because something before it failed is not applicable and says so.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace outrider {

struct DoctorInput;

enum class Verdict : std::uint8_t { pass, warn, fail, not_applicable };
const char* to_string(Verdict verdict);

/// How a fix is to be carried out.
enum class FixKind : std::uint8_t {
  none,
  sql,     ///< Run in psql, connected to the pipeline's database as an administrator.
  shell,   ///< A command line.
  config,  ///< "option: value", to be set in the configuration.
};
const char* to_string(FixKind kind);

struct Fix {
  FixKind kind = FixKind::none;
  std::string text;  ///< Exactly what to run or to set; without the last semicolon.
  std::string note;  ///< What to know before it, or all there is to say.
};

struct Outcome {
  Verdict verdict = Verdict::pass;
  std::string found;
  Fix fix = {};
};

struct CheckRow {
  int number;
  const char* group;
  const char* name;
  Outcome (*judge)(const DoctorInput&);
};

std::span<const CheckRow> configuration_checks();
std::span<const CheckRow> server_checks();
std::span<const CheckRow> slot_checks();
std::span<const CheckRow> outbox_checks();
std::span<const CheckRow> kafka_checks();

/// All of them, in the order of the report.
std::vector<CheckRow> all_checks();

struct Check {
  int number = 0;
  std::string group;
  std::string name;
  Outcome outcome;
};

/// Every check, whatever the ones before it say.
std::vector<Check> judge_all(const DoctorInput& input);

// For the judges.
inline Outcome passed(std::string found) { return {Verdict::pass, std::move(found)}; }
inline Outcome skipped(std::string why) { return {Verdict::not_applicable, std::move(why)}; }

}  // namespace outrider
