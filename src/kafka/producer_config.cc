#include "kafka/producer_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <string_view>

#include "kafka/client_conf.h"
#include "kafka/record_size.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxInFlightRequests = 5;  // More, and idempotence does not hold.

struct Setting {
  const char* name;
  const char* value;
};

// Set before the operator's own properties, which may change them.
constexpr Setting kDefaults[] = {
    {"client.id", "outrider"},
    {"partitioner", "murmur2_random"},  // The Java client's choice of partition.
    {"compression.codec", "lz4"},
    // Idle it is pure latency, in load it fills batches; the bench decides, not this comment.
    {"linger.ms", "2"},
    {"max.in.flight.requests.per.connection", "5"},
    // An outage of minutes must not cost another ten seconds after its end.
    {"reconnect.backoff.ms", "50"},
    {"reconnect.backoff.max.ms", "1000"},
    {"socket.connection.setup.timeout.ms", "10000"},
    {"socket.keepalive.enable", "true"},
    // How soon the leaders of a topic made a moment ago are looked up again.
    {"topic.metadata.refresh.fast.interval.ms", "100"},
    // Brokers close idle connections; that is no event (field reports of false alarms).
    {"log.connection.close", "false"},
    {"statistics.interval.ms", "5000"},  // For the metrics of kafka/client_statistics.h.
};

// Set after the operator's properties: the delivery contract stands on these.
constexpr Setting kContract[] = {
    {"enable.idempotence", "true"},
    {"acks", "all"},
    // A refused batch stops the producer instead of letting later records of a key overtake it.
    {"enable.gapless.guarantee", "true"},
    {"message.timeout.ms", "0"},  // No local expiry: the backlog waits in the WAL.
    {"delivery.report.only.error", "false"},
    {"allow.auto.create.topics", "false"},
    {"log.queue", "true"},
};

// For the reader of the position topic, after the operator's properties.
constexpr Setting kReader[] = {
    {"isolation.level", "read_committed"},
    {"enable.partition.eof", "true"},
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"auto.offset.reset", "earliest"},
    {"allow.auto.create.topics", "false"},
    {"check.crcs", "true"},
    // The end of the topic is told by an answer that brings nothing, and that waits so long.
    {"fetch.wait.max.ms", "5"},
    {"fetch.error.backoff.ms", "50"},
    {"reconnect.backoff.ms", "50"},
    {"reconnect.backoff.max.ms", "1000"},
    {"topic.metadata.refresh.fast.interval.ms", "50"},
    {"log.connection.close", "false"},
    {"statistics.interval.ms", "0"},
    {"log.queue", "true"},
};

// The value is the only one allowed (several with |); an empty one: never.
struct Refusal {
  const char* name;
  const char* allowed;
  const char* reason;
};

constexpr Refusal kRefusals[] = {
    {"acks", "all|-1", "an acknowledgement of fewer replicas can lose acknowledged records"},
    {"request.required.acks", "all|-1",
     "an acknowledgement of fewer replicas can lose acknowledged records"},
    {"enable.idempotence", "true", "without it retries reorder and repeat records"},
    {"enable.gapless.guarantee", "true",
     "without it later records of a key overtake one that was refused"},
    {"delivery.report.only.error", "false",
     "without reports of success no position could ever be confirmed"},
    {"message.timeout.ms", "0", "a record that expires locally would be a gap"},
    {"delivery.timeout.ms", "0", "a record that expires locally would be a gap"},
    {"retries", "2147483647", "a record must be retried until the broker decides"},
    {"message.send.max.retries", "2147483647", "a record must be retried until the broker decides"},
    {"queuing.strategy", "fifo", "any other order breaks the order per key"},
    {"partitioner", "murmur2_random|murmur2|consistent|consistent_random|fnv1a|fnv1a_random",
     "records of one key must go to one partition"},
    {"allow.auto.create.topics", "false", "topics are created by kafka.topics.create"},
    {"log.queue", "true", "log lines come through the relay's loop"},
    {"api.version.request", "true", "idempotence needs the broker's versions"},
    {"transactional.id", "", "it is made from the names of system, database and slot"},
    {"transaction.timeout.ms", "", "set delivery.transaction_timeout_ms instead"},
    {"group.id", "", "the relay consumes in no group"},
    {"isolation.level", "read_committed", "positions are read only when they are committed"},
    {"bootstrap.servers", "", "set kafka.bootstrap_servers instead"},
    {"metadata.broker.list", "", "set kafka.bootstrap_servers instead"},
    {"topic.blacklist", "", "records of such a topic would wait for ever"},
    {"plugin.library.paths", "", "foreign code must not run in the relay"},
    {"interceptors", "", "foreign code must not run in the relay"},
    {"internal.termination.signal", "", "signals belong to the relay's loop"},
    {"enabled_events", "", "events belong to the relay's loop"},
    {"opaque", "", "it belongs to the relay"},
    {"default_topic_conf", "", "set topic properties by their own name"},
    {"msg_order_cmp", "", "any other order breaks the order per key"},
    {"ssl_engine_callback_data", "", "it belongs to the relay"},
};

