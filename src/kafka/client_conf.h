// From ProducerSettings to librdkafka's configuration object. Private to the room.
#pragma once

#include <cstdint>
#include <string>

#include "kafka/handles.h"
#include "kafka/producer_config.h"

namespace outrider {

/// The whole producer configuration: ours, then the operator's, then what must not be changed. With
/// a transactional id the producer has transactions.
Result<ConfHandle> make_producer_conf(const ProducerSettings& settings,
                                      const std::string& transactional_id = {});

/// A consumer without a group that reads what is committed, for the position topic.
Result<ConfHandle> make_reader_conf(const ProducerSettings& settings);

/// Set one property; a configuration error carries librdkafka's text.
Result<> set_property(rd_kafka_conf_t* conf, const std::string& name, const std::string& value);

/// The effective value of a property, empty if it has none.
std::string get_property(const rd_kafka_conf_t* conf, const char* name);

/// The effective value of a numeric property, 0 if it has none.
std::int64_t get_number(const rd_kafka_conf_t* conf, const char* name);

}  // namespace outrider
