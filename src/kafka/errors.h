// What a librdkafka error means for the relay: one table from code to kind and hint.
//
// A code without a row is transient: the outcome is unknown, so the producer is made anew and the
// stream rewinds; repeated for a minute that ends the relay, so nothing loops for ever.
#pragma once

#include <librdkafka/rdkafka.h>

#include <span>
#include <string>

#include "outrider/base/result.h"

namespace outrider {

struct KafkaErrorRow {
  rd_kafka_resp_err_t code;
  ErrorKind kind;
  const char* hint;  ///< One sentence, never empty.
};

/// Every row, for the test that walks the table.
std::span<const KafkaErrorRow> kafka_error_table();

/// The row of a code, nullptr if it has none.
const KafkaErrorRow* find_kafka_error(rd_kafka_resp_err_t code);

/// "what: librdkafka's text", with the kind, the hint and the name of the code.
Error kafka_error(rd_kafka_resp_err_t code, const std::string& what);

/// The record left the client because another one failed or a purge was asked for: never a cause.
bool is_purge(rd_kafka_resp_err_t code);

/// The broker or the client says that the topic does not exist.
bool is_missing_topic(rd_kafka_resp_err_t code);

}  // namespace outrider
