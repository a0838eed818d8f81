#include "kafka/witness.h"

#include <algorithm>

namespace outrider {

void WitnessBook::open() {
  under_way_.reset();
  exact_.reset();
  written_at_.reset();
  limit_ = wanted_when_written_ = Lsn{};
}

void WitnessBook::reserve(Lsn lsn) { wanted_ = std::max(wanted_, lsn); }

bool WitnessBook::wanting() const {
  if (under_way_) return false;
  if (exact_) return limit_ != *exact_;
  if (!wanted_.is_valid()) return false;
  if (wanted_ > limit_) return true;
  return wanted_ > wanted_when_written_ && bytes_between(wanted_, limit_) < ahead_bytes_ / 2;
}

/// A reservation that is used up holds up every confirmation.
std::chrono::milliseconds WitnessBook::interval() const {
  return wanted_ > limit_ ? kBlockedInterval : kInterval;
}

std::optional<Lsn> WitnessBook::due(MonoTime now) const {
  if (exact_ && wanting()) return exact_;
  if (!wanting() || (written_at_ && now - *written_at_ < interval())) return std::nullopt;
  std::uint64_t ahead = kAheadBytes;
  if (written_at_) {
    const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(now - *written_at_);
    const std::uint64_t used = bytes_between(wanted_when_written_, wanted_);
    const auto milliseconds = static_cast<std::uint64_t>(std::max<std::int64_t>(passed.count(), 1));
    ahead = std::max(ahead, used / milliseconds * 2'000);
  }
  const std::uint64_t room = Lsn::max().to_wire() - wanted_.to_wire();
  return Lsn::from_wire(wanted_.to_wire() + std::min(ahead, room));
}

void WitnessBook::written(Lsn lsn, MonoTime now) {
  under_way_ = lsn;
  ahead_bytes_ = bytes_between(wanted_, lsn);
  wanted_when_written_ = wanted_;
  written_at_ = now;
}

void WitnessBook::durable() {
  if (under_way_) limit_ = *under_way_;
  under_way_.reset();
}

std::optional<MonoTime> WitnessBook::deadline() const {
  if (!wanting()) return std::nullopt;
  return written_at_ && !exact_ ? *written_at_ + interval() : MonoTime::min();
}

}  // namespace outrider
