#include "app/doctor_report.h"

#include <algorithm>
#include <cstdint>

#include "outrider/base/json_writer.h"

namespace outrider {
namespace {

constexpr std::int64_t kReportVersion = 1;
constexpr std::size_t kNameWidth = 26;
constexpr std::size_t kWidth = 100;
constexpr std::size_t kIndent = 12;

const char* label(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::warn:
      return "WARN";
    case Verdict::fail:
      return "FAIL";
    case Verdict::not_applicable:
      return "n/a ";
  }
  return "FAIL";
}

const char* place(FixKind kind) {
  switch (kind) {
    case FixKind::sql:
      return "in psql: ";
    case FixKind::shell:
      return "in a shell: ";
    case FixKind::config:
      return "in the configuration: ";
    case FixKind::none:
      break;
  }
  return "";
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

/// Words on lines of kWidth, all but the first indented.
std::string wrapped(const std::string& text, std::size_t column) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (column + (end - at) > kWidth && column > kIndent) {
      if (!out.empty() && out.back() == ' ') out.pop_back();
      out += "\n" + std::string(kIndent, ' ');
      column = kIndent;
    }
    out += text.substr(at, end - at);
    column += end - at;
    if (end < text.size()) {
      out += ' ';
      ++column;
    }
    at = end + 1;
  }
  return out;
}

/// A command is never broken up, so that it can be copied as it stands.
std::string fix_text(const Fix& fix) {
  const std::string indent(kIndent, ' ');
  std::string text;
  if (!fix.text.empty()) {
    text += indent + place(fix.kind) + fix.text + (fix.kind == FixKind::sql ? ";\n" : "\n");
  }
  if (!fix.note.empty()) {
    text += indent + wrapped("(" + fix.note + ")", kIndent) + "\n";
  }
  return text;
}

std::string check_text(const Check& check) {
  const std::string number = std::to_string(check.number);
  const std::string head = std::string("  ") + label(check.outcome.verdict) + "  " +
                           (number.size() < 2 ? " " : "") + number + "  ";
  std::string line = head + padded(check.name, kNameWidth);
  line += wrapped(check.outcome.found, line.size()) + "\n";
  return line + fix_text(check.outcome.fix);
}

}  // namespace

DoctorCounts count(const std::vector<Check>& checks) {
  DoctorCounts counts;
  for (const Check& check : checks) {
    switch (check.outcome.verdict) {
      case Verdict::pass:
        ++counts.pass;
        break;
      case Verdict::warn:
        ++counts.warn;
        break;
      case Verdict::fail:
        ++counts.fail;
        break;
      case Verdict::not_applicable:
        ++counts.not_applicable;
        break;
    }
  }
  return counts;
}

std::string doctor_text(const std::string& pipeline, const std::vector<Check>& checks) {
  std::string text = "pipeline \"" + pipeline + "\"\n";
  std::string group;
  for (const Check& check : checks) {
    if (check.group != group) {
      group = check.group;
      text += "\n" + group + "\n";
    }
    text += check_text(check);
  }
  const DoctorCounts counts = count(checks);
  return text + "\n" + std::to_string(counts.pass) + " pass, " + std::to_string(counts.warn) +
         " warn, " + std::to_string(counts.fail) + " fail, " +
         std::to_string(counts.not_applicable) + " not applicable\n";
}

std::string doctor_json(const std::string& pipeline, const std::vector<Check>& checks) {
  JsonWriter json;
  json.open_object().name("version").number(kReportVersion).name("pipeline").text(pipeline);
  json.name("checks").open_array();
  for (const Check& check : checks) {
    const Fix& fix = check.outcome.fix;
    json.open_object().name("number").number(static_cast<std::int64_t>(check.number));
    json.name("group").text(check.group).name("name").text(check.name);
    json.name("verdict").text(to_string(check.outcome.verdict));
    json.name("found").text(check.outcome.found);
    json.name("fix").open_object().name("kind").text(to_string(fix.kind));
    json.name("text").text(fix.text).name("note").text(fix.note).close_object();
    json.close_object();
  }
  json.close_array();
  const DoctorCounts counts = count(checks);
  json.name("pass").number(std::uint64_t{counts.pass});
  json.name("warn").number(std::uint64_t{counts.warn});
  json.name("fail").number(std::uint64_t{counts.fail});
  json.name("not_applicable").number(std::uint64_t{counts.not_applicable});
  return json.close_object().json() + "\n";
}

std::string doctor_list() {
  std::string text;
  for (const CheckRow& row : all_checks()) {
    const std::string number = std::to_string(row.number);
    text += (number.size() < 2 ? " " : "") + number + "  " + padded(row.group, 20) + "  " +
            row.name + "\n";
  }
  return text;
}

}  // namespace outrider
