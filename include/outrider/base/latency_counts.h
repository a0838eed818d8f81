// LatencyCounts: a histogram of seconds as plain numbers, for rooms that know no metrics registry.
//
// One set of bounds for every latency, so that they can be laid over each other. add() allocates
// nothing and costs a few nanoseconds. Thread: loop. Units: seconds. Negative values (two clocks)
// count as zero.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace outrider {

class LatencyCounts {
 public:
  /// Upper bounds of the buckets; one more bucket lies behind the last.
  static constexpr std::array<double, 16> kBounds = {
      0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 600};
  using Counts = std::array<std::uint64_t, kBounds.size() + 1>;

  void add(double seconds) {
    std::size_t bucket = 0;
    while (bucket < kBounds.size() && seconds > kBounds[bucket]) {
      ++bucket;
    }
    ++counts_[bucket];
    sum_ += seconds > 0 ? seconds : 0;
  }

  /// How many fell into each bucket (not cumulated).
  const Counts& counts() const { return counts_; }
  double sum() const { return sum_; }

 private:
  Counts counts_{};
  double sum_ = 0;
};

}  // namespace outrider
