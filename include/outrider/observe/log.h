// Log: a level, a message in lower case, a list of named fields; text or JSON lines on stderr.
//
// One Log belongs to the process and is passed by reference; there is no global. Never give it a
// payload, a header value or a secret. Thread: loop only. Each line is one write(2), and one event
// is one line whatever its fields contain. A reader that does not read (a full pipe) costs lines,
// not the loop: they are dropped, and the next line that passes says how many ("dropped=N"). Only
// a line over a page (4 KiB) may wait for the reader, and an error waits 100 ms once.
// Limits: a message or value is cut at kLogValueBytesMax; write_limited keeps kLimitedKeysMax keys.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "outrider/base/clock.h"
#include "outrider/base/lsn.h"
#include "outrider/config/config.h"

namespace outrider {

inline constexpr std::size_t kLogValueBytesMax = 4096;
inline constexpr std::size_t kLimitedKeysMax = 1024;

/// One named value of a log line. Numbers stay numbers in JSON. A duration is a number of
/// milliseconds: its name carries the unit ("waited_ms").
struct LogField {
  LogField(std::string_view field_name, std::string_view field_value)
      : name(field_name), text(field_value) {}
  LogField(std::string_view field_name, const char* field_value)
      : name(field_name), text(field_value) {}
  LogField(std::string_view field_name, const std::string& field_value)
      : name(field_name), text(field_value) {}
  LogField(std::string_view field_name, Lsn lsn) : name(field_name), text(lsn.to_string()) {}
  LogField(std::string_view field_name, std::int64_t number);
  LogField(std::string_view field_name, std::uint64_t number);
  LogField(std::string_view field_name, int number);
  LogField(std::string_view field_name, std::uint32_t number);
  LogField(std::string_view field_name, double number);
  LogField(std::string_view field_name, std::chrono::milliseconds duration);

  std::string_view name;
  std::string text;
  bool is_number = false;
};

class Log {
 public:
  /// To stderr.
  explicit Log(const LogConfig& config);
  /// To another descriptor, which must outlive the log; it is not closed.
  Log(const LogConfig& config, int fd);
  ~Log();

  void write(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {});
  void write(LogLevel level, std::string_view message, std::span<const LogField> fields);

  /// At most one line per `interval` for each `key`; the next line that passes says how many were
  /// held back ("suppressed=N"). Keys over the limit share one.
  void write_limited(LogLevel level, std::string_view key, Now now,
                     std::chrono::milliseconds interval, std::string_view message,
                     std::initializer_list<LogField> fields = {});

  void set_level(LogLevel level);
  bool enabled(LogLevel level) const;

 private:
  struct Sink;
  std::unique_ptr<Sink> sink_;
};

}  // namespace outrider
