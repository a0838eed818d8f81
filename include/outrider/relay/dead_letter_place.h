// DeadLetterPlace: where rows go that cannot become records, as the core sees it.
//
// A dead letter counts as done when it is durable there, exactly as a record does when the broker
// acknowledged it: until then the position stays. Stores are pipelined and reported by sequence.
// The adapter is a table in PostgreSQL (postgres/dead_letter_table.h); a dead-letter topic needs
// none, its letters are records. Thread: loop; nothing blocks. Errors: a place that fails for good
// (missing table, no grant, wrong schema version) ends the pipeline; a lost connection is retried
// inside, without an end, and named by trouble().
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/model/dead_letter.h"
#include "outrider/relay/ports.h"

namespace outrider {

/// Which letters a command means; empty fields match all. Conditions are joined by "and".
struct DeadLetterFilter {
  std::optional<DeadLetterReason> reason;
  std::string event_type;
  std::string aggregate_id;
  std::string parked_key;
  std::vector<std::int64_t> numbers;
  std::vector<std::string> event_ids;
  std::optional<std::chrono::seconds> older_than;  ///< Since the last failure.
  bool due_only = false;  ///< Automatic retry: retry_after has passed, max_attempts not reached.
};

/// What became of one letter that was sent again.
struct RetryOutcome {
  std::int64_t number = 0;
  bool delivered = false;  ///< The letter is removed.
  std::string code;        ///< Else: the new refusal; attempts grow by one.
  std::string message;
  std::chrono::milliseconds retry_after{0};  ///< Else: earliest next automatic attempt, from now.
};

/// Only rows behind the first parked one follow it: what lies before comes again after a crash and
/// was sent.
struct ParkedKey {
  std::string key;
  RowPlace first;
};

class DeadLetterPlace {
 public:
  virtual ~DeadLetterPlace() = default;

  /// Whose letters these are; before that nothing is stored or read. Called again with the same
  /// identity after each reconnect of the stream; parked keys are read once, at the first call.
  virtual void open(const SlotIdentity& identity, Now now) = 0;

  /// Open, verified, parked keys read. Until then the core pulls no rows.
  virtual bool ready() const = 0;

  /// Keys that were parked when the place was opened; each once.
  virtual const std::vector<ParkedKey>& parked_keys() const = 0;

  virtual Result<> drive(Now now) = 0;

  /// Take one letter (all bytes are copied). busy: nothing was taken; its buffer is full or it is
  /// not ready. Storing the same row again is no error and changes nothing.
  virtual Result<ProduceStatus> store(const DeadLetter& letter, std::uint64_t sequence,
                                      Now now) = 0;

  /// A letter became durable; false when there is none.
  virtual bool next_stored(std::uint64_t& sequence) = 0;

  /// Begin to read letters with number > `after`, in ascending order, at most `count` and at most
  /// kFetchBytesMax bytes (but one at least). One fetch at a time.
  virtual void fetch(const DeadLetterFilter& filter, std::int64_t after, std::uint32_t count,
                     Now now) = 0;
  /// The result of the last fetch, once; nothing while it is under way. An empty list: no more.
  virtual std::optional<std::vector<StoredLetter>> take_fetched() = 0;

  /// Record what became of a retry. Done before any later fetch is answered.
  virtual void resolve(const RetryOutcome& outcome, Now now) = 0;
  /// Remove a letter without sending it.
  virtual void discard(std::int64_t number, Now now) = 0;
  /// Outcomes and removals that are not durable yet.
  virtual std::size_t unresolved() const = 0;

  virtual bool healthy() const = 0;
  virtual std::string trouble() const = 0;
  virtual std::optional<MonoTime> deadline() const = 0;

  static constexpr std::uint64_t kFetchBytesMax = 4 * 1024 * 1024;
};

}  // namespace outrider
