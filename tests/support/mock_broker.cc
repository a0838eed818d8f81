#include "support/mock_broker.h"

#include <array>
#include <stdexcept>

namespace outrider::test {
namespace {

constexpr int kTimeoutMs = 10'000;

void require(rd_kafka_resp_err_t code, const char* what) {
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    throw std::runtime_error(std::string(what) + ": " + rd_kafka_err2str(code));
  }
}

rd_kafka_t* make_client(rd_kafka_type_t type,
                        const std::vector<std::pair<const char*, std::string>>& properties) {
  std::array<char, 512> text{};
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  for (const auto& [name, value] : properties) {
    if (rd_kafka_conf_set(conf, name, value.c_str(), text.data(), text.size()) !=
        RD_KAFKA_CONF_OK) {
      rd_kafka_conf_destroy(conf);
      throw std::runtime_error(text.data());
    }
  }
  rd_kafka_t* client = rd_kafka_new(type, conf, text.data(), text.size());
  if (client == nullptr) {
    rd_kafka_conf_destroy(conf);
    throw std::runtime_error(text.data());
  }
  return client;
}

StoredRecord to_record(const rd_kafka_message_t& message) {
  StoredRecord record;
  record.partition = message.partition;
  if (message.key != nullptr) {
    record.key.emplace(static_cast<const char*>(message.key), message.key_len);
  }
  if (message.payload != nullptr) {
    record.value.emplace(static_cast<const char*>(message.payload), message.len);
  }
  record.timestamp_ms = rd_kafka_message_timestamp(&message, nullptr);
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR) return record;
  const char* name = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  for (std::size_t i = 0;
       rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
       ++i) {
    std::optional<std::string> content;
    if (value != nullptr) content.emplace(static_cast<const char*>(value), size);
    record.headers.emplace_back(name, std::move(content));
  }
  return record;
}

void read_partition(rd_kafka_t* client, rd_kafka_topic_t* topic, std::int32_t partition,
                    std::vector<StoredRecord>& records) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  require(rd_kafka_query_watermark_offsets(client, rd_kafka_topic_name(topic), partition, &low,
                                           &high, kTimeoutMs),
          "watermarks");
  if (low >= high) return;
  if (rd_kafka_consume_start(topic, partition, low) != 0) throw std::runtime_error("consume_start");
  for (std::int64_t next = low; next < high;) {
    rd_kafka_message_t* message = rd_kafka_consume(topic, partition, kTimeoutMs);
    if (message == nullptr) throw std::runtime_error("no record in time");
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      next = message->offset + 1;
      records.push_back(to_record(*message));
    }
    rd_kafka_message_destroy(message);
  }
  rd_kafka_consume_stop(topic, partition);
}

}  // namespace

struct MockBroker::Client {
  rd_kafka_t* client = nullptr;
  rd_kafka_mock_cluster_t* cluster = nullptr;
};

MockBroker::MockBroker(int brokers) : client_(std::make_unique<Client>()) {
  client_->client = make_client(RD_KAFKA_PRODUCER, {{"client.id", "mock"}, {"log_level", "0"}});
  client_->cluster = rd_kafka_mock_cluster_new(client_->client, brokers);
  if (client_->cluster == nullptr) throw std::runtime_error("no mock cluster");
  bootstrap_servers_ = rd_kafka_mock_cluster_bootstraps(client_->cluster);
}

MockBroker::~MockBroker() {
  rd_kafka_mock_cluster_destroy(client_->cluster);
  rd_kafka_destroy(client_->client);
}

void MockBroker::create_topic(const std::string& topic, int partitions) {
  require(rd_kafka_mock_topic_create(client_->cluster, topic.c_str(), partitions, 1), "topic");
}

void MockBroker::push_errors(std::int16_t request, const std::vector<rd_kafka_resp_err_t>& errors) {
  rd_kafka_mock_push_request_errors_array(client_->cluster, request, errors.size(), errors.data());
}

void MockBroker::clear_errors(std::int16_t request) {
  rd_kafka_mock_clear_request_errors(client_->cluster, request);
}

void MockBroker::set_topic_error(const std::string& topic, rd_kafka_resp_err_t error) {
  rd_kafka_mock_topic_set_error(client_->cluster, topic.c_str(), error);
}

void MockBroker::set_down() {
  require(rd_kafka_mock_broker_set_down(client_->cluster, -1), "down");
}

void MockBroker::set_up() { require(rd_kafka_mock_broker_set_up(client_->cluster, -1), "up"); }

void MockBroker::set_round_trip(std::chrono::milliseconds time, std::int32_t broker) {
  require(rd_kafka_mock_broker_set_rtt(client_->cluster, broker, static_cast<int>(time.count())),
          "round trip");
}

void MockBroker::set_leader(const std::string& topic, std::int32_t partition, std::int32_t broker) {
  require(rd_kafka_mock_partition_set_leader(client_->cluster, topic.c_str(), partition, broker),
          "leader");
}

std::vector<StoredRecord> read_topic(const std::string& bootstrap_servers,
                                     const std::string& topic) {
  rd_kafka_t* client = make_client(
      RD_KAFKA_CONSUMER,
      {{"bootstrap.servers", bootstrap_servers}, {"fetch.wait.max.ms", "10"}, {"log_level", "0"}});
  rd_kafka_topic_t* handle = rd_kafka_topic_new(client, topic.c_str(), nullptr);
  const rd_kafka_metadata_t* metadata = nullptr;
  std::vector<StoredRecord> records;
  require(rd_kafka_metadata(client, 0, handle, &metadata, kTimeoutMs), "metadata");
  const int partitions = metadata->topics[0].partition_cnt;
  rd_kafka_metadata_destroy(metadata);
  for (std::int32_t partition = 0; partition < partitions; ++partition) {
    read_partition(client, handle, partition, records);
  }
  rd_kafka_topic_destroy(handle);
  rd_kafka_destroy(client);
  return records;
}

}  // namespace outrider::test
