// ScriptedPlace: the dead-letter place for unit tests, driven by the test alone.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "outrider/relay/dead_letter_place.h"
#include "support/scripted_ports.h"

namespace outrider::testing {

class ScriptedPlace final : public DeadLetterPlace {
 public:
  explicit ScriptedPlace(Trace& trace) : trace_(trace) {}

  bool is_ready = true;
  bool durable_at_once = true;
  std::vector<ParkedKey> parked;
  std::deque<std::uint64_t> stored;
  std::vector<StoredLetter> letters;  ///< What fetch() gives, filtered by parked key and number.

  void open(const SlotIdentity&, Now) override {}
  bool ready() const override { return is_ready; }
  const std::vector<ParkedKey>& parked_keys() const override { return parked; }
  Result<> drive(Now) override { return {}; }
  Result<ProduceStatus> store(const DeadLetter& letter, std::uint64_t sequence, Now) override {
    trace_.push_back("store " + std::to_string(sequence) + " " +
                     (letter.record == nullptr ? "raw" : "record"));
    if (durable_at_once) {
      stored.push_back(sequence);
    }
    return ProduceStatus::accepted;
  }
  bool next_stored(std::uint64_t& sequence) override {
    if (stored.empty()) {
      return false;
    }
    sequence = stored.front();
    stored.pop_front();
    return true;
  }
  void fetch(const DeadLetterFilter& filter, std::int64_t after, std::uint32_t, Now) override {
    fetched_.emplace();
    for (const StoredLetter& letter : letters) {
      if (letter.number > after &&
          (filter.parked_key.empty() || letter.parked_key == filter.parked_key)) {
        fetched_->push_back(letter);
      }
    }
  }
  std::optional<std::vector<StoredLetter>> take_fetched() override {
    return std::exchange(fetched_, std::nullopt);
  }
  void resolve(const RetryOutcome& outcome, Now) override {
    trace_.push_back((outcome.delivered ? "resolve " : "again ") + std::to_string(outcome.number));
    if (outcome.delivered) {
      std::erase_if(letters,
                    [&](const StoredLetter& letter) { return letter.number == outcome.number; });
    }
  }
  void discard(std::int64_t, Now) override {}
  std::size_t unresolved() const override { return 0; }
  bool healthy() const override { return true; }
  std::string trouble() const override { return {}; }
  std::optional<MonoTime> deadline() const override { return std::nullopt; }

 private:
  Trace& trace_;
  std::optional<std::vector<StoredLetter>> fetched_;
};

}  // namespace outrider::testing