bool contains(std::string_view list, std::string_view value) {
  while (!list.empty()) {
    const std::size_t bar = list.find('|');
    if (list.substr(0, bar) == value) return true;
    if (bar == std::string_view::npos) break;
    list.remove_prefix(bar + 1);
  }
  return false;
}

tl::unexpected<Error> refuse(const std::string& name, std::string_view reason) {
  return fail(ErrorKind::configuration,
              "kafka property \"" + name + "\" cannot be set like that: " + std::string(reason),
              "remove \"" + name + "\" from kafka.properties");
}

std::optional<std::int64_t> parse_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<> check_property(const std::string& name, const std::string& value) {
  for (const Refusal& row : kRefusals) {
    if (name == row.name && !contains(row.allowed, value)) return refuse(name, row.reason);
  }
  if (name.starts_with("test.")) return refuse(name, "records would go nowhere");
  if (name.ends_with("_cb")) return refuse(name, "callbacks would run outside the relay's loop");
  if (name == "max.in.flight" || name == "max.in.flight.requests.per.connection") {
    const auto number = parse_number(value);
    if (number && (*number < 1 || *number > kMaxInFlightRequests)) {
      return refuse(name, "only 1 to 5 requests under way keep the order of records");
    }
  }
  if ((name == "sasl.mechanism" || name == "sasl.mechanisms") && value == "OAUTHBEARER") {
    return refuse(name,
                  "login by OAUTHBEARER is not supported, use SCRAM-SHA-512, PLAIN, GSSAPI "
                  "or a client certificate");
  }
  return {};
}

Result<> set_all(rd_kafka_conf_t* conf,
                 std::initializer_list<std::pair<const char*, std::int64_t>> settings) {
  for (const auto& [name, value] : settings) {
    OUTRIDER_TRY(set_property(conf, name, std::to_string(value)));
  }
  return {};
}

// The flow gate is the limit, so the client's own queue gets twice its room: records count there
// until their report is taken. The gate may overshoot by one record of any size the client sends.
Result<> set_queue_limits(rd_kafka_conf_t* conf, const ProducerSettings& settings) {
  constexpr std::int64_t kSlackRecords = 1'000;
  constexpr std::int64_t kSlackKbytes = 8 * 1024;
  constexpr std::int64_t kRecordsMax = 10'000'000;
  constexpr std::int64_t kKbytesMax = 2'000'000'000;
  const std::int64_t records =
      std::min(2 * settings.in_flight_records_max + kSlackRecords, kRecordsMax);
  const auto raised = settings.properties.find("message.max.bytes");
  const std::int64_t largest_bytes =
      raised == settings.properties.end() ? 0 : parse_number(raised->second).value_or(0);
  const std::int64_t kbytes = std::min(
      2 * (settings.in_flight_bytes_max / 1024) + largest_bytes / 1024 + kSlackKbytes, kKbytesMax);
  return set_all(
      conf, {{"queue.buffering.max.messages", records}, {"queue.buffering.max.kbytes", kbytes}});
}

Result<> check_servers(const ProducerSettings& settings) {
  if (!settings.bootstrap_servers.empty()) return {};
  return fail(ErrorKind::configuration, "\"kafka.bootstrap_servers\" is empty",
              "set kafka.bootstrap_servers to host:port of one or more brokers");
}

