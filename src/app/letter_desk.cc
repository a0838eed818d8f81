#include "app/letter_desk.h"

#include <utility>

namespace outrider {

LetterDesk::LetterDesk(DeadLetterPlace& place) : place_(place) {}

void LetterDesk::serve() {
  if (reading_ != nullptr) {
    auto letters = place_.take_fetched();
    if (!letters) {
      return;
    }
    std::exchange(reading_, nullptr)->fetched_ = std::move(letters);
  }
  // The core first: its rows wait, operators can.
  for (Seat* seat : {&core_, &commands_}) {
    if (seat->wish_) {
      const Seat::Wish wish = *std::exchange(seat->wish_, std::nullopt);
      reading_ = seat;
      place_.fetch(wish.filter, wish.after, wish.count, now_);
      return;
    }
  }
}

void LetterDesk::Seat::open(const SlotIdentity& identity, Now now) {
  desk_.place_.open(identity, now);
}

bool LetterDesk::Seat::ready() const { return desk_.place_.ready(); }

const std::vector<ParkedKey>& LetterDesk::Seat::parked_keys() const {
  return desk_.place_.parked_keys();
}

Result<> LetterDesk::Seat::drive(Now now) {
  desk_.now_ = now;
  Result<> driven = desk_.place_.drive(now);
  if (driven) {
    desk_.serve();
  }
  return driven;
}

Result<ProduceStatus> LetterDesk::Seat::store(const DeadLetter& letter, std::uint64_t sequence,
                                              Now now) {
  return desk_.place_.store(letter, sequence, now);
}

bool LetterDesk::Seat::next_stored(std::uint64_t& sequence) {
  return desk_.place_.next_stored(sequence);
}

void LetterDesk::Seat::fetch(const DeadLetterFilter& filter, std::int64_t after,
                             std::uint32_t count, Now now) {
  desk_.now_ = now;
  fetched_.reset();
  wish_ = Wish{filter, after, count};
  desk_.serve();
}

std::optional<std::vector<StoredLetter>> LetterDesk::Seat::take_fetched() {
  desk_.serve();
  return std::exchange(fetched_, std::nullopt);
}

void LetterDesk::Seat::resolve(const RetryOutcome& outcome, Now now) {
  desk_.place_.resolve(outcome, now);
}

void LetterDesk::Seat::discard(std::int64_t number, Now now) { desk_.place_.discard(number, now); }

std::size_t LetterDesk::Seat::unresolved() const { return desk_.place_.unresolved(); }

bool LetterDesk::Seat::healthy() const { return desk_.place_.healthy(); }

std::string LetterDesk::Seat::trouble() const { return desk_.place_.trouble(); }

std::optional<MonoTime> LetterDesk::Seat::deadline() const { return desk_.place_.deadline(); }

}  // namespace outrider
