// DeadLetter: one outbox row that did not become a record, with all that is needed to send it
// again.
//
// Views where the relay hands it over (they live as long as the row does), owned text where the
// place hands it back. A row is named by the server, the slot and its place in the WAL; the same
// row refused again after a crash is the same dead letter (docs/DELIVERY.md).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "outrider/base/clock.h"
#include "outrider/base/lsn.h"
#include "outrider/model/kafka_record.h"

namespace outrider {

/// Names one outbox row within the WAL of one server: its transaction, by the start of the commit
/// record, and its index among the outbox rows of that transaction, from 0.
struct RowPlace {
  Lsn commit_lsn;
  std::uint64_t index = 0;

  auto operator<=>(const RowPlace&) const = default;
};

enum class DeadLetterReason : std::uint8_t {
  unroutable,      ///< No topic, no key, a header that cannot be made: the row's own content.
  undecodable,     ///< The plugin's bytes make no sense.
  too_large,       ///< For the client, the topic or the broker.
  bad_timestamp,   ///< Outside what the topic accepts.
  refused,         ///< The broker refused it alone, for another reason.
  topic_missing,   ///< on_topic_error: dead_letter
  not_authorised,  ///< on_topic_error: dead_letter
  key_parked,      ///< An earlier row of the key is parked.
};

/// The word in the table, in metrics and in the command's filters.
inline constexpr std::array<std::pair<DeadLetterReason, const char*>, 8> kDeadLetterReasons = {{
    {DeadLetterReason::unroutable, "unroutable"},
    {DeadLetterReason::undecodable, "undecodable"},
    {DeadLetterReason::too_large, "too_large"},
    {DeadLetterReason::bad_timestamp, "bad_timestamp"},
    {DeadLetterReason::refused, "refused"},
    {DeadLetterReason::topic_missing, "topic_missing"},
    {DeadLetterReason::not_authorised, "not_authorised"},
    {DeadLetterReason::key_parked, "key_parked"},
}};

constexpr const char* to_string(DeadLetterReason reason) {
  for (const auto& [each, word] : kDeadLetterReasons) {
    if (each == reason) {
      return word;
    }
  }
  return "refused";
}

constexpr std::optional<DeadLetterReason> parse_dead_letter_reason(std::string_view word) {
  for (const auto& [reason, each] : kDeadLetterReasons) {
    if (word == each) {
      return reason;
    }
  }
  return std::nullopt;
}

/// A row on its way to the place.
struct DeadLetter {
  RowPlace row;
  std::uint32_t xid = 0;
  WallTime commit_time{};
  OutboxEvent event;
  /// The record as it would have been sent; nothing when the row could not be mapped.
  const KafkaRecord* record = nullptr;
  /// The columns as they came, when there is no record: JSON object of column to text or null, or
  /// the plugin's raw bytes when they could not be decoded.
  std::string_view raw_row;
  DeadLetterReason reason = DeadLetterReason::refused;
  std::string_view code;     ///< The library's or server's name of the error, may be empty.
  std::string_view message;  ///< For people; never payload text.
  /// Under park_key: what later rows of the same key are recognised by; nothing parks alone.
  std::optional<std::string_view> parked_key;
  std::uint32_t attempts = 1;  ///< Refusals so far; 0 for a follower of a parked key.
};

/// A dead letter read back, to be sent again.
struct StoredLetter {
  std::int64_t number = 0;  ///< Of the place; ascending in the order the rows were stored.
  RowPlace row;
  WallTime commit_time{};
  std::string table;
  std::string event_id;
  std::string event_type;
  std::string aggregate_id;
  bool mapped = false;  ///< The fields below are the record; else raw_row has to be mapped anew.
  std::string topic;
  std::optional<std::int32_t> partition;
  std::optional<std::string> key;
  std::optional<std::string> value;
  std::vector<std::pair<std::string, std::optional<std::string>>> headers;
  std::int64_t timestamp_ms = 0;
  std::string raw_row;
  DeadLetterReason reason = DeadLetterReason::refused;
  std::optional<std::string> parked_key;
  std::uint32_t attempts = 0;
  std::string code;  ///< Of the last refusal, as DeadLetter's.
  std::string message;
  std::optional<WallTime> failed_at;    ///< Of the last refusal.
  std::optional<WallTime> retry_after;  ///< Earliest automatic retry.
};

}  // namespace outrider
