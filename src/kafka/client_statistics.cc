#include "kafka/client_statistics.h"

#include <charconv>
#include <span>
#include <string_view>

#include "outrider/base/json_reader.h"

namespace outrider {
namespace {

constexpr double kMicro = 1e-6;
constexpr double kMilli = 1e-3;

std::int64_t integer(const JsonValue& value) {
  std::int64_t number = 0;
  if (value.kind == JsonValue::Kind::number) {
    std::from_chars(value.text.data(), value.text.data() + value.text.size(), number);
  }
  return number;
}

std::uint64_t count(const JsonValue& value) {
  const std::int64_t number = integer(value);
  return number < 0 ? 0 : static_cast<std::uint64_t>(number);
}

/// Calls each(name, value) for every member that is no object or array; nested(name) says whether
/// it has taken the member that is one.
template <typename Each, typename Nested>
void walk(JsonReader& json, Each&& each, Nested&& nested) {
  if (!json.open('{')) return;
  bool first = true;
  std::string_view name;
  while (json.ok() && json.next_member(first, name)) {
    const std::string_view member = name;
    if (json.at_bracket('{') && nested(member)) continue;
    JsonValue value;
    if (!json.value(value)) return;
    each(member, value);
  }
}

struct Window {
  double avg = 0;
  double p99 = 0;
};

Window read_window(JsonReader& json) {
  Window window;
  walk(
      json,
      [&window](std::string_view name, const JsonValue& value) {
        if (name == "avg") window.avg = static_cast<double>(integer(value));
        if (name == "p99") window.p99 = static_cast<double>(integer(value));
      },
      [](std::string_view) { return false; });
  return window;
}

void read_broker(JsonReader& json, ClientStatistics& out) {
  BrokerStatistics broker;
  broker.id = -1;
  walk(
      json,
      [&](std::string_view name, const JsonValue& value) {
        if (name == "nodeid") broker.id = integer(value);
        if (name == "state") broker.up = value.text == "UP";
        if (name == "txbytes") out.sent_bytes += count(value);
        if (name == "txretries") out.retries += count(value);
        if (name == "req_timeouts") out.request_timeouts += count(value);
        if (name == "connects") out.connects += count(value);
        if (name == "disconnects") out.disconnects += count(value);
      },
      [&](std::string_view name) {
        if (name == "rtt") {
          const Window rtt = read_window(json);
          broker.rtt_avg_s = rtt.avg * kMicro;
          broker.rtt_p99_s = rtt.p99 * kMicro;
        } else if (name == "throttle") {
          broker.throttle_avg_s = read_window(json).avg * kMilli;
        } else {
          return false;
        }
        return true;
      });
  // The coordinator's own connection comes under the id of its broker as well.
  for (const BrokerStatistics& known : out.brokers) {
    if (known.id == broker.id) return;
  }
  if (broker.id >= 0 && out.brokers.size() < ClientStatistics::kBrokersMax) {
    out.brokers.push_back(broker);
  }
}

void read_brokers(JsonReader& json, ClientStatistics& out) {
  walk(
      json, [](std::string_view, const JsonValue&) {},
      [&](std::string_view) {
        read_broker(json, out);
        return true;
      });
}

/// Partition -1 is librdkafka's place for records that have none yet.
std::int32_t count_partitions(JsonReader& json) {
  std::int32_t count = 0;
  walk(
      json, [](std::string_view, const JsonValue&) {},
      [&](std::string_view id) {
        count += id.starts_with("-") ? 0 : 1;
        return false;
      });
  return count;
}

void read_topics(JsonReader& json, ClientStatistics& out) {
  const auto read_topic = [&](std::string_view topic) {
    walk(
        json, [](std::string_view, const JsonValue&) {},
        [&](std::string_view name) {
          if (name != "partitions") return false;
          out.partitions[std::string(topic)] = count_partitions(json);
          return true;
        });
    return true;
  };
  walk(
      json, [](std::string_view, const JsonValue&) {}, read_topic);
}

}  // namespace

std::optional<ClientStatistics> read_client_statistics(std::string json) {
  const bool with_topics = json.size() <= ClientStatistics::kTopicsBytesMax;
  JsonReader reader(std::span<char>(json.data(), json.size()));
  ClientStatistics out;
  if (!reader.open('{')) return std::nullopt;
  bool first = true;
  std::string_view name;
  while (reader.ok() && reader.next_member(first, name)) {
    if (name == "topics" && !with_topics) return out;
    if (name == "topics" && reader.at_bracket('{')) {
      read_topics(reader, out);
      continue;
    }
    if (name == "brokers" && reader.at_bracket('{')) {
      read_brokers(reader, out);
      continue;
    }
    const std::string_view member = name;
    JsonValue value;
    if (!reader.value(value)) return std::nullopt;
    if (member == "msg_cnt") out.queue_records = count(value);
    if (member == "msg_size") out.queue_bytes = count(value);
  }
  return reader.ok() ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace outrider
