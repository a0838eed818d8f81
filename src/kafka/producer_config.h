// ProducerSettings: what the operator said about Kafka, with secrets resolved, as plain data.
//
// check_producer_settings() is what check-config and create() both ask: properties that would break
// the delivery contract are refused with the reason, unknown ones with librdkafka's own text; both
// are configuration errors. Which values we set ourselves, and why, stands in the .cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "outrider/base/result.h"
#include "outrider/config/config.h"

namespace outrider {

struct ProducerSettings {
  std::string bootstrap_servers;
  std::map<std::string, std::string> properties;  ///< Passed through to librdkafka.
  TopicConfig topics;
  std::int64_t in_flight_records_max = LimitConfig{}.in_flight_records_max;
  std::int64_t in_flight_bytes_max = LimitConfig{}.in_flight_bytes_max;
  DeliveryConfig delivery;
  std::int64_t login_patience_ms = 10'000;  ///< Refused logins for so long at start end the relay.
};

/// No connection is made; files named in properties (keys, certificates) are not opened.
Result<> check_producer_settings(const ProducerSettings& settings);

}  // namespace outrider
