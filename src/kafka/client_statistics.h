// ClientStatistics: the part of librdkafka's statistics that an operator can use.
//
// The library prints one JSON document every statistics.interval.ms (its STATISTICS.md lists the
// fields). Of its member "topics", the long one, only the partitions are counted, and none of them
// when the document is longer than kTopicsBytesMax. Pure. Errors: nothing for a text that has
// another form. Limits: kBrokersMax brokers. Units: seconds and bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace outrider {

struct BrokerStatistics {
  std::int64_t id = 0;
  bool up = false;
  double rtt_avg_s = 0;  ///< Of the requests answered since the last statistics; 0: none was.
  double rtt_p99_s = 0;
  double throttle_avg_s = 0;  ///< Asked for by the broker's quotas.
};

struct ClientStatistics {
  static constexpr std::size_t kBrokersMax = 64;
  static constexpr std::size_t kTopicsBytesMax = 512 * 1024;

  std::uint64_t queue_records = 0;  ///< In the client: waiting, or sent and not answered.
  std::uint64_t queue_bytes = 0;
  // Totals of this client over all brokers.
  std::uint64_t retries = 0;
  std::uint64_t request_timeouts = 0;
  std::uint64_t connects = 0;
  std::uint64_t disconnects = 0;
  std::uint64_t sent_bytes = 0;
  std::vector<BrokerStatistics> brokers;                        ///< Those that have told their id.
  std::map<std::string, std::int32_t, std::less<>> partitions;  ///< How many, by topic.
};

std::optional<ClientStatistics> read_client_statistics(std::string json);

}  // namespace outrider
