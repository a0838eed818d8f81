// MockBroker: librdkafka's in-process cluster for tests, and a reader of what it holds.
//
// Owns the client that carries the cluster; its calls block (set_up for about a second), so they
// belong on the test's thread between turns of the loop under test, never inside one. It knows no
// admin requests and creates any topic it is asked about. Failing calls throw std::runtime_error.
#pragma once

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace outrider::test {

/// Kafka's numbers of the requests that tests make fail.
constexpr std::int16_t kProduceRequest = 0;
constexpr std::int16_t kMetadataRequest = 3;
constexpr std::int16_t kInitProducerIdRequest = 22;
constexpr std::int16_t kAddPartitionsToTxnRequest = 24;
constexpr std::int16_t kEndTxnRequest = 26;

class MockBroker {
 public:
  explicit MockBroker(int brokers = 1);
  ~MockBroker();
  MockBroker(const MockBroker&) = delete;
  MockBroker& operator=(const MockBroker&) = delete;

  const std::string& bootstrap_servers() const { return bootstrap_servers_; }

  void create_topic(const std::string& topic, int partitions);
  /// The next requests of this kind fail, one error each.
  void push_errors(std::int16_t request, const std::vector<rd_kafka_resp_err_t>& errors);
  void clear_errors(std::int16_t request);
  /// What metadata says about the topic until it is set to no error.
  void set_topic_error(const std::string& topic, rd_kafka_resp_err_t error);
  void set_down();
  void set_up();
  void set_round_trip(std::chrono::milliseconds time, std::int32_t broker = -1);
  void set_leader(const std::string& topic, std::int32_t partition, std::int32_t broker);

 private:
  struct Client;
  std::unique_ptr<Client> client_;
  std::string bootstrap_servers_;
};

struct StoredRecord {
  std::int32_t partition = 0;
  std::optional<std::string> key;
  std::optional<std::string> value;
  std::int64_t timestamp_ms = 0;
  std::vector<std::pair<std::string, std::optional<std::string>>> headers;
};

/// Read a topic from its beginning until its present end, partition by partition.
std::vector<StoredRecord> read_topic(const std::string& bootstrap_servers,
                                     const std::string& topic);

}  // namespace outrider::test
