#include "kafka/record_size.h"

#include <algorithm>
#include <string>

namespace outrider {
namespace {

constexpr std::int64_t kBatchHeaderBytes = 61;
/// Attributes, timestamp delta and offset delta of a first record: one byte each.
constexpr std::int64_t kRecordPrefixBytes = 3;
constexpr std::size_t kTopicNameMax = 249;

std::int64_t varint_bytes(std::int64_t value) {
  std::uint64_t zigzag = static_cast<std::uint64_t>(value) << 1;  // Lengths are not negative.
  std::int64_t bytes = 1;
  while (zigzag >= 0x80) {
    zigzag >>= 7;
    ++bytes;
  }
  return bytes;
}

std::int64_t field_bytes(std::int64_t size) { return varint_bytes(size) + size; }

// A null is the length -1, one byte.
std::int64_t field_bytes(const std::optional<std::string_view>& value) {
  return value ? field_bytes(static_cast<std::int64_t>(value->size())) : 1;
}

bool is_topic_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

std::int64_t lone_batch_bytes(const KafkaRecord& record) {
  std::int64_t bytes = kRecordPrefixBytes + field_bytes(record.key) + field_bytes(record.value);
  bytes += varint_bytes(static_cast<std::int64_t>(record.headers.size()));
  for (const RecordHeader& header : record.headers) {
    bytes += field_bytes(static_cast<std::int64_t>(header.name.size()));
    bytes += field_bytes(header.value);
  }
  return kBatchHeaderBytes + field_bytes(bytes);
}

bool is_legal_topic(std::string_view topic) {
  if (topic.empty() || topic.size() > kTopicNameMax || topic == "." || topic == "..") return false;
  return std::ranges::all_of(topic, is_topic_character);
}

Result<> check_record(const KafkaRecord& record) {
  if (!is_legal_topic(record.topic)) {
    return fail(ErrorKind::poison,
                "topic name \"" + std::string(record.topic.substr(0, kTopicNameMax)) +
                    "\" is not legal in Kafka",
                "route the row to a name of at most 249 letters, digits, dots, underscores and "
                "hyphens");
  }
  if (record.partition && *record.partition < 0) {
    return fail(ErrorKind::poison,
                "partition " + std::to_string(*record.partition) + " of topic \"" +
                    std::string(record.topic) + "\" cannot exist",
                "correct the column that names the partition");
  }
  return {};
}

}  // namespace outrider
