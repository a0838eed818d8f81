#include "outrider/relay/dead_letter_record.h"

#include <chrono>
#include <utility>

namespace outrider {

void DeadLetterRecord::add(std::string_view name, std::string text) {
  texts_.push_back(std::move(text));
  record_.headers.push_back({name, texts_.back()});
}

const KafkaRecord& DeadLetterRecord::make(const DeadLetter& letter, std::string_view topic,
                                          WallTime now) {
  texts_.clear();
  record_ = KafkaRecord{};
  if (letter.record != nullptr) {
    record_.key = letter.record->key;
    record_.value = letter.record->value;
    record_.headers = letter.record->headers;
  } else {
    record_.value = letter.raw_row;
  }
  record_.topic = topic;
  record_.timestamp_ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  add("outrider.dead_letter.reason", to_string(letter.reason));
  add("outrider.dead_letter.code", std::string(letter.code));
  add("outrider.dead_letter.message", std::string(letter.message));
  add("outrider.dead_letter.table", std::string(letter.event.table));
  add("outrider.dead_letter.event_id", std::string(letter.event.event_id));
  add("outrider.dead_letter.event_type", std::string(letter.event.event_type));
  add("outrider.dead_letter.aggregate_id", std::string(letter.event.aggregate_id));
  add("outrider.dead_letter.commit_lsn", letter.row.commit_lsn.to_string());
  add("outrider.dead_letter.index", std::to_string(letter.row.index));
  add("outrider.dead_letter.xid", std::to_string(letter.xid));
  if (letter.record != nullptr) {
    add("outrider.dead_letter.topic", std::string(letter.record->topic));
    add("outrider.dead_letter.timestamp", std::to_string(letter.record->timestamp_ms));
    if (letter.record->partition) {
      add("outrider.dead_letter.partition", std::to_string(*letter.record->partition));
    }
  }
  return record_;
}

}  // namespace outrider
