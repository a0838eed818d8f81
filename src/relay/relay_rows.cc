// What becomes of a row: a record, a dead letter, or a reason to wait or to stop.
#include <algorithm>
#include <utility>
#include <variant>

#include "outrider/base/check.h"
#include "outrider/base/murmur2.h"
#include "outrider/relay/relay.h"

namespace outrider {
namespace {

constexpr std::chrono::milliseconds kTopicMemory{10'000};
/// Something that no descriptor tells of is looked at again this often.
constexpr std::chrono::milliseconds kLookAgain{100};

bool is_size_fault(std::string_view code) {
  return code == "MSG_SIZE_TOO_LARGE" || code == "_MSG_SIZE_TOO_LARGE" ||
         code == "RECORD_LIST_TOO_LARGE" || code == "_QUEUE_FULL";
}

DeadLetterReason reason_of(const Error& error, bool refused_by_broker) {
  if (is_size_fault(error.code)) return DeadLetterReason::too_large;
  if (error.code == "INVALID_TIMESTAMP") return DeadLetterReason::bad_timestamp;
  return refused_by_broker ? DeadLetterReason::refused : DeadLetterReason::unroutable;
}

DeadLetterReason topic_reason_of(const Error& error) {
  return error.code.find("AUTHORIZATION") != std::string::npos ? DeadLetterReason::not_authorised
                                                               : DeadLetterReason::topic_missing;
}

}  // namespace

/// True: the row is done with here, or the relay stops because of it. False: it is held.
bool Relay::settle_row(const AckTracker::Row& row, const Insert* unmapped, const Error* fault,
                       Now now) {
  if (alone_) {
    return false;
  }
  if (unmapped != nullptr) {
    raw_row_ = encode_raw_row(*unmapped);
  }
  if (follows_parked(row.place)) {
    const Error follows{ErrorKind::poison, "an earlier event of the key is parked", {}, {}};
    return store_letter(row, DeadLetterReason::key_parked, follows, now);
  }
  if (fault != nullptr) {
    const DeadLetterReason reason =
        undecodable_ ? DeadLetterReason::undecodable : reason_of(*fault, false);
    return fault_of_row(row, reason, *fault, now);
  }
  if (const Error* verdict = refusals_.verdict(row.place)) {
    return fault_of_row(row, reason_of(*verdict, true), *verdict, now);
  }
  return send_row(row, now);
}

bool Relay::follows_parked(const RowPlace& place) const {
  if (parked_keys_.empty() || row_.event.aggregate_id.empty()) {
    return false;
  }
  auto parked = parked_keys_.find(row_.event.aggregate_id);
  return parked != parked_keys_.end() && parked->second < place;
}

bool Relay::send_row(const AckTracker::Row& row, Now now) {
  const std::string_view topic = row_.record.topic;
  if (topic == faulty_topic_ && now.mono < topic_fault_until_) {
    return fault_of_topic(row, topic_error_, now);
  }
  const bool suspect = refusals_.is_suspect(row.place);
  if (suspect && !nothing_unaccepted()) {
    return false;
  }
  auto produced = sink_.produce(row_.record, row.sequence, now);
  if (!produced) {
    switch (produced.error().kind) {
      case ErrorKind::poison:
        return fault_of_row(row, reason_of(produced.error(), false), produced.error(), now);
      case ErrorKind::configuration:
        note_topic_fault(std::string(topic), produced.error(), now);
        return fault_of_topic(row, topic_error_, now);
      case ErrorKind::transient:
      case ErrorKind::fatal:
        stop_with(std::move(produced).error(), now);
        return true;
    }
  }
  if (*produced == ProduceStatus::busy) {
    return false;
  }
  const std::uint32_t size = in_flight_size(row_.record);
  tracker_.take_row(size, AckTracker::Place::sink, hand_over(row_.record, topic, now));
  ++unaccepted_;
  if (suspect) {
    alone_ = row.sequence;
  }
  ++counters_.events;
  counters_.bytes += size - kRecordOverheadBytes;
  note_held({});
  return true;
}

// ---- faults ------------------------------------------------------------------------------------

void Relay::note_topic_fault(std::string topic, Error error, Now now) {
  ++counters_.topic_faults;
  if (topic != faulty_topic_) {
    topic_backoff_.reset();
  }
  faulty_topic_ = std::move(topic);
  topic_error_ = std::move(error);
  topic_fault_until_ = now.mono + (options_.dead_letters.on_topic_error == OnTopicError::dead_letter
                                       ? kTopicMemory
                                       : topic_backoff_.next());
}

bool Relay::fault_of_topic(const AckTracker::Row& row, const Error& error, Now now) {
  switch (options_.dead_letters.on_topic_error) {
    case OnTopicError::wait:
      return hold(topic_fault_until_, describe(error));
    case OnTopicError::stop:
      ++counters_.refused;
      observer_.on_row_refused(row_.event, row.place.commit_lsn, error);
      stop_with(error, now);
      return true;
    case OnTopicError::dead_letter:
      break;
  }
  if (!breaker_.allows(now.mono)) {
    // The row is tried again first: the topic may be back by then.
    topic_fault_until_ = std::min(topic_fault_until_, breaker_.next(now.mono));
    return hold(breaker_.next(now.mono), breaker_reason(error));
  }
  return store_letter(row, topic_reason_of(error), error, now);
}

bool Relay::fault_of_row(const AckTracker::Row& row, DeadLetterReason reason, const Error& error,
                         Now now) {
  if (options_.dead_letters.on_poison == OnPoison::stop) {
    ++counters_.refused;
    observer_.on_row_refused(row_.event, row.place.commit_lsn, error);
    stop_with(error, now);
    return true;
  }
  if (!breaker_.allows(now.mono)) {
    return hold(breaker_.next(now.mono), breaker_reason(error));
  }
  const bool parks =
      options_.dead_letters.on_poison == OnPoison::park_key && !row_.event.aggregate_id.empty();
  if (parks &&
      parked_keys_.size() >= static_cast<std::size_t>(options_.dead_letters.parked_keys_max)) {
    return hold(now.mono + kLookAgain,
                std::to_string(parked_keys_.size()) +
                    " keys are parked, which is dead_letters.parked_keys_max: release some "
                    "(outrider dead-letters release KEY), or raise it");
  }
  return store_letter(row, reason, error, now);
}

std::string Relay::breaker_reason(const Error& error) const {
  const std::string code = error.code.empty() ? "" : " (" + error.code + ")";
  return "rows become dead letters faster than dead_letters.burst and per_minute allow; the last "
         "one: " +
         error.message + code + "; find what they have in common (outrider dead-letters list)";
}

// ---- dead letters ------------------------------------------------------------------------------

bool Relay::store_letter(const AckTracker::Row& row, DeadLetterReason reason, const Error& error,
                         Now now) {
  // Without a change `row_` still has the record of the row before.
  const bool mapped = raw_row_.empty() && !undecodable_;
  DeadLetter letter;
  letter.row = row.place;
  letter.xid = context_.xid;
  letter.commit_time = context_.commit_time;
  letter.event = row_.event;
  letter.record = mapped ? &row_.record : nullptr;
  letter.raw_row = raw_row_;
  letter.reason = reason;
  letter.code = error.code;
  letter.message = error.message;
  const bool follower = reason == DeadLetterReason::key_parked;
  const bool topic_fault =
      reason == DeadLetterReason::topic_missing || reason == DeadLetterReason::not_authorised;
  letter.attempts = follower || topic_fault ? 0 : 1;
  if (options_.dead_letters.on_poison == OnPoison::park_key && !row_.event.aggregate_id.empty()) {
    letter.parked_key = row_.event.aggregate_id;
  }
  if (!(place_ != nullptr ? keep_letter(row, letter, now) : send_letter(row, letter, now))) {
    return false;
  }
  if (stop_error_) {
    return true;
  }
  if (letter.parked_key) {
    parked_keys_.try_emplace(std::string(*letter.parked_key), row.place);
    retry_.parked(*letter.parked_key);
  }
  if (!follower) {
    breaker_.take();
    ++counters_.refused;
  } else {
    ++counters_.followers;
  }
  ++counters_.dead_letters;
  observer_.on_dead_letter(row_.event, row.place, reason, error);
  raw_row_.clear();
  return true;
}

bool Relay::keep_letter(const AckTracker::Row& row, const DeadLetter& letter, Now now) {
  auto stored = place_->store(letter, row.sequence, now);
  if (!stored) {
    stop_with(std::move(stored).error(), now);
    return true;
  }
  if (*stored == ProduceStatus::busy) {
    return false;
  }
  const std::uint32_t size = letter.record != nullptr
                                 ? in_flight_size(*letter.record)
                                 : static_cast<std::uint32_t>(letter.raw_row.size());
  tracker_.take_row(size, AckTracker::Place::dead_letters,
                    {0, now.mono, AckTracker::Partition::unknown, 0});
  return true;
}

/// To the dead-letter topic: alone, so that a refusal is its own.
bool Relay::send_letter(const AckTracker::Row& row, const DeadLetter& letter, Now now) {
  if (!nothing_unaccepted()) {
    return false;
  }
  const KafkaRecord& record = letter_record_.make(letter, options_.dead_letters.topic, now.wall);
  auto produced = sink_.produce(record, row.sequence, now);
  if (!produced && produced.error().kind == ErrorKind::configuration) {
    return hold(now.mono + kLookAgain * 10, "dead-letter topic: " + describe(produced.error()));
  }
  if (!produced) {
    stop_with(place_failed(std::move(produced).error()), now);
    return true;
  }
  if (*produced == ProduceStatus::busy) {
    return false;
  }
  tracker_.take_row(in_flight_size(record), AckTracker::Place::sink,
                    hand_over(record, options_.dead_letters.topic, now));
  ++unaccepted_;
  alone_ = row.sequence;
  letters_at_sink_.push_back(row.sequence);
  letter_alone_ = true;
  return true;
}

/// `topic`: the record's, in the view whose address lasts.
AckTracker::HandOver Relay::hand_over(const KafkaRecord& record, std::string_view topic, Now now) {
  AckTracker::HandOver with{traffic_.topic_number(topic), now.mono, AckTracker::Partition::unknown,
                            0};
  if (record.partition) {
    with.how = AckTracker::Partition::given;
    with.partition = static_cast<std::uint32_t>(*record.partition);
  } else if (record.key) {
    with.how = AckTracker::Partition::by_key;
    with.partition = murmur2(*record.key);
  }
  return with;
}

/// Once a row, also when it comes again after a lost link or producer.
void Relay::note_received(const AckTracker::Row& row) {
  if (row.sequence > received_sequence_) {
    received_sequence_ = row.sequence;
    traffic_.received(row_.event.table, row_bytes_);
  }
}

std::uint64_t Relay::pending_records() const {
  const bool row_waits = held_ && (undecodable_ || std::holds_alternative<Insert>(change_));
  // While lost rows come again the one that waits is one of them.
  const std::uint64_t waiting = row_waits && tracker_.lost_records() == 0 ? 1 : 0;
  return tracker_.in_flight_records() + tracker_.lost_records() + waiting;
}

Error Relay::place_failed(Error error) const {
  error.kind = ErrorKind::fatal;
  error.message = "a dead letter cannot be kept, and nothing is dropped: " + error.message;
  error.hint = "make room in topic \"" + options_.dead_letters.topic +
               "\" (max.message.bytes), or keep dead letters in the table (empty "
               "dead_letters.topic)";
  return error;
}

void Relay::serve_place(Now now) {
  if (place_ == nullptr || phase_ == Phase::stopped) {
    return;
  }
  if (auto driven = place_->drive(now); !driven) {
    stop_with(std::move(driven).error(), now);
    drain_ = drain_ && tracker_.in_flight(AckTracker::Place::dead_letters) == 0;
  }
  std::uint64_t sequence = 0;
  while (place_->next_stored(sequence)) {
    if (tracker_.under_way(sequence, AckTracker::Place::dead_letters)) {
      tracker_.acknowledge(sequence);
    }
  }
  while (auto key = retry_.take_released_key()) {
    parked_keys_.erase(*key);
  }
  settle(now);
}

// ---- refusals ----------------------------------------------------------------------------------

void Relay::accepted(std::uint64_t sequence) {
  OUTRIDER_CHECK(unaccepted_ > 0, "a record is accepted once");
  --unaccepted_;
  if (alone_ != sequence) {
    return;
  }
  alone_.reset();
  letter_alone_ = false;
  if ((sequence & DeadLetterRetry::kSequenceBit) == 0 &&
      tracker_.under_way(sequence, AckTracker::Place::sink)) {
    refusals_.acquit(tracker_.place_of(sequence));
    if (!faulty_topic_.empty()) {
      faulty_topic_.clear();
      topic_backoff_.reset();
    }
  }
}

/// SinkLost comes next; until then neighbours of the same batch are reported.
void Relay::take_refused(Refused refused, Now now) {
  if (refused.error.kind == ErrorKind::transient || refused.error.kind == ErrorKind::fatal) {
    lose_sink(std::move(refused.error), now);
    return;
  }
  isolating_ = true;
  const bool row_fault = refused.error.kind == ErrorKind::poison;
  if ((refused.sequence & DeadLetterRetry::kSequenceBit) != 0) {
    if (row_fault) {
      observer_.on_retried(retry_.number(), retry_.event_id(), &refused.error);
      retry_.refused(*place_, refused.error, now);
    } else {
      retry_.give_up(refused.error, now);
    }
    return;
  }
  const RowPlace place = tracker_.place_of(refused.sequence);
  refusals_.suspect(place);
  if (alone_ != refused.sequence) {
    return;
  }
  if (letter_alone_) {
    stop_with(place_failed(std::move(refused.error)), now);
  } else if (row_fault) {
    refusals_.condemn(place, std::move(refused.error));
  } else {
    note_topic_fault(std::move(refused.topic), std::move(refused.error), now);
  }
}

void Relay::isolate(Error error, Now now) {
  if (!alone_) {
    ++counters_.isolations;
    observer_.on_isolation(error, refusals_.suspects());
  }
  letter_alone_ = false;
  replace_producer(now);
}

// ---- waiting -----------------------------------------------------------------------------------

bool Relay::hold(MonoTime until, const std::string& why) {
  held_until_ = until;
  note_held(why);
  return false;
}

void Relay::note_held(const std::string& why) {
  if (why != held_why_) {
    held_why_ = why;
    observer_.on_rows_held(held_why_);
  }
}

bool Relay::rows_wait_for_operator() const { return paused_by_operator_; }

std::string Relay::trouble() const {
  if (paused_by_operator_) {
    return "paused by an operator (outrider resume goes on)";
  }
  if (place_ != nullptr && !place_->healthy() && link_up_) {
    return "dead letters: " + place_->trouble();
  }
  return held_why_;
}

// ---- sending dead letters again ----------------------------------------------------------------

bool Relay::start_retry(RetryRequest request) {
  return place_ != nullptr && retry_.start(std::move(request));
}

void Relay::serve_retry(Now now) {
  retry_has_turn_ = false;
  if (place_ == nullptr || !session_ready() || stopping()) {
    return;
  }
  retry_.drive(*place_, tracker_.in_flight(AckTracker::Place::dead_letters), now);
  if (!retry_.wants_turn(now) || isolating_) {
    return;
  }
  // In a Kafka transaction of its own, so that rows and a letter never share an outcome.
  retry_has_turn_ = !sink_.transactional() || !tracker_.in_transaction();
  const bool quiet =
      nothing_unaccepted() &&
      (!sink_.transactional() || (retry_has_turn_ && tracker_.in_flight_records() == 0));
  if (!quiet) {
    return;
  }
  auto produced = sink_.produce(retry_.record(), retry_.sequence(), now);
  if (!produced && produced.error().kind == ErrorKind::poison) {
    observer_.on_retried(retry_.number(), retry_.event_id(), &produced.error());
    retry_.refused(*place_, produced.error(), now);
  } else if (!produced) {
    retry_.give_up(produced.error(), now);
  } else if (*produced == ProduceStatus::accepted) {
    ++unaccepted_;
    alone_ = retry_.sequence();
    retry_.sent();
    if (sink_.transactional()) {
      ResumePoint point = marked_;
      point.lsn = std::max(point.lsn, tracker_.flushed_lsn());
      point.retried_letter = retry_.number();
      sink_.mark(point, true, now);
    }
  }
}

}  // namespace outrider
