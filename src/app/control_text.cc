#include "app/control_text.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "app/exit_code.h"
#include "outrider/base/json_writer.h"

namespace outrider {
namespace {

struct Column {
  const char* head;
  const char* member;
  std::size_t width;
};

constexpr std::array<Column, 8> kColumns = {{
    {"NUMBER", "number", 8},
    {"REASON", "reason", 14},
    {"TRIES", "attempts", 6},
    {"COMMITTED", "committed_at", 25},
    {"EVENT ID", "event_id", 37},
    {"TYPE", "event_type", 20},
    {"AGGREGATE", "aggregate_id", 20},
    {"MESSAGE", "message", 0},
}};

/// Columns of a terminal, roughly: one a character.
std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string padded(std::string text, std::size_t width) {
  const std::size_t columns = columns_of(text);
  if (width > 0) {
    text.append(columns + 2 > width ? 2 : width - columns, ' ');
  }
  return text;
}

std::string line_of(const char* name, const std::string& value) {
  return "  " + padded(name, 20) + value + "\n";
}

/// As line_of, left out when there is nothing to say.
std::string line_if(const char* name, const JsonTree& value) {
  return value.text.empty() ? std::string() : line_of(name, shown_text(value.text));
}

/// {"text": …} and {"hex": …} as people read them; a text keeps its line breaks.
std::string bytes_text(const JsonTree& bytes) {
  if (bytes.has("hex")) {
    return "hex " + bytes["hex"].text;
  }
  if (!bytes.has("text")) {
    return "null";
  }
  std::string out;
  std::string part;
  for (char c : bytes["text"].text) {
    if (c == '\n' || c == '\t') {
      out += shown_text(std::exchange(part, {})) + c;
    } else {
      part += c;
    }
  }
  return out + shown_text(part);
}

std::string counted(const JsonTree& number, const char* one, const char* many) {
  return number.text + " " + (number.text == "1" ? one : many);
}

std::string letters_counted(const JsonTree& number) {
  return counted(number, "dead letter", "dead letters");
}

std::string pipeline_text(const JsonTree& pipeline) {
  std::string out = "pipeline " + shown_text(pipeline["name"].text) + ": " +
                    (pipeline["ready"].is_true() ? "ready, " : "NOT READY, ") +
                    shown_text(pipeline["reason"].text) + "\n";
  const JsonTree& counters = pipeline["counters"];
  const JsonTree& letters = pipeline["dead_letters"];
  if (pipeline["paused_by_operator"].is_true()) {
    out += line_of("paused", "by an operator, until: outrider resume");
  }
  out += line_of("role", pipeline["role"].text + ", slot " + shown_text(pipeline["slot"].text) +
                             (pipeline["plugin"].text.empty() ? std::string()
                                                              : ", " + pipeline["plugin"].text) +
                             ", " + pipeline["guarantee"].text);
  out += line_of("positions", "received " + pipeline["received_lsn"].text + ", flushed " +
                                  pipeline["flushed_lsn"].text + ", confirmed " +
                                  pipeline["confirmed_lsn"].text);
  out += line_of("in flight", counted(pipeline["in_flight_records"], "record", "records") + ", " +
                                  counted(pipeline["in_flight_bytes"], "byte", "bytes") +
                                  ", oldest " + pipeline["oldest_unconfirmed_age_s"].text + " s");
  out += line_of("published", counters["events_published"].text + " of " +
                                  counters["events_produced"].text + " produced, " +
                                  counters["events_refused"].text + " refused");
  out += line_of("restarts", "database link lost " + counters["source_losses"].text +
                                 " times, producer replaced " + counters["producer_restarts"].text +
                                 " times");
  out += line_of("dead letters",
                 letters["place"].text + ", " + letters["stored"].text + " since the start, " +
                     counted(letters["parked_keys"], "key parked", "keys parked") +
                     (letters["retry_running"].is_true() ? ", a retry is running" : ""));
  out += line_if("dead letters wait", letters["trouble"]);
  out += line_if("database", pipeline["database_trouble"]);
  out += line_if("kafka", pipeline["kafka_trouble"]);
  out += line_if("rows wait", pipeline["relay_trouble"]);
  out += line_if("stopped by", pipeline["stop_error"]["message"]);
  return out + line_if("hint", pipeline["stop_error"]["hint"]);
}

ErrorKind kind_of(const std::string& word) {
  for (ErrorKind kind : {ErrorKind::transient, ErrorKind::configuration, ErrorKind::poison}) {
    if (word == to_string(kind)) {
      return kind;
    }
  }
  return ErrorKind::fatal;
}

}  // namespace

std::string shown_text(const std::string& text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; };
  // U+0080 to U+009F begin with this byte; json_quoted tells them from the rest.
  const bool plain = is_utf8(text) && std::none_of(text.begin(), text.end(), is_control) &&
                     text.find('\xC2') == std::string::npos;
  if (plain) {
    return text;
  }
  const std::string quoted = json_quoted(text);
  return quoted.substr(1, quoted.size() - 2);
}

