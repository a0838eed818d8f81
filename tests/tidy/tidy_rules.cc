#include "tidy/tidy_rules.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>

namespace outrider::tidy {
namespace {

using Words = std::set<std::string, std::less<>>;

struct Room {
  Words rooms;    ///< Rooms whose headers may be included.
  Words headers;  ///< Single headers of other rooms.
  bool all = false;
};

/// The room table of docs/ARCHITECTURE.md. base and config/config.h are open to every room.
const std::map<std::string, Room, std::less<>>& room_table() {
  static const std::map<std::string, Room, std::less<>> table = {
      {"base", {}},
      {"model", {}},
      {"decode", {{"model"}, {}}},
      {"route", {{"model"}, {}}},
      {"relay", {{"model", "route"}, {"decode/decoder.h"}}},
      {"postgres",
       {{"model", "loop"},
        {"relay/ports.h", "relay/position.h", "relay/dead_letter_place.h", "decode/decoder.h",
         "route/outbox_layout.h"}}},
      {"kafka", {{"model", "loop"}, {"relay/ports.h", "relay/position.h"}}},
      {"loop", {}},
      {"observe", {{"loop"}, {}}},
      {"control", {{"model", "loop"}, {"relay/ports.h"}}},
      {"config", {}},
      {"app", {{}, {}, true}},
      {"demo", {{}, {}, true}},
  };
  return table;
}

struct Library {
  std::string_view prefix;  ///< How its headers begin.
  Words rooms;              ///< Rooms that may use it; app and demo may use any in a .cc.
  bool cc_only;             ///< Heavy: never in a header.
};

const std::vector<Library>& libraries() {
  static const std::vector<Library> table = {
      {"tl/expected.hpp", {"base"}, false},
      {"libpq-fe.h", {"postgres"}, false},
      {"libpq/", {"postgres"}, true},
      {"librdkafka/", {"kafka"}, false},
      {"spdlog/", {"observe"}, true},
      {"prometheus/", {"observe"}, true},
      {"microhttpd.h", {"observe"}, true},
      {"yaml-cpp/", {"config"}, true},
      {"CLI/", {}, true},
      {"pcre2.h", {"route"}, true},
      {"fmt/",
       {"base", "decode", "route", "relay", "postgres", "kafka", "loop", "observe", "config",
        "control"},
       true},
  };
  return table;
}

/// Headers of the system that are no library of somebody else.
bool is_system_header(std::string_view name) {
  static constexpr std::array<std::string_view, 17> kNames = {
      "unistd.h", "fcntl.h",  "signal.h",   "poll.h",   "pwd.h",     "grp.h",
      "dirent.h", "getopt.h", "execinfo.h", "netdb.h",  "ifaddrs.h", "termios.h",
      "sched.h",  "errno.h",  "time.h",     "endian.h", "spawn.h"};
  static constexpr std::array<std::string_view, 4> kFolders = {"sys/", "netinet/", "arpa/",
                                                               "linux/"};
  if (name.find('.') == std::string_view::npos) return true;  // The standard library.
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() ||
         std::any_of(kFolders.begin(), kFolders.end(),
                     [&](std::string_view folder) { return name.starts_with(folder); });
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    lines.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string at(const SourceFile& file, std::size_t line, const std::string& what) {
  return file.path + ":" + std::to_string(line) + ": " + what;
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Position of word in line, not as a part of a longer word.
bool has_word(std::string_view line, std::string_view word) {
  for (std::size_t i = line.find(word); i != std::string_view::npos; i = line.find(word, i + 1)) {
    if (i == 0 || (!is_word(line[i - 1]) && line[i - 1] != '.')) return true;
  }
  return false;
}

struct Include {
  std::size_t line;
  std::string name;
  bool angle;
};

std::vector<Include> includes_of(const SourceFile& file) {
  std::vector<Include> found;
  std::size_t number = 0;
  for (std::string_view line : lines_of(file.text)) {
    ++number;
    if (!line.starts_with("#include ")) continue;
    const std::size_t open = line.find_first_of("<\"");
    if (open == std::string_view::npos) continue;
    const std::size_t close = line.find_first_of(">\"", open + 1);
    found.push_back(
        {number, std::string(line.substr(open + 1, close - open - 1)), line[open] == '<'});
  }
  return found;
}

std::optional<std::string> project_include_fault(const std::string& room, std::string name) {
  constexpr std::string_view kPublic = "outrider/";
  const bool is_public = name.starts_with(kPublic);
  if (is_public) name.erase(0, kPublic.size());
  const std::string target = name.substr(0, name.find('/'));
  const Room& own = room_table().at(room);
  if (room_table().count(target) == 0) return "\"" + name + "\" is in no room";
  if (own.all || target == room || target == "base") return std::nullopt;
  if (is_public && name == "config/config.h") return std::nullopt;
  if (!is_public) return "\"" + name + "\" is private to room " + target;
  if (own.rooms.count(target) != 0 || own.headers.count(name) != 0) return std::nullopt;
  return "room " + room + " may not include \"" + name + "\"";
}

std::optional<std::string> library_include_fault(const SourceFile& file, const std::string& room,
                                                 const std::string& name) {
  if (is_system_header(name)) return std::nullopt;
  for (const Library& library : libraries()) {
    if (!name.starts_with(library.prefix)) continue;
    if (library.cc_only && file.is_header()) return "<" + name + "> belongs in a .cc";
    if (room_table().at(room).all && !file.is_header()) return std::nullopt;
    if (library.rooms.count(room) == 0) return "room " + room + " may not use <" + name + ">";
    return std::nullopt;
  }
  return "<" + name + "> is in no row of the table of libraries";
}

/// End of the literal or comment that begins at i, or i if none does.
std::size_t skip_at(std::string_view text, std::size_t i) {
  const auto end_of = [&](std::string_view mark, std::size_t from) {
    const std::size_t end = text.find(mark, from);
    return end == std::string_view::npos ? text.size() : end + mark.size();
  };
  if (text.substr(i, 2) == "//") return std::min(text.find('\n', i), text.size());
  if (text.substr(i, 2) == "/*") return end_of("*/", i + 2);
  if (text.substr(i, 2) == "R\"" && (i == 0 || !is_word(text[i - 1]))) {
    const std::size_t open = text.find('(', i);
    if (open == std::string_view::npos) return text.size();
    std::string mark(1, ')');
    mark.append(text.substr(i + 2, open - i - 2)).append("\"");
    return end_of(mark, open);
  }
  // A quote after a digit separates digits: 10'000.
  const bool digits = text[i] == '\'' && i > 0 && is_word(text[i - 1]);
  if ((text[i] != '"' && text[i] != '\'') || digits) return i;
  std::size_t end = i + 1;
  while (end < text.size() && text[end] != text[i] && text[end] != '\n') {
    end += text[end] == '\\' ? 2 : 1;
  }
  return std::min(end + 1, text.size());
}

/// Whether the text before an opening brace is the head of a function.
bool is_function_head(std::string_view head) {
  if (head.find('(') == std::string_view::npos) return false;
  for (std::string_view word : {"namespace ", "class ", "struct ", "enum ", "union "}) {
    if (has_word(head.substr(0, head.find('(')), word)) return false;
  }
  return true;
}

Findings check_function_lines(const SourceFile& file) {
  Findings findings;
  const std::string text = without_comments_and_literals(file.text);
  std::vector<bool> blocks;  // For each open brace: is it a function's?
  std::size_t line = 1;
  std::size_t began = 0;
  std::size_t head = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') {
      ++line;
    } else if (c == '{') {
      const bool function =
          !inside && is_function_head(std::string_view(text).substr(head, i - head));
      blocks.push_back(function);
      if (function) {
        inside = true;
        began = line;
      }
      head = i + 1;
    } else if (c == '}' && !blocks.empty()) {
      if (blocks.back()) {
        inside = false;
        const std::size_t lines = line - began + 1;
        if (lines > kFunctionLinesMax) {
          findings.push_back(at(file, began, std::to_string(lines) + " lines in one function"));
        }
      }
      blocks.pop_back();
      head = i + 1;
    } else if (c == ';' && !inside) {
      head = i + 1;
    }
  }
  return findings;
}

/// Characters, not bytes: continuation bytes of UTF-8 do not count.
std::size_t columns_of(std::string_view line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

}  // namespace

std::string without_comments_and_literals(std::string_view text) {
  std::string clean(text);
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = skip_at(text, i);
    for (std::size_t blank = i; blank < end; ++blank) {
      if (clean[blank] != '\n') clean[blank] = ' ';
    }
    i = std::max(end, i + 1);
  }
  return clean;
}

std::string room_of(std::string_view path) {
  for (std::string_view root : {std::string_view("src/"), std::string_view("include/outrider/")}) {
    if (path.starts_with(root)) {
      path.remove_prefix(root.size());
      return std::string(path.substr(0, path.find('/')));
    }
  }
  return {};
}

Findings check_includes(const SourceFile& file) {
  Findings findings;
  const std::string room = room_of(file.path);
  if (room.empty() || !file.is_cpp()) return findings;
  if (room_table().count(room) == 0) return {at(file, 1, "\"" + room + "\" is no room")};
  for (const Include& include : includes_of(file)) {
    const auto fault = include.angle ? library_include_fault(file, room, include.name)
                                     : project_include_fault(room, include.name);
    if (fault) findings.push_back(at(file, include.line, *fault));
  }
  return findings;
}

Findings check_threads(const SourceFile& file) {
  static const Words banned = {"thread", "mutex", "shared_mutex", "atomic",    "condition_variable",
                               "future", "latch", "barrier",      "semaphore", "stop_token"};
  Findings findings;
  const std::string room = room_of(file.path);
  if (room.empty() || room == "loop" || !file.is_cpp()) return findings;
  for (const Include& include : includes_of(file)) {
    if (include.angle && banned.count(include.name) != 0) {
      findings.push_back(at(file, include.line, "<" + include.name + "> outside the loop room"));
    }
  }
  return findings;
}

Findings check_sizes(const SourceFile& file) {
  if (!file.is_cpp()) return {};
  Findings findings = check_function_lines(file);
  std::size_t number = 0;
  for (std::string_view line : lines_of(file.text)) {
    ++number;
    if (columns_of(line) > kColumnsMax)
      findings.push_back(at(file, number, std::to_string(columns_of(line)) + " columns"));
  }
  if (number > kFileLinesMax) {
    findings.push_back(at(file, number, "more than " + std::to_string(kFileLinesMax) + " lines"));
  }
  return findings;
}

Findings check_marks(const SourceFile& file) {
  // In two pieces, so that this file passes its own rule.
  static const std::array<std::string, 3> marks = {
      "TO"
      "DO",
      "FIX"
      "ME",
      "XX"
      "X"};
  Findings findings;
  std::size_t number = 0;
  for (std::string_view line : lines_of(file.text)) {
    ++number;
    for (const std::string& mark : marks) {
      const std::size_t found = line.find(mark);
      if (found == std::string_view::npos || !has_word(line, mark)) continue;
      const std::string_view rest = line.substr(found + mark.size());
      if (!rest.empty() && is_word(rest[0])) continue;
      if (rest.starts_with("(#") && rest.size() > 2 && rest[2] >= '0' && rest[2] <= '9') continue;
      findings.push_back(at(file, number, mark + " without the number of an issue"));
    }
  }
  return findings;
}

Findings check_header_form(const SourceFile& file) {
  Findings findings;
  if (!file.is_header()) return findings;
  if (file.text.find("#pragma once") == std::string::npos) {
    findings.push_back(at(file, 1, "no #pragma once"));
  }
  if (!file.text.starts_with("//")) {
    findings.push_back(at(file, 1, "does not begin with a comment that says what it is"));
  }
  return findings;
}

Findings check_banned_calls(const SourceFile& file) {
  static constexpr std::array<std::string_view, 10> kBanned = {
      "sprintf(", "vsprintf(", "strcpy(", "strcat(",    "gets(",
      "system(",  "rand(",     "atoi(",   "std::regex", "rd_kafka_flush("};
  Findings findings;
  if (!file.is_cpp()) return findings;
  const std::string text = without_comments_and_literals(file.text);
  std::size_t number = 0;
  for (std::string_view line : lines_of(text)) {
    ++number;
    for (std::string_view call : kBanned) {
      if (has_word(line, call)) {
        findings.push_back(at(file, number, "banned: " + std::string(call)));
      }
    }
  }
  return findings;
}

Findings check_machine_paths(const SourceFile& file) {
  static const std::array<std::string, 5> paths = {
      "/wo"
      "rk/main",
      "/wo"
      "rk/shared",
      "/ro"
      "ot/",
      "/ho"
      "me/",
      "../sha"
      "red"};
  Findings findings;
  std::size_t number = 0;
  for (std::string_view line : lines_of(file.text)) {
    ++number;
    for (const std::string& path : paths) {
      if (line.find(path) != std::string_view::npos) {
        findings.push_back(at(file, number, "a path of one machine: " + path));
      }
    }
  }
  return findings;
}

Findings check_dead_tests(const std::vector<SourceFile>& files) {
  std::map<std::string, std::string, std::less<>> lists;
  for (const SourceFile& file : files) {
    if (file.path.ends_with("/CMakeLists.txt")) lists[file.path] = file.text;
  }
  Findings findings;
  for (const SourceFile& file : files) {
    if (!file.in("tests/") || !file.path.ends_with("_test.cc")) continue;
    const std::size_t slash = file.path.rfind('/');
    const std::string folder = file.path.substr(0, slash);
    const std::string name = file.path.substr(slash + 1);
    if (folder.starts_with("tests/unit/")) {
      // tests/CMakeLists.txt globs them by room, for the rooms it names that exist.
      const std::string room = folder.substr(std::string("tests/unit/").size());
      if (lists.count("src/" + room + "/CMakeLists.txt") == 0 ||
          !has_word(lists["tests/CMakeLists.txt"], room)) {
        findings.push_back(at(file, 1, "no CMake list builds it: \"" + room + "\" is no target"));
      }
      continue;
    }
    const auto list = lists.find(folder + "/CMakeLists.txt");
    if (list == lists.end() || (list->second.find(name) == std::string::npos &&
                                list->second.find("*_test.cc") == std::string::npos)) {
      findings.push_back(at(file, 1, "no CMake list builds it"));
    }
  }
  return findings;
}

}  // namespace outrider::tidy
