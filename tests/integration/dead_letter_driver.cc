// The real DeadLetterTable on the end of a pipe: commands on standard input, what happens on
// standard output, one line each. Values are hexadecimal; test_dead_letter_table.py has the words.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "outrider/base/clock.h"
#include "outrider/loop/event_loop.h"
#include "postgres/dead_letter_table.h"

namespace outrider {
namespace {

using Fields = std::map<std::string, std::string>;

std::string to_hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string from_hex(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    out += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return out;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> items;
  std::stringstream in(text);
  for (std::string item; std::getline(in, item, at);) {
    items.push_back(item);
  }
  return items;
}

/// A row and the bytes that its views point to.
struct OwnedLetter {
  std::map<std::string, std::string> bytes;
  KafkaRecord record;
  DeadLetter letter;
};

class Driver {
 public:
  Driver(EventLoop& loop, DeadLetterTableOptions options)
      : loop_(loop), table_(loop, std::move(options), [](const SourceNote& note) {
          std::string text = note.message;
          for (const auto& [name, value] : note.fields) {
            text += " " + name + "=" + value;
          }
          say("note", {{"text", text}});
        }) {}

  int run() {
    auto input = loop_.watch(STDIN_FILENO, true, false);
    while (!ended_) {
      loop_.wait(table_.deadline());
      if (loop_.take_signals().stop > 0) {
        return 0;
      }
      if (input->readable()) {
        input->clear();
        read_commands();
      }
      // Twice, as an answer may let the next statement go.
      if (Result<> driven = table_.drive(clock_.now()); !driven) {
        say("error", {{"kind", to_string(driven.error().kind)},
                      {"code", driven.error().code},
                      {"text", driven.error().message},
                      {"hint", driven.error().hint}});
        return 1;
      }
      report();
    }
    return 0;
  }