std::string status_text(const JsonTree& result) {
  std::string out = "outrider " + shown_text(result["version"].text) + ", process " +
                    result["pid"].text + ", up " + result["uptime_s"].text + " s\n";
  for (const JsonTree& pipeline : result["pipelines"].members) {
    out += pipeline_text(pipeline);
  }
  return out;
}

std::string letter_text(const JsonTree& letter) {
  static constexpr std::array<std::pair<const char*, const char*>, 14> kLines = {{
      {"number", "number"},
      {"reason", "reason"},
      {"message", "message"},
      {"code", "code"},
      {"attempts", "attempts"},
      {"failed at", "failed_at"},
      {"retry after", "retry_after"},
      {"committed at", "committed_at"},
      {"commit LSN", "commit_lsn"},
      {"row in transaction", "row_index"},
      {"table", "table"},
      {"event id", "event_id"},
      {"event type", "event_type"},
      {"aggregate id", "aggregate_id"},
  }};
  std::string out;
  for (const auto& [name, member] : kLines) {
    out += line_if(name, letter[member]);
  }
  out += line_if("parked key", letter["parked_key"]) + line_if("topic", letter["topic"]);
  if (!letter["mapped"].is_true()) {
    return out + "columns as they came:\n" + bytes_text(letter["raw_row"]) + "\n";
  }
  out += line_if("partition", letter["partition"]) + line_if("timestamp", letter["timestamp_ms"]);
  out += line_of("key", bytes_text(letter["key"]));
  for (const JsonTree& header : letter["headers"].members) {
    if (header.members.size() == 2) {
      out += line_of("header",
                     shown_text(header.members[0].text) + ": " + bytes_text(header.members[1]));
    }
  }
  return out + "payload:\n" + bytes_text(letter["value"]) + "\n";
}

ControlText::ControlText(std::string command, bool json, bool dry_run)
    : command_(std::move(command)),
      json_(json),
      dry_run_(dry_run),
      terminal_(isatty(STDERR_FILENO) == 1) {}

Result<std::optional<int>> ControlText::show(const std::string& line) {
  const std::optional<JsonTree> tree = JsonTree::parse(line);
  if (!tree || tree->members.size() != 1) {
    return fail(ErrorKind::fatal, "the relay's answer makes no sense",
                "use the outrider of the same version as the running relay");
  }
  const JsonTree& content = tree->members.front();
  const std::string& kind = content.name;
  if (kind == "progress") {
    if (!json_) {
      progress(content);
    }
    return std::optional<int>();
  }
  end_progress();
  if (kind == "error") {
    return fail(kind_of(content["kind"].text), shown_text(content["message"].text),
                shown_text(content["hint"].text), content["code"].text);
  }
  // The relay writes exactly {"row":…} and {"result":…}.
  const std::size_t colon = line.find(':');
  const std::string inner = line.substr(colon + 1, line.size() - colon - 2);
  if (kind == "row") {
    json_ ? static_cast<void>(std::puts(inner.c_str())) : row(content);
    return std::optional<int>();
  }
  const bool has_rows = command_ == "dead-letters.list" || command_ == "dead-letters.show";
  if (json_ && !has_rows) {
    std::puts(inner.c_str());
  }
  const int code = result(content);
  std::fflush(stdout);
  return std::optional<int>(code);
}

