// UnpublishedAge: how long the oldest committed transaction has waited for Kafka; exact, or a
// bound.
//
// While a received transaction is unconfirmed its commit time tells, exactly. Otherwise something
// may wait that was never received (link cut or hung, reading paused, a standby without an active
// relay). So it remembers when the server's WAL ended where: once everything before that position
// is published, nothing unpublished can have been committed before that moment. Now minus the last
// such moment is an upper bound, whatever the stream claims. Pure. Thread: loop. Units: seconds.
// Limits: remembers two ends of WAL; the bound grows looser, never wrong, when more lie between.
#pragma once

#include <chrono>
#include <optional>

#include "outrider/base/clock.h"
#include "outrider/base/lsn.h"

namespace outrider {

class UnpublishedAge {
 public:
  struct Age {
    double seconds = 0;
    bool upper_bound = false;
  };

  /// The server is asked every `interval`. Until it was seen caught up once, the bound counts from
  /// `start`, which may be less than the truth.
  UnpublishedAge(MonoTime start, std::chrono::milliseconds interval);

  /// The server's WAL ended at `wal_end`, or further on, when it was asked.
  void seen(MonoTime asked, Lsn wal_end);
  /// Everything that the server committed before `position` is published.
  void published(Lsn position);

  /// `oldest`: commit time of the oldest received transaction that is not published.
  Age at(Now now, std::optional<WallTime> oldest) const;

 private:
  struct End {
    MonoTime asked{};
    Lsn wal_end;
  };

  const std::chrono::milliseconds tolerance_;
  MonoTime caught_up_at_;
  std::optional<End> next_;  ///< The oldest end that is not reached.
  std::optional<End> last_;  ///< The newest one.
};

}  // namespace outrider
