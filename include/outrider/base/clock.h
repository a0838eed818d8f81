// Time as the rooms see it: read once a turn and passed down, so that the core never asks a clock.
#pragma once

#include <chrono>

namespace outrider {

using MonoTime = std::chrono::steady_clock::time_point;
/// Microseconds since 1970 UTC, the resolution of PostgreSQL's timestamps.
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

struct Now {
  MonoTime mono;  ///< For deadlines and durations; never goes back.
  WallTime wall;  ///< For showing to people and for latencies against the server's commit time.
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Now now() const = 0;
};

class SystemClock final : public Clock {
 public:
  Now now() const override;
};

}  // namespace outrider
