#include "outrider/observe/log.h"

#include <poll.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <unordered_map>
#include <utility>
#include <vector>

#include "observe/text_escape.h"

namespace outrider {
namespace {

/// How long an error, which may be the last words of the process, waits for a full pipe. Paid once:
/// after a dropped line nothing waits until a line has passed again.
constexpr int kErrorWaitMaxMs = 100;

template <typename Number>
std::string digits_of(Number number) {
  std::array<char, 40> buffer{};
  auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  return error == std::errc() ? std::string(buffer.data(), end) : std::string("?");
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string_view name_of(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return "debug";
    case LogLevel::info:
      return "info";
    case LogLevel::warn:
      return "warn";
    case LogLevel::error:
      return "error";
  }
  return "info";
}

/// "2026-11-30T19:01:02.123Z".
void append_utc(std::string& out, std::chrono::system_clock::time_point time) {
  const auto since_epoch = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since_epoch);
  const auto milliseconds = static_cast<int>((since_epoch - seconds).count());
  const auto unix_seconds = static_cast<std::time_t>(seconds.count());
  std::tm utc{};
  gmtime_r(&unix_seconds, &utc);
  std::array<char, 32> buffer{};
  const std::size_t size = strftime(buffer.data(), buffer.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  out.append(buffer.data(), size);
  out += '.';
  out += static_cast<char>('0' + milliseconds / 100);
  out += static_cast<char>('0' + milliseconds / 10 % 10);
  out += static_cast<char>('0' + milliseconds % 10);
  out += 'Z';
}

/// A value that stands bare in a text line is printable ASCII without the characters of the form.
bool needs_quotes(std::string_view value) {
  if (value.empty() || value.size() > kLogValueBytesMax) {
    return true;
  }
  for (char byte : value) {
    if (byte <= ' ' || byte > '~' || byte == '"' || byte == '=' || byte == '\\') {
      return true;
    }
  }
  return false;
}

void append_quoted(std::string& out, std::string_view value) {
  out += '"';
  append_escaped(out, value, EscapeStyle::quoted, kLogValueBytesMax);
  out += '"';
}

using Fields = std::span<const LogField>;

void append_text_fields(std::string& line, Fields fields) {
  for (const LogField& field : fields) {
    if (field.text.empty()) continue;
    line += ' ';
    line += field.name;
    line += '=';
    if (needs_quotes(field.text)) {
      append_quoted(line, field.text);
    } else {
      line += field.text;
    }
  }
}

void append_json_fields(std::string& line, Fields fields) {
  for (const LogField& field : fields) {
    if (field.text.empty()) continue;
    line += ',';
    append_quoted(line, field.name);
    line += ':';
    if (field.is_number) {
      line += field.text;
    } else {
      append_quoted(line, field.text);
    }
  }
}

std::string text_line(LogLevel level, std::string_view message, Fields fields, Fields more) {
  constexpr std::size_t kLevelWidth = 5;
  std::string line;
  append_utc(line, std::chrono::system_clock::now());
  line += ' ';
  line += name_of(level);
  line.append(kLevelWidth - name_of(level).size() + 1, ' ');
  append_escaped(line, message, EscapeStyle::plain, kLogValueBytesMax);
  append_text_fields(line, fields);
  append_text_fields(line, more);
  line += '\n';
  return line;
}

std::string json_line(LogLevel level, std::string_view message, Fields fields, Fields more) {
  std::string line = "{\"time\":\"";
  append_utc(line, std::chrono::system_clock::now());
  line += "\",\"level\":\"";
  line += name_of(level);
  line += "\",\"message\":";
  append_quoted(line, message);
  append_json_fields(line, fields);
  append_json_fields(line, more);
  line += "}\n";
  return line;
}

/// Writes finished lines to a descriptor that may have a slow or dead reader.
class LineSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  explicit LineSink(int fd) : fd_(fd) {}

  std::uint64_t dropped() const { return dropped_; }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const int wait_ms = message.level >= spdlog::level::err && dropped_ == 0 ? kErrorWaitMaxMs : 0;
    dropped_ =
        write_line({message.payload.data(), message.payload.size()}, wait_ms) ? 0 : dropped_ + 1;
  }
  void flush_() override {}

  bool writable(int wait_ms) const {
    pollfd poll_fd{fd_, POLLOUT, 0};
    // Interrupted counts as full: the signals of the relay do not interrupt (they are blocked).
    return poll(&poll_fd, 1, wait_ms) == 1;
  }

