// LogLimiter: at most one line per key and interval, with the number held back.
//
// Brokers that are away make librdkafka say the same thing many times a second; a disk must not
// fill with it. Bounded: past kKeysMax keys all further ones share one. Thread: loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "outrider/base/clock.h"

namespace outrider {

class LogLimiter {
 public:
  static constexpr std::size_t kKeysMax = 64;

  explicit LogLimiter(std::chrono::milliseconds interval) : interval_(interval) {}

  /// Nothing: hold the line back. Else the number of lines held back before it.
  std::optional<std::uint64_t> pass(std::string_view key, MonoTime now);

 private:
  struct Entry {
    MonoTime next{};
    std::uint64_t held_back = 0;
  };

  std::chrono::milliseconds interval_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace outrider