void ControlText::progress(const JsonTree& tree) {
  std::string text;
  if (tree.has("sent")) {
    text = "sent " + tree["sent"].text + " of " +
           (tree["matched_exactly"].is_true() ? "about " : "more than ") + tree["matched"].text;
  } else if (tree.has("discarded")) {
    text = "discarded " + tree["discarded"].text;
  } else {
    text = "read " + tree["matched"].text;
  }
  if (tree.has("waiting")) {
    text += ", waiting: " + shown_text(tree["waiting"].text);
  }
  // A longer line before this one is wiped to its end.
  std::fprintf(stderr, terminal_ ? "\r%s\x1b[K" : "%s\n", text.c_str());
  std::fflush(stderr);
  progress_open_ = terminal_;
}

void ControlText::end_progress() {
  if (std::exchange(progress_open_, false)) {
    std::fputc('\n', stderr);
  }
}

void ControlText::row(const JsonTree& tree) {
  if (command_ == "dead-letters.show") {
    std::fputs(letter_text(tree).c_str(), stdout);
    return;
  }
  std::string out;
  if (!std::exchange(head_shown_, true)) {
    for (const Column& column : kColumns) {
      out += padded(column.head, column.width);
    }
    out += "\n";
  }
  for (const Column& column : kColumns) {
    out += padded(shown_text(tree[column.member].text), column.width);
  }
  out.erase(out.find_last_not_of(' ') + 1);
  std::puts(out.c_str());
}

int ControlText::result(const JsonTree& tree) {
  if (command_.starts_with("dead-letters.")) {
    return letters_result(tree);
  }
  if (json_) {
    return kExitOk;
  }
  if (command_ == "status") {
    std::fputs(status_text(tree).c_str(), stdout);
    return kExitOk;
  }
  for (const JsonTree& pipeline : tree["pipelines"].members) {
    std::printf("pipeline %s %s\n", shown_text(pipeline["name"].text).c_str(),
                pipeline["paused_by_operator"].is_true() ? "is paused" : "goes on");
  }
  return kExitOk;
}

int ControlText::letters_result(const JsonTree& tree) const {
  const bool none = tree["matched"].text == "0";
  const int code = tree.has("refused") && tree["refused"].text != "0" ? kExitPoison : kExitOk;
  if (command_ == "dead-letters.show") {
    if (none) {
      std::fputs("outrider: there is no dead letter of this number\n", stderr);
    }
    return none ? kExitUsage : kExitOk;
  }
  std::FILE* out = json_ ? nullptr : stdout;
  if (out == nullptr) {
    return code;
  }
  if (none && !tree.has("sent")) {
    std::fputs("nothing matches\n", out);
  } else if (dry_run_ || command_ == "dead-letters.list") {
    std::fprintf(out, "%s%s\n", letters_counted(tree["matched"]).c_str(),
                 dry_run_ ? ", nothing was changed (--dry-run)" : "");
  } else if (tree.has("discarded")) {
    std::fprintf(out, "discarded %s\n", letters_counted(tree["discarded"]).c_str());
  } else {
    std::fprintf(out, "sent %s: %s delivered, %s refused, %s left behind a refused one\n",
                 letters_counted(tree["sent"]).c_str(), tree["delivered"].text.c_str(),
                 tree["refused"].text.c_str(), tree["skipped"].text.c_str());
  }
  return code;
}

}  // namespace outrider
