#include "demo/consumer.h"

#include <librdkafka/rdkafka.h>

#include <array>
#include <cstring>
#include <utility>

#include "demo/interrupt.h"

namespace outrider::demo {
namespace {

using namespace std::chrono_literals;

constexpr int kQueryTimeoutMs = 1'000;

Result<rd_kafka_t*> make_client(const std::string& bootstrap_servers, bool quick_fetch) {
  const std::array<std::pair<const char*, std::string>, 6> properties = {{
      {"bootstrap.servers", bootstrap_servers},
      {"client.id", "outrider-demo-consumer"},
      {"fetch.wait.max.ms", quick_fetch ? "2" : "100"},
      {"fetch.error.backoff.ms", "20"},
      {"reconnect.backoff.ms", "20"},
      {"reconnect.backoff.max.ms", "200"},
  }};
  std::array<char, 256> text{};
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  rd_kafka_conf_set_log_cb(conf, nullptr);
  for (const auto& [name, value] : properties) {
    if (rd_kafka_conf_set(conf, name, value.c_str(), text.data(), text.size()) !=
        RD_KAFKA_CONF_OK) {
      rd_kafka_conf_destroy(conf);
      return fail(ErrorKind::configuration, text.data());
    }
  }
  rd_kafka_t* client = rd_kafka_new(RD_KAFKA_CONSUMER, conf, text.data(), text.size());
  if (client == nullptr) {
    rd_kafka_conf_destroy(conf);
    return fail(ErrorKind::configuration, text.data());
  }
  return client;
}

/// Where a partition ends now. A topic just made may have no leader for a moment.
Result<std::int64_t> end_offset(rd_kafka_t* client, const std::string& topic,
                                std::int32_t partition) {
  const auto limit = std::chrono::steady_clock::now() + 10s;
  for (;;) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    const rd_kafka_resp_err_t code = rd_kafka_query_watermark_offsets(
        client, topic.c_str(), partition, &low, &high, kQueryTimeoutMs);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) return high;
    if (std::chrono::steady_clock::now() > limit) {
      return fail(ErrorKind::configuration,
                  "cannot read topic \"" + topic + "\": " + rd_kafka_err2str(code),
                  "check that the broker can be reached from here", rd_kafka_err2name(code));
    }
    OUTRIDER_TRY(sleep_for(50ms));
  }
}

std::string id_header(const rd_kafka_message_t* message) {
  rd_kafka_headers_t* headers = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  if (rd_kafka_message_headers(message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
      rd_kafka_header_get_last(headers, "id", &value, &size) != RD_KAFKA_RESP_ERR_NO_ERROR ||
      value == nullptr) {
    return {};
  }
  return {static_cast<const char*>(value), size};
}

std::string text_of(const void* data, std::size_t size) {
  return data == nullptr ? std::string() : std::string(static_cast<const char*>(data), size);
}

}  // namespace

struct Consumer::Client {
  rd_kafka_t* client = nullptr;
  rd_kafka_queue_t* queue = nullptr;
  std::vector<std::pair<rd_kafka_topic_t*, int>> topics;

  ~Client() {
    for (const auto& [topic, partitions] : topics) {
      for (std::int32_t partition = 0; partition < partitions; ++partition) {
        rd_kafka_consume_stop(topic, partition);
      }
      rd_kafka_topic_destroy(topic);
    }
    if (queue != nullptr) rd_kafka_queue_destroy(queue);
    if (client != nullptr) rd_kafka_destroy_flags(client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
  }
};

Result<Consumer> Consumer::create(const std::string& bootstrap_servers,
                                  const std::vector<std::string>& topics, int partitions,
                                  bool quick_fetch) {
  auto client = std::make_unique<Client>();
  OUTRIDER_TRY(client->client, make_client(bootstrap_servers, quick_fetch));
  client->queue = rd_kafka_queue_new(client->client);
  for (const std::string& name : topics) {
    rd_kafka_topic_t* topic = rd_kafka_topic_new(client->client, name.c_str(), nullptr);
    client->topics.emplace_back(topic, 0);
    for (std::int32_t partition = 0; partition < partitions; ++partition) {
      OUTRIDER_TRY(std::int64_t begin, end_offset(client->client, name, partition));
      if (rd_kafka_consume_start_queue(topic, partition, begin, client->queue) != 0) {
        return fail(ErrorKind::fatal, "cannot read topic \"" + name + "\"");
      }
      client->topics.back().second = partition + 1;
    }
  }
  return Consumer(std::move(client));
}

Consumer::Consumer(std::unique_ptr<Client> client) : client_(std::move(client)) {}
Consumer::~Consumer() = default;
Consumer::Consumer(Consumer&&) noexcept = default;
Consumer& Consumer::operator=(Consumer&&) noexcept = default;

std::optional<ReadRecord> Consumer::next(std::chrono::milliseconds wait) {
  rd_kafka_message_t* message =
      rd_kafka_consume_queue(client_->queue, static_cast<int>(wait.count()));
  if (message == nullptr) return std::nullopt;
  std::optional<ReadRecord> record;
  // Anything else is an outage, and the client comes back by itself.
  if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    record = ReadRecord{rd_kafka_topic_name(message->rkt),
                        message->partition,
                        message->offset,
                        text_of(message->key, message->key_len),
                        text_of(message->payload, message->len),
                        id_header(message),
                        std::chrono::steady_clock::now()};
  }
  rd_kafka_message_destroy(message);
  return record;
}

}  // namespace outrider::demo
