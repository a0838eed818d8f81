// StageTimer: how much time goes into a piece of code that runs once for each row.
//
// Two clock readings a row would cost more than what they measure, so about one call in kMeanGap is
// timed and counts for kMeanGap. The gaps are drawn at random, so that no rhythm of the work is met
// or missed again and again: the sum is an unbiased estimate, good for rates over seconds, not for
// a single call. Thread: loop. Units: seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

namespace outrider {

class StageTimer {
 public:
  static constexpr std::uint32_t kMeanGap = 16;

  /// Make the call, and time it if it is its turn.
  template <typename Call>
  auto run(Call&& call) {
    if (--left_ != 0) {
      return std::forward<Call>(call)();
    }
    left_ = next_gap();
    const auto begin = std::chrono::steady_clock::now();
    auto result = std::forward<Call>(call)();
    seconds_ +=
        kMeanGap * std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
  }

  double seconds() const { return seconds_; }

 private:
  /// 1 … 2 * kMeanGap - 1, each equally likely.
  std::uint32_t next_gap() {
    state_ = state_ * 1664525 + 1013904223;
    return 1 + (state_ >> 16) % (2 * kMeanGap - 1);
  }

  std::uint32_t left_ = kMeanGap;
  std::uint32_t state_ = 1;
  double seconds_ = 0;
};

}  // namespace outrider
