// TransactionPlan: what the open Kafka transaction holds, and when it is to be committed.
//
// One Kafka transaction holds whole PostgreSQL transactions as far as that goes. At a transaction's
// end it is committed once a limit of delivery.transaction_* is reached; a limit that one
// PostgreSQL transaction passes by itself splits it at a row or ends the relay, as configured. So a
// Kafka transaction holds less than twice the limits. Pure. Rules: docs/adr/0015.
#pragma once

#include <cstdint>
#include <optional>

#include "outrider/base/clock.h"
#include "outrider/config/config.h"
#include "outrider/relay/position.h"

namespace outrider {

class TransactionPlan {
 public:
  enum class Verdict : std::uint8_t {
    go_on,
    commit,     ///< At the end of a PostgreSQL transaction.
    split,      ///< At point(), within one.
    too_large,  ///< One passed a limit and may not be split.
  };

  explicit TransactionPlan(const DeliveryConfig& config) : config_(config) {}

  void produced(std::uint64_t bytes, MonoTime now);
  /// Everything produced up to now lies before `point`.
  void mark(const ResumePoint& point, bool whole);
  Verdict judge(MonoTime now) const;
  /// Committed or given up.
  void clear();

  bool empty() const { return all_.records == 0; }
  const ResumePoint& point() const { return point_; }
  /// Which limit one PostgreSQL transaction passed; only after too_large.
  const char* passed_limit(MonoTime now) const;
  /// When judge() may say something else though nothing was produced or marked.
  std::optional<MonoTime> deadline() const;

 private:
  struct Amount {
    std::int64_t records = 0;
    std::int64_t bytes = 0;
    MonoTime begun{};

    void add(std::uint64_t more, MonoTime now);
  };

  DeliveryConfig config_;
  Amount all_;
  Amount since_whole_;  ///< Of the PostgreSQL transaction under way.
  ResumePoint point_;
  bool covered_ = false;  ///< Nothing was produced after point().
  bool whole_ = false;    ///< point() is at a transaction's end.
};

}  // namespace outrider
