// WitnessBook: which witness to write, and when; at least once only.
//
// The slot may be confirmed up to the highest witness that is durable. So witnesses run ahead of
// what is asked for by kAheadBytes or by two seconds' worth of WAL, whichever is more; one is
// written when half of that is used up, at most one an interval (sooner only when all of it is
// used up, since confirmations wait then), none when nothing moves. Pure:
// the caller writes and tells what became of it. Rules: docs/adr/0013.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "outrider/base/clock.h"
#include "outrider/base/lsn.h"

namespace outrider {

class WitnessBook {
 public:
  static constexpr std::uint64_t kAheadBytes = 16 * 1024 * 1024;
  static constexpr std::chrono::milliseconds kInterval{1'000};
  /// While the reservation is used up; the next one is sized by the rate just seen.
  static constexpr std::chrono::milliseconds kBlockedInterval{20};

  /// A session is open. What an earlier one reserved does not count: each session writes a witness
  /// of its own before anything is confirmed, so that its writer can be told from another.
  void open();

  /// The slot shall be confirmed up to here.
  void reserve(Lsn lsn);

  /// The last position of the session: a witness of exactly this is written at once, so that after
  /// a clean stop the slot may stand nowhere above.
  void settle(Lsn exact) { exact_ = exact; }

  /// The witness to write now, if any; the caller answers with written().
  std::optional<Lsn> due(MonoTime now) const;
  void written(Lsn lsn, MonoTime now);

  /// What was written last is durable.
  void durable();
  /// What was written last has an unknown fate.
  void lost() { under_way_.reset(); }

  Lsn limit() const { return limit_; }
  /// The highest position asked for.
  Lsn wanted() const { return wanted_; }

  std::optional<MonoTime> deadline() const;

 private:
  bool wanting() const;
  std::chrono::milliseconds interval() const;

  Lsn wanted_;
  Lsn limit_;
  Lsn wanted_when_written_;
  std::uint64_t ahead_bytes_ = kAheadBytes;
  std::optional<Lsn> exact_;
  std::optional<Lsn> under_way_;
  std::optional<MonoTime> written_at_;
};

}  // namespace outrider
