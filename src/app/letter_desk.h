// LetterDesk: one DeadLetterPlace for two users, the core and the commands of operators.
//
// A place does one fetch at a time. Each user has a seat that looks like the place itself; fetches
// of the two seats are queued, everything else passes through. Neither seat sees the other's
// letters. The core's seat has to be driven; it drives the place. Owns nothing but at most one
// fetched batch a seat. Outlived by the place. Thread: loop.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "outrider/relay/dead_letter_place.h"

namespace outrider {

class LetterDesk {
 public:
  explicit LetterDesk(DeadLetterPlace& place);
  LetterDesk(const LetterDesk&) = delete;
  LetterDesk& operator=(const LetterDesk&) = delete;

  DeadLetterPlace& for_core() { return core_; }
  DeadLetterPlace& for_commands() { return commands_; }

 private:
  class Seat final : public DeadLetterPlace {
   public:
    explicit Seat(LetterDesk& desk) : desk_(desk) {}

    void open(const SlotIdentity& identity, Now now) override;
    bool ready() const override;
    const std::vector<ParkedKey>& parked_keys() const override;
    Result<> drive(Now now) override;
    Result<ProduceStatus> store(const DeadLetter& letter, std::uint64_t sequence, Now now) override;
    bool next_stored(std::uint64_t& sequence) override;
    void fetch(const DeadLetterFilter& filter, std::int64_t after, std::uint32_t count,
               Now now) override;
    std::optional<std::vector<StoredLetter>> take_fetched() override;
    void resolve(const RetryOutcome& outcome, Now now) override;
    void discard(std::int64_t number, Now now) override;
    std::size_t unresolved() const override;
    bool healthy() const override;
    std::string trouble() const override;
    std::optional<MonoTime> deadline() const override;

   private:
    friend class LetterDesk;
    struct Wish {
      DeadLetterFilter filter;
      std::int64_t after = 0;
      std::uint32_t count = 0;
    };

    LetterDesk& desk_;
    std::optional<Wish> wish_;
    std::optional<std::vector<StoredLetter>> fetched_;
  };

  /// Take what the place has read, then begin the next fetch that is wished for.
  void serve();

  DeadLetterPlace& place_;
  Seat core_{*this};
  Seat commands_{*this};
  Seat* reading_ = nullptr;  ///< Whose fetch is under way.
  Now now_{};
};

}  // namespace outrider
