#include "config/options.h"

namespace outrider {
namespace {

constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::int64_t kGiB = 1024LL * 1024 * 1024;
constexpr std::string_view kLetterTopic = "pipelines[].dead_letters.topic";

void add_transaction_options(std::vector<Option>& rows) {
  rows.push_back(
      {"pipelines[].delivery.on_large_transaction",
       [](Scope s) -> Field { return word(s.pipeline->delivery.on_large_transaction); },
       "Exactly once only: a PostgreSQL transaction over the limits below. split: it is sent in "
       "several Kafka transactions, and readers may see a part of it for a while. stop: the relay "
       "ends and readers have seen nothing of it.",
       {.words = {"split", "stop"}}});
  rows.push_back({"pipelines[].delivery.transaction_records_max",
                  [](Scope s) -> Field { return &s.pipeline->delivery.transaction_records_max; },
                  "Exactly once only: records in one Kafka transaction.",
                  {.min = 1, .max = 10'000'000}});
  rows.push_back({"pipelines[].delivery.transaction_bytes_max",
                  [](Scope s) -> Field { return &s.pipeline->delivery.transaction_bytes_max; },
                  "Exactly once only: bytes in one Kafka transaction.",
                  {.min = 1'024, .max = 16 * kGiB}});
  rows.push_back({"pipelines[].delivery.transaction_ms",
                  [](Scope s) -> Field { return &s.pipeline->delivery.transaction_ms; },
                  "Exactly once only: a Kafka transaction is ended after so long, at the end of a "
                  "PostgreSQL transaction. Readers wait for it; shorter means more transactions.",
                  {.min = 1, .max = kHourMs}});
  rows.push_back({"pipelines[].delivery.transaction_max_ms",
                  [](Scope s) -> Field { return &s.pipeline->delivery.transaction_max_ms; },
                  "Exactly once only: longest time for one PostgreSQL transaction, then "
                  "on_large_transaction. At least transaction_ms.",
                  {.min = 1, .max = kHourMs}});
  rows.push_back({"pipelines[].delivery.transaction_timeout_ms",
                  [](Scope s) -> Field { return &s.pipeline->delivery.transaction_timeout_ms; },
                  "Exactly once only: after so long the broker gives up a transaction of a relay "
                  "that is gone, and until then readers wait. More than transaction_max_ms, at "
                  "most the broker's `transaction.max.timeout.ms`.",
                  {.min = 1'000, .max = kHourMs}});
}

void add_retry_options(std::vector<Option>& rows) {
  rows.push_back({"pipelines[].dead_letters.automatic_retry",
                  [](Scope s) -> Field { return word(s.pipeline->dead_letters.automatic_retry); },
                  "Send dead letters again by itself. auto: only with park_key, where that keeps "
                  "the order of a key. An outage of Kafka uses up no attempt.",
                  {.words = {"auto", "on", "off"}, .excluded_by = kLetterTopic}});
  rows.push_back({"pipelines[].dead_letters.max_attempts",
                  [](Scope s) -> Field { return &s.pipeline->dead_letters.max_attempts; },
                  "So many refusals, the first one counted, and a letter is not sent again by "
                  "itself; `outrider dead-letters retry` still does.",
                  {.min = 1, .max = 1'000, .excluded_by = kLetterTopic}});
  rows.push_back({"pipelines[].dead_letters.retry_first_ms",
                  [](Scope s) -> Field { return &s.pipeline->dead_letters.retry_first_ms; },
                  "Pause before the first automatic retry of a letter; it doubles with each, up to "
                  "retry_max_ms.",
                  {.min = 100, .max = 24 * kHourMs, .excluded_by = kLetterTopic}});
  rows.push_back({"pipelines[].dead_letters.retry_max_ms",
                  [](Scope s) -> Field { return &s.pipeline->dead_letters.retry_max_ms; },
                  "Longest pause between two automatic retries of a letter.",
                  {.min = 100, .max = 24 * kHourMs, .excluded_by = kLetterTopic}});
}

}  // namespace

void add_delivery_options(std::vector<Option>& rows) {
  rows.push_back({"pipelines[].delivery.guarantee",
                  [](Scope s) -> Field { return word(s.pipeline->delivery.guarantee); },
                  "at_least_once: nothing is lost, a crash may repeat records. exactly_once: nor "
                  "repeated, for consumers that read committed records only.",
                  {.words = {"at_least_once", "exactly_once"}}});
  rows.push_back({"pipelines[].delivery.witness",
                  [](Scope s) -> Field { return &s.pipeline->delivery.witness; },
                  "At least once: keep in Kafka how far the slot may have been confirmed, so that "
                  "a slot that was dropped, advanced or restored is noticed at the next start. "
                  "Exactly once needs it.",
                  {}});
  rows.push_back({"pipelines[].delivery.position_topic",
                  [](Scope s) -> Field { return &s.pipeline->delivery.position_topic; },
                  "Compacted topic for the witness or the stored position; the relay makes it. "
                  "Several pipelines may share one.",
                  {}});
  rows.push_back({"pipelines[].delivery.on_slot_lost",
                  [](Scope s) -> Field { return word(s.pipeline->delivery.on_slot_lost); },
                  "The slot is missing or does not fit what is stored in Kafka. stop: end and say "
                  "which rows may be missing. recreate: make a new slot, log that gap and go on.",
                  {.words = {"stop", "recreate"}}});
  rows.push_back(
      {"pipelines[].delivery.on_expired",
       [](Scope s) -> Field { return word(s.pipeline->delivery.on_expired); },
       "An event older than its topic's retention, which Kafka may delete at once. warn: "
       "send it as it is. stamp_now: with the present time, its own in a header. stop: "
       "end.",
       {.words = {"warn", "stamp_now", "stop"}}});
  add_transaction_options(rows);
}

void add_dead_letter_options(std::vector<Option>& rows) {
  rows.push_back({"pipelines[].dead_letters.on_poison",
                  [](Scope s) -> Field { return word(s.pipeline->dead_letters.on_poison); },
                  "A row at fault. dead_letter: it leaves its place, later rows of its key go on. "
                  "park_key: they follow it, in order, until it is released or retried. stop: the "
                  "relay ends with exit code 65.",
                  {.words = {"dead_letter", "park_key", "stop"}}});
  rows.push_back({"pipelines[].dead_letters.on_topic_error",
                  [](Scope s) -> Field { return word(s.pipeline->dead_letters.on_topic_error); },
                  "A topic at fault. wait: not ready, until somebody makes or allows the topic. "
                  "stop: the relay ends. dead_letter: its rows become dead letters.",
                  {.words = {"wait", "stop", "dead_letter"}}});
  rows.push_back({"pipelines[].dead_letters.dsn",
                  [](Scope s) -> Field { return &s.pipeline->dead_letters.dsn; },
                  "Database with the table of dead letters, needed when the source is a standby, "
                  "which takes no writes. Empty: source.dsn.",
                  {.may_be_empty = true, .excluded_by = kLetterTopic, .conninfo = true}});
  rows.push_back({"pipelines[].dead_letters.topic",
                  [](Scope s) -> Field { return &s.pipeline->dead_letters.topic; },
                  "Topic for dead letters in place of the table. There is no retry from a topic, "
                  "and no park_key.",
                  {.may_be_empty = true}});
  rows.push_back({"pipelines[].dead_letters.parked_keys_max",
                  [](Scope s) -> Field { return &s.pipeline->dead_letters.parked_keys_max; },
                  "Keys parked at once under park_key. At one more the relay pauses, not ready, "
                  "until one is released.",
                  {.min = 1, .max = 10'000'000}});
  rows.push_back({"pipelines[].dead_letters.burst",
                  [](Scope s) -> Field { return &s.pipeline->dead_letters.burst; },
                  "So many dead letters at once; then per_minute. When more come the relay pauses, "
                  "not ready, for then something else than the rows is wrong.",
                  {.min = 1, .max = 1'000'000}});
  rows.push_back({"pipelines[].dead_letters.per_minute",
                  [](Scope s) -> Field { return &s.pipeline->dead_letters.per_minute; },
                  "So many dead letters a minute in the long run.",
                  {.min = 1, .max = 1'000'000}});
  add_retry_options(rows);
}

}  // namespace outrider
