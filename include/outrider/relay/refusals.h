// RefusalBook and Breaker: what is known about rows that were refused, and how fast they may leave.
//
// A broker refuses a batch, so every row of it is a suspect until it was sent alone; a row refused
// alone is condemned. Both are remembered by the row's place in the WAL until the position has
// passed it: bounded by the rows in flight. Pure; thread: loop. See docs/DELIVERY.md.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/model/dead_letter.h"

namespace outrider {

class RefusalBook {
 public:
  void suspect(const RowPlace& row) { suspects_.insert(row); }
  void acquit(const RowPlace& row) { suspects_.erase(row); }
  bool is_suspect(const RowPlace& row) const {
    return !suspects_.empty() && suspects_.count(row) > 0;
  }

  /// Refused alone: this is why. It stays a suspect, so that whatever is sent for it goes alone.
  void condemn(const RowPlace& row, Error error) { verdicts_[row] = std::move(error); }
  const Error* verdict(const RowPlace& row) const {
    auto at = verdicts_.find(row);
    return at == verdicts_.end() ? nullptr : &at->second;
  }

  /// Rows of transactions whose commit record lies before the flushed position are done with.
  void forget_before(Lsn flushed) {
    suspects_.erase(suspects_.begin(), suspects_.lower_bound(RowPlace{flushed, 0}));
    verdicts_.erase(verdicts_.begin(), verdicts_.lower_bound(RowPlace{flushed, 0}));
  }

  std::size_t suspects() const { return suspects_.size(); }

 private:
  std::set<RowPlace> suspects_;
  std::map<RowPlace, Error> verdicts_;
};

/// A token bucket: `burst` at once, then `per_minute`. An empty one is an open breaker.
class Breaker {
 public:
  Breaker(std::int64_t burst, std::int64_t per_minute)
      : burst_(static_cast<double>(burst)),
        per_second_(static_cast<double>(per_minute) / 60.0),
        tokens_(burst_) {}

  bool allows(MonoTime now) {
    refill(now);
    return tokens_ >= 1.0;
  }
  void take() { tokens_ -= 1.0; }

  /// When allows() becomes true, at the earliest.
  MonoTime next(MonoTime now) {
    refill(now);
    const double missing = std::max(0.0, 1.0 - tokens_) / per_second_;
    return now + std::chrono::duration_cast<MonoTime::duration>(
                     std::chrono::duration<double>(missing + 0.001));
  }

 private:
  void refill(MonoTime now) {
    if (since_ && now > *since_) {
      tokens_ = std::min(
          burst_, tokens_ + std::chrono::duration<double>(now - *since_).count() * per_second_);
    }
    since_ = now;
  }

  double burst_;
  double per_second_;
  double tokens_;
  std::optional<MonoTime> since_;
};

}  // namespace outrider
