// FlowGate: when to stop pulling changes and when to go on, by records and bytes in flight.
//
// It closes at a limit and opens again at half of it, so that a slow broker causes long pauses
// instead of many short ones. Thread: loop. Limits: one row beyond the byte limit can be in flight,
// since a row is taken whole. Pure.
#pragma once

#include <cstdint>

namespace outrider {

class FlowGate {
 public:
  FlowGate(std::uint64_t records_max, std::uint64_t bytes_max)
      : records_max_(records_max), bytes_max_(bytes_max) {}

  /// Judge what is in flight now; true while pulling is allowed.
  bool update(std::uint64_t records, std::uint64_t bytes) {
    if (open_ && (records >= records_max_ || bytes >= bytes_max_)) {
      open_ = false;
      ++closings_;
    } else if (!open_ && records <= records_max_ / 2 && bytes <= bytes_max_ / 2) {
      open_ = true;
    }
    return open_;
  }

  bool open() const { return open_; }
  std::uint64_t closings() const { return closings_; }

 private:
  std::uint64_t records_max_;
  std::uint64_t bytes_max_;
  bool open_ = true;
  std::uint64_t closings_ = 0;
};

}  // namespace outrider