  /// Anything else than a full or closed reader has no better place to be reported than here.
  bool write_line(std::string_view line, int wait_ms) const {
    if (!writable(wait_ms)) {
      return false;
    }
    while (!line.empty()) {
      const ssize_t written = write(fd_, line.data(), line.size());
      if (written >= 0) {
        line.remove_prefix(static_cast<std::size_t>(written));
      } else if (errno != EINTR && !(errno == EAGAIN && writable(kErrorWaitMaxMs))) {
        return false;
      }
    }
    return true;
  }

  int fd_;
  std::uint64_t dropped_ = 0;
};

}  // namespace

LogField::LogField(std::string_view field_name, std::int64_t number)
    : name(field_name), text(digits_of(number)), is_number(true) {}
LogField::LogField(std::string_view field_name, std::uint64_t number)
    : name(field_name), text(digits_of(number)), is_number(true) {}
LogField::LogField(std::string_view field_name, int number)
    : name(field_name), text(digits_of(number)), is_number(true) {}
LogField::LogField(std::string_view field_name, std::uint32_t number)
    : name(field_name), text(digits_of(number)), is_number(true) {}
// JSON has no infinity and no NaN: those become text.
LogField::LogField(std::string_view field_name, double number)
    : name(field_name), text(digits_of(number)), is_number(std::isfinite(number)) {}
LogField::LogField(std::string_view field_name, std::chrono::milliseconds duration)
    : name(field_name), text(digits_of(duration.count())), is_number(true) {}

struct Log::Sink {
  struct Limited {
    MonoTime open_at;
    std::uint64_t suppressed = 0;
  };

  Sink(const LogConfig& config, int fd)
      : format(config.format), lines(std::make_shared<LineSink>(fd)), logger("outrider", lines) {
    logger.set_level(to_spdlog(config.level));
  }

  void write(LogLevel level, std::string_view message, Fields fields, std::vector<LogField> more) {
    if (lines->dropped() > 0) {
      more.emplace_back("dropped", lines->dropped());
    }
    const std::string line = format == LogFormat::json ? json_line(level, message, fields, more)
                                                       : text_line(level, message, fields, more);
    logger.log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
  }

  /// The state of `key`; of the shared one when there is no room.
  Limited& limited_of(std::string_view key, MonoTime now) {
    std::string name(key);
    if (auto found = limited.find(name); found != limited.end()) {
      return found->second;
    }
    if (limited.size() >= kLimitedKeysMax) {
      std::erase_if(limited, [&](const auto& entry) {
        if (entry.second.open_at > now) {
          return false;
        }
        shared.suppressed += entry.second.suppressed;
        return true;
      });
    }
    if (limited.size() >= kLimitedKeysMax) {
      return shared;
    }
    return limited.emplace(std::move(name), Limited{now, 0}).first->second;
  }

  LogFormat format;
  std::shared_ptr<LineSink> lines;
  spdlog::logger logger;
  std::unordered_map<std::string, Limited> limited;
  Limited shared;
};

Log::Log(const LogConfig& config) : Log(config, STDERR_FILENO) {}

Log::Log(const LogConfig& config, int fd) : sink_(std::make_unique<Sink>(config, fd)) {}

Log::~Log() = default;

void Log::write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields) {
  write(level, message, std::span<const LogField>(fields.begin(), fields.size()));
}

void Log::write(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (enabled(level)) {
    sink_->write(level, message, fields, {});
  }
}

void Log::write_limited(LogLevel level, std::string_view key, Now now,
                        std::chrono::milliseconds interval, std::string_view message,
                        std::initializer_list<LogField> fields) {
  if (!enabled(level)) {
    return;
  }
  Sink::Limited& limited = sink_->limited_of(key, now.mono);
  if (now.mono < limited.open_at) {
    ++limited.suppressed;
    return;
  }
  std::vector<LogField> more;
  if (limited.suppressed > 0) {
    more.emplace_back("suppressed", limited.suppressed);
  }
  limited = Sink::Limited{now.mono + interval, 0};
  sink_->write(level, message, std::span<const LogField>(fields.begin(), fields.size()),
               std::move(more));
}

void Log::set_level(LogLevel level) { sink_->logger.set_level(to_spdlog(level)); }

bool Log::enabled(LogLevel level) const { return sink_->logger.should_log(to_spdlog(level)); }

}  // namespace outrider
