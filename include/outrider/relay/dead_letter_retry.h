// DeadLetterRetry: sends dead letters again, one at a time, by command or by themselves.
//
// Reads letters from the place in batches, in the order they were stored, and offers one record at
// a time; the relay sends it alone, so a refusal is this letter's own. Letters of a parked key go
// in order and stop at the first that is refused; when none is left the key is released. Only a
// refusal of the record counts as an attempt; a topic or broker that is away ends the run and burns
// none. Owns the letters being sent (bounded by the place's fetch limits). Thread: loop. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "outrider/config/config.h"
#include "outrider/relay/dead_letter_place.h"
#include "outrider/route/raw_row.h"
#include "outrider/route/record_mapper.h"

namespace outrider {

struct RetryRequest {
  DeadLetterFilter filter;
  std::string topic;         ///< Send there instead; empty: where the row belongs.
  bool release_key = false;  ///< All letters of filter.parked_key, then the key is free.
};

struct RetryProgress {
  bool running = false;
  std::uint64_t delivered = 0;
  std::uint64_t refused = 0;
  std::uint64_t skipped = 0;   ///< Behind a refused letter of the same key.
  std::optional<Error> error;  ///< Why the run ended early.
};

class DeadLetterRetry {
 public:
  static constexpr std::uint32_t kBatch = 100;
  /// Marks sequences of retries at the sink; the tracker's never get there.
  static constexpr std::uint64_t kSequenceBit = 1ULL << 62;

  DeadLetterRetry(RecordMapper& mapper, const DeadLetterConfig& config);

  bool start(RetryRequest request);
  const RetryProgress& progress() const { return progress_; }

  /// Read what is to be sent next. `letters_on_their_way`: stores that are not durable yet.
  void drive(DeadLetterPlace& place, std::uint64_t letters_on_their_way, Now now);

  /// A record waits to be sent alone, and rows have had their turn since the last one.
  bool wants_turn(Now now) const { return record_ && !sent_ && now.mono >= rest_until_; }
  const KafkaRecord& record() const { return *record_; }
  std::uint64_t sequence() const { return kSequenceBit | attempt_; }
  std::int64_t number() const { return letters_.front().number; }
  const std::string& event_id() const { return letters_.front().event_id; }

  void sent() { sent_ = true; }
  /// The producer was replaced: what was sent is sent again.
  void lost();
  void delivered(DeadLetterPlace& place, Now now);
  void refused(DeadLetterPlace& place, const Error& error, Now now);
  /// Topic or broker is away: the run ends, no attempt is burnt.
  void give_up(const Error& error, Now now);

  /// A key of which no letter is left.
  std::optional<std::string> take_released_key();
  /// A row of this key was parked just now: the key is not free yet.
  void parked(std::string_view key);

  std::optional<MonoTime> deadline() const;

 private:
  struct Job {
    RetryRequest request;
    bool automatic = false;
    std::int64_t after = 0;
  };

  void begin_job(Now now);
  void take_batch(std::vector<StoredLetter> letters);
  void prepare(DeadLetterPlace& place, Now now);
  Result<> build(const StoredLetter& letter);
  void finish_letter(DeadLetterPlace& place, const Error* error, Now now);
  void end_job(Now now);
  std::uint64_t layout_of(const Relation& relation);

  RecordMapper& mapper_;
  const DeadLetterConfig config_;
  bool automatic_ = false;
  std::optional<Job> job_;
  std::deque<RetryRequest> waiting_;  ///< Keys to release, in this run.
  RetryProgress progress_;
  std::deque<StoredLetter> letters_;
  bool fetching_ = false;
  bool key_grew_ = false;
  std::optional<KafkaRecord> record_;
  std::unique_ptr<RawRow> raw_;
  MappedRow mapped_;
  bool sent_ = false;
  std::uint64_t attempt_ = 0;
  MonoTime rest_until_{};
  MonoTime next_automatic_{};
  std::deque<std::string> released_;
  std::map<std::string, std::uint64_t> layouts_;  ///< By columns; bounded, see the .cc.
  std::uint64_t next_layout_ = 1;                 ///< An id is never used for other columns.
};

}  // namespace outrider
