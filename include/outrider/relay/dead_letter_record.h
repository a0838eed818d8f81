// DeadLetterRecord: a dead letter as a record, for a dead-letter topic.
//
// Key, value and headers are those of the row where it could be mapped; the reason and where the
// row came from stand in headers that begin with "outrider.dead_letter." (docs/RECORDS.md). Owns
// the text that the record's views point to. Thread: loop. Pure.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "outrider/model/dead_letter.h"
#include "outrider/model/kafka_record.h"

namespace outrider {

class DeadLetterRecord {
 public:
  /// Valid until the next call; also holds views of the letter.
  const KafkaRecord& make(const DeadLetter& letter, std::string_view topic, WallTime now);

 private:
  void add(std::string_view name, std::string text);

  KafkaRecord record_;
  std::deque<std::string> texts_;
};

}  // namespace outrider
