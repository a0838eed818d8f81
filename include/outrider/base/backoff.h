// Backoff: growing, capped, jittered delays between tries.
//
// The generator is seeded by the caller, so a simulation replays. Full jitter: each delay is drawn
// evenly from [ceiling/2, ceiling], and the ceiling doubles from `first` up to `cap`.
#pragma once

#include <chrono>
#include <cstdint>
#include <random>

namespace outrider {

class Backoff {
 public:
  Backoff(std::chrono::milliseconds first, std::chrono::milliseconds cap, std::uint64_t seed);

  /// The delay before the next try; each call counts as one failure.
  std::chrono::milliseconds next();

  /// After success: start again from `first`.
  void reset();

  /// Failures since the last reset.
  std::uint32_t failures() const { return failures_; }

 private:
  std::chrono::milliseconds first_;
  std::chrono::milliseconds cap_;
  std::chrono::milliseconds ceiling_;
  std::uint32_t failures_ = 0;
  std::mt19937_64 random_;
};

}  // namespace outrider