 private:
  static void say(const std::string& word, const Fields& fields) {
    std::printf("%s", word.c_str());
    for (const auto& [name, value] : fields) {
      std::printf(" %s=%s", name.c_str(), to_hex(value).c_str());
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  void read_commands() {
    char buffer[65536];
    const ssize_t got = read(STDIN_FILENO, buffer, sizeof buffer);
    if (got == 0) {
      ended_ = true;
    }
    input_.append(buffer, got > 0 ? static_cast<std::size_t>(got) : 0);
    for (std::size_t end = input_.find('\n'); end != std::string::npos; end = input_.find('\n')) {
      const std::string line = input_.substr(0, end);
      input_.erase(0, end + 1);
      command(line);
    }
  }

  void command(const std::string& line) {
    std::vector<std::string> words = split(line, ' ');
    Fields fields;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::size_t at = words[i].find('=');
      fields[words[i].substr(0, at)] = from_hex(words[i].substr(at + 1));
    }
    const Now now = clock_.now();
    if (words[0] == "open") {
      table_.open({fields["system_id"], "db", fields["slot"], 1}, now);
    } else if (words[0] == "store") {
      store(fields, now);
    } else if (words[0] == "fetch") {
      table_.fetch(filter_of(fields), std::stoll(fields["after"]),
                   static_cast<std::uint32_t>(std::stoul(fields["count"])), now);
    } else if (words[0] == "resolve") {
      table_.resolve({std::stoll(fields["number"]), fields["delivered"] == "1", fields["code"],
                      fields["message"], std::chrono::milliseconds(std::stoll(fields["after"]))},
                     now);
    } else if (words[0] == "discard") {
      table_.discard(std::stoll(fields["number"]), now);
    } else {
      say("status", {{"ready", table_.ready() ? "1" : "0"},
                     {"healthy", table_.healthy() ? "1" : "0"},
                     {"unresolved", std::to_string(table_.unresolved())},
                     {"letters", std::to_string(table_.waiting_letters())},
                     {"reconnects", std::to_string(table_.reconnects())},
                     {"trouble", table_.trouble()}});
    }
  }

  static std::optional<std::string_view> view_of(const OwnedLetter& row, const std::string& name) {
    auto found = row.bytes.find(name);
    return found == row.bytes.end() ? std::nullopt : std::optional<std::string_view>(found->second);
  }

  static std::string_view text_of(const OwnedLetter& row, const std::string& name) {
    return view_of(row, name).value_or(std::string_view());
  }

  // Headers are "h0n", "h0v" (absent: null), "h1n", …
  static void fill(OwnedLetter& row, const Fields& fields) {
    row.bytes = fields;
    if (auto size = fields.find("payload_size"); size != fields.end()) {
      row.bytes["payload"] = std::string(std::stoul(size->second), '\xfe');
    }
    const auto number = [&](const char* name) -> std::uint64_t {
      auto found = fields.find(name);
      return found == fields.end() ? 0 : std::stoull(found->second);
    };
    DeadLetter& letter = row.letter;
    letter.row = {Lsn::from_wire(number("lsn")), number("index")};
    letter.xid = static_cast<std::uint32_t>(number("xid"));
    letter.commit_time =
        WallTime(std::chrono::microseconds(static_cast<std::int64_t>(number("commit_time"))));
    letter.event = {text_of(row, "table"), text_of(row, "event_id"), text_of(row, "event_type"),
                    text_of(row, "aggregate_id")};
    letter.raw_row = text_of(row, "raw_row");
    letter.reason = parse_dead_letter_reason(text_of(row, "reason")).value();
    letter.code = text_of(row, "code");
    letter.message = text_of(row, "message");
    letter.parked_key = view_of(row, "parked_key");
    letter.attempts = static_cast<std::uint32_t>(number("attempts"));
    if (fields.count("topic") == 0) {
      return;
    }
    row.record.topic = text_of(row, "topic");
    row.record.key = view_of(row, "key");
    row.record.value = view_of(row, "payload");
    row.record.timestamp_ms = static_cast<std::int64_t>(number("timestamp_ms"));
    if (fields.count("partition") > 0) {
      row.record.partition = static_cast<std::int32_t>(number("partition"));
    }
    for (int i = 0; fields.count("h" + std::to_string(i) + "n") > 0; ++i) {
      const std::string head = "h" + std::to_string(i);
      row.record.headers.push_back({text_of(row, head + "n"), view_of(row, head + "v")});
    }
    letter.record = &row.record;
  }

  void store(const Fields& fields, Now now) {
    OwnedLetter row;
    fill(row, fields);
    const std::uint64_t repeat = fields.count("repeat") > 0 ? std::stoull(fields.at("repeat")) : 1;
    const std::uint64_t first = std::stoull(fields.at("sequence"));
    for (std::uint64_t i = 0; i < repeat; ++i) {
      Result<ProduceStatus> taken = table_.store(row.letter, first + i, now);
      if (!taken || *taken == ProduceStatus::busy) {
        say(taken ? "busy" : "too_large", {{"sequence", std::to_string(first + i)}});
        return;
      }
      ++row.letter.row.index;
    }
  }

  static DeadLetterFilter filter_of(Fields& fields) {
    DeadLetterFilter filter;
    filter.reason = parse_dead_letter_reason(fields["reason"]);
    filter.event_type = fields["event_type"];
    filter.aggregate_id = fields["aggregate_id"];
    filter.parked_key = fields["parked_key"];
    for (const std::string& number : split(fields["numbers"], ',')) {
      filter.numbers.push_back(std::stoll(number));
    }
    filter.event_ids = split(fields["event_ids"], ',');
    if (!fields["older_than"].empty()) {
      filter.older_than = std::chrono::seconds(std::stoll(fields["older_than"]));
    }
    filter.due_only = fields["due_only"] == "1";
    return filter;
  }

  static void say_letter(const StoredLetter& letter) {
    Fields fields = {
        {"number", std::to_string(letter.number)},
        {"lsn", std::to_string(letter.row.commit_lsn.to_wire())},
        {"index", std::to_string(letter.row.index)},
        {"commit_time", std::to_string(letter.commit_time.time_since_epoch().count())},
        {"table", letter.table},
        {"event_id", letter.event_id},
        {"event_type", letter.event_type},
        {"aggregate_id", letter.aggregate_id},
        {"mapped", letter.mapped ? "1" : "0"},
        {"topic", letter.topic},
        {"timestamp_ms", std::to_string(letter.timestamp_ms)},
        {"raw_row", letter.raw_row},
        {"reason", to_string(letter.reason)},
        {"attempts", std::to_string(letter.attempts)},
        {"code", letter.code},
        {"message", letter.message},
        {"waits", letter.failed_at && letter.retry_after
                      ? std::to_string((*letter.retry_after - *letter.failed_at).count())
                      : ""},
    };
    const auto add = [&](const std::string& name, const std::optional<std::string>& value) {
      if (value) {
        fields[name] = *value;
      }
    };
    if (letter.partition) {
      fields["partition"] = std::to_string(*letter.partition);
    }
    add("key", letter.key);
    if (letter.value && letter.value->size() > 1'000'000) {
      fields["payload_size"] = std::to_string(letter.value->size());
      fields["payload_is_whole"] =
          letter.value->find_first_not_of('\xfe') == std::string::npos ? "1" : "0";
    } else {
      add("payload", letter.value);
    }
    add("parked_key", letter.parked_key);
    for (std::size_t i = 0; i < letter.headers.size(); ++i) {
      fields["h" + std::to_string(i) + "n"] = letter.headers[i].first;
      add("h" + std::to_string(i) + "v", letter.headers[i].second);
    }
    say("letter", fields);
  }

  void report() {
    if (!said_ready_ && table_.ready()) {
      said_ready_ = true;
      for (const ParkedKey& parked : table_.parked_keys()) {
        say("parked", {{"key", parked.key},
                       {"lsn", std::to_string(parked.first.commit_lsn.to_wire())},
                       {"index", std::to_string(parked.first.index)}});
      }
      say("ready", {});
    }
    std::uint64_t sequence = 0;
    while (table_.next_stored(sequence)) {
      say("stored", {{"sequence", std::to_string(sequence)}});
    }
    if (auto fetched = table_.take_fetched()) {
      for (const StoredLetter& letter : *fetched) {
        say_letter(letter);
      }
      say("fetched", {{"count", std::to_string(fetched->size())}});
    }
    if (unresolved_ != table_.unresolved()) {
      unresolved_ = table_.unresolved();
      say("unresolved", {{"count", std::to_string(unresolved_)}});
    }
  }

  EventLoop& loop_;
  SystemClock clock_;
  DeadLetterTable table_;
  std::string input_;
  bool ended_ = false;
  bool said_ready_ = false;
  std::size_t unresolved_ = 0;
};

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  using namespace outrider;
  const char* dsn = std::getenv("OUTRIDER_TEST_DSN");
  if (dsn == nullptr) {
    std::fprintf(stderr, "OUTRIDER_TEST_DSN is not set\n");
    return 64;
  }
  auto loop = EventLoop::create();
  if (!loop) {
    return 70;
  }
  DeadLetterTableOptions options;
  options.dsn = [dsn]() -> Result<std::string> { return std::string(dsn); };
  options.retry_first = std::chrono::milliseconds(argc > 1 ? std::atol(argv[1]) : 5000);
  options.parked_keys_max = argc > 2 ? static_cast<std::uint64_t>(std::atol(argv[2])) : 100;
  options.own_dsn = argc > 3;
  Driver driver(**loop, std::move(options));
  return driver.run();
}
