// The dead-letter table as the relay sees it: durable after a while, away now and then.
#include "sim/chance.h"
#include "sim/sim_world.h"

namespace outrider::sim {

const std::vector<ParkedKey>& FakePlace::parked_keys() const {
  parked_.clear();
  for (const auto& [key, first] : table_.parked) {
    parked_.push_back({key, first});
  }
  return parked_;
}

Result<ProduceStatus> FakePlace::store(const DeadLetter& letter, std::uint64_t sequence, Now) {
  if (!ready() || pending_.size() >= 8 || happens(random_, 0.1)) {
    return ProduceStatus::busy;
  }
  pending_.push_back(
      {sequence, letter.row,
       letter.parked_key ? std::optional<std::string>(*letter.parked_key) : std::nullopt});
  return ProduceStatus::accepted;
}

bool FakePlace::next_stored(std::uint64_t& sequence) {
  if (stored_.empty()) {
    return false;
  }
  sequence = stored_.front();
  stored_.pop_front();
  return true;
}

void FakePlace::exchange(Now now) {
  up_ = now.mono >= table_.down_until;
  if (!up_) {
    return;
  }
  for (std::uint64_t n = draw(random_, 0, pending_.size()); n > 0; --n) {
    const Pending& first = pending_.front();
    table_.rows.insert(first.row);
    if (first.key) {
      table_.parked.try_emplace(*first.key, first.row);
    }
    invariants_.dead_lettered(first.row);
    stored_.push_back(first.sequence);
    pending_.pop_front();
  }
}

}  // namespace outrider::sim