// A record may not outlive its transaction. The gapless guarantee means nothing to a producer with
// transactions: a refused batch makes the whole transaction one to be aborted.
Result<> set_transactions(rd_kafka_conf_t* conf, const ProducerSettings& settings,
                          const std::string& transactional_id) {
  const std::string timeout = std::to_string(settings.delivery.transaction_timeout_ms);
  OUTRIDER_TRY(set_property(conf, "transactional.id", transactional_id));
  OUTRIDER_TRY(set_property(conf, "transaction.timeout.ms", timeout));
  return set_property(conf, "message.timeout.ms", timeout);
}

}  // namespace

Result<> set_property(rd_kafka_conf_t* conf, const std::string& name, const std::string& value) {
  std::array<char, 512> text{};
  if (rd_kafka_conf_set(conf, name.c_str(), value.c_str(), text.data(), text.size()) ==
      RD_KAFKA_CONF_OK) {
    return {};
  }
  return fail(ErrorKind::configuration,
              "kafka property \"" + name + "\" is not accepted: " + text.data(),
              "correct or remove \"" + name + "\" in kafka.properties");
}

std::string get_property(const rd_kafka_conf_t* conf, const char* name) {
  std::array<char, 512> value{};
  std::size_t size = value.size();
  if (rd_kafka_conf_get(conf, name, value.data(), &size) != RD_KAFKA_CONF_OK) return {};
  return value.data();
}

std::int64_t get_number(const rd_kafka_conf_t* conf, const char* name) {
  return parse_number(get_property(conf, name)).value_or(0);
}

Result<ConfHandle> make_producer_conf(const ProducerSettings& settings,
                                      const std::string& transactional_id) {
  OUTRIDER_TRY(check_servers(settings));
  ConfHandle conf(rd_kafka_conf_new());
  for (const Setting& setting : kDefaults) {
    OUTRIDER_TRY(set_property(conf.get(), setting.name, setting.value));
  }
  OUTRIDER_TRY(set_queue_limits(conf.get(), settings));
  for (const auto& [name, value] : settings.properties) {
    OUTRIDER_TRY(check_property(name, value));
    OUTRIDER_TRY(set_property(conf.get(), name, value));
  }
  for (const Setting& setting : kContract) {
    OUTRIDER_TRY(set_property(conf.get(), setting.name, setting.value));
  }
  OUTRIDER_TRY(set_property(conf.get(), "bootstrap.servers", settings.bootstrap_servers));
  if (!transactional_id.empty()) {
    OUTRIDER_TRY(set_transactions(conf.get(), settings, transactional_id));
  }
  return conf;
}

Result<ConfHandle> make_reader_conf(const ProducerSettings& settings) {
  OUTRIDER_TRY(check_servers(settings));
  ConfHandle conf(rd_kafka_conf_new());
  OUTRIDER_TRY(set_property(conf.get(), "client.id", "outrider"));
  for (const auto& [name, value] : settings.properties) {
    OUTRIDER_TRY(set_property(conf.get(), name, value));
  }
  for (const Setting& setting : kReader) {
    OUTRIDER_TRY(set_property(conf.get(), setting.name, setting.value));
  }
  OUTRIDER_TRY(set_property(conf.get(), "bootstrap.servers", settings.bootstrap_servers));
  return conf;
}

Result<> check_producer_settings(const ProducerSettings& settings) {
  const bool exactly_once = settings.delivery.guarantee == Delivery::exactly_once;
  OUTRIDER_TRY(const ConfHandle conf, make_producer_conf(settings, exactly_once ? "check" : ""));
  if (!exactly_once && !settings.delivery.witness) return {};
  if (!is_legal_topic(settings.delivery.position_topic)) {
    return fail(ErrorKind::configuration,
                "delivery.position_topic \"" + settings.delivery.position_topic +
                    "\" is no legal topic name",
                "use a name of at most 249 letters, digits, dots, underscores and hyphens");
  }
  if (exactly_once &&
      settings.delivery.transaction_timeout_ms <= settings.delivery.transaction_max_ms) {
    return fail(ErrorKind::configuration,
                "delivery.transaction_timeout_ms " +
                    std::to_string(settings.delivery.transaction_timeout_ms) +
                    " is not above delivery.transaction_max_ms " +
                    std::to_string(settings.delivery.transaction_max_ms),
                "raise delivery.transaction_timeout_ms, or lower delivery.transaction_max_ms");
  }
  return {};
}

}  // namespace outrider
