#include "kafka/hand_over.h"

#include <array>
#include <optional>
#include <string_view>

namespace outrider {
namespace {

// A string_view of nothing may point nowhere, and to librdkafka that is null.
const void* bytes_of(std::string_view text) { return text.data() == nullptr ? "" : text.data(); }

HeadersHandle make_headers(const KafkaRecord& record) {
  HeadersHandle headers(rd_kafka_headers_new(record.headers.size()));
  for (const RecordHeader& header : record.headers) {
    // Cannot fail on a list that is not read-only; names and values are copied.
    static_cast<void>(rd_kafka_header_add(
        headers.get(), static_cast<const char*>(bytes_of(header.name)),
        static_cast<ssize_t>(header.name.size()), header.value ? bytes_of(*header.value) : nullptr,
        header.value ? static_cast<ssize_t>(header.value->size()) : 0));
  }
  return headers;
}

rd_kafka_vu_t tagged(rd_kafka_vtype_t type) {
  rd_kafka_vu_t value{};
  value.vtype = type;
  return value;
}

rd_kafka_vu_t bytes(rd_kafka_vtype_t type, const std::optional<std::string_view>& content) {
  rd_kafka_vu_t value = tagged(type);
  // The library copies from here (RD_KAFKA_MSG_F_COPY) and does not write.
  value.u.mem.ptr = content ? const_cast<void*>(bytes_of(*content)) : nullptr;
  value.u.mem.size = content ? content->size() : 0;
  return value;
}

}  // namespace

ErrorHandle hand_over(rd_kafka_t* client, rd_kafka_topic_t* topic, const KafkaRecord& record,
                      std::uintptr_t opaque) {
  HeadersHandle headers = make_headers(record);
  std::array<rd_kafka_vu_t, 8> fields{};
  fields[0] = tagged(RD_KAFKA_VTYPE_RKT);
  fields[0].u.rkt = topic;
  fields[1] = tagged(RD_KAFKA_VTYPE_PARTITION);
  fields[1].u.i32 = record.partition.value_or(RD_KAFKA_PARTITION_UA);
  fields[2] = bytes(RD_KAFKA_VTYPE_KEY, record.key);
  fields[3] = bytes(RD_KAFKA_VTYPE_VALUE, record.value);
  fields[4] = tagged(RD_KAFKA_VTYPE_TIMESTAMP);
  fields[4].u.i64 = record.timestamp_ms;
  fields[5] = tagged(RD_KAFKA_VTYPE_MSGFLAGS);
  fields[5].u.i = RD_KAFKA_MSG_F_COPY;
  fields[6] = tagged(RD_KAFKA_VTYPE_OPAQUE);
  fields[6].u.ptr = reinterpret_cast<void*>(opaque);
  fields[7] = tagged(RD_KAFKA_VTYPE_HEADERS);
  fields[7].u.headers = headers.get();
  ErrorHandle error(rd_kafka_produceva(client, fields.data(), fields.size()));
  if (error == nullptr) static_cast<void>(headers.release());  // The library's, only on success.
  return error;
}

}  // namespace outrider
