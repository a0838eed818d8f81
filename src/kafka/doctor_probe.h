// probe_kafka(): what `outrider doctor` wants to know about the brokers, topics and grants.
//
// Nothing is written: topics that are missing are only validated (CreateTopics, validate only), and
// the right to write is asked for by a record that no broker may take. Apache Kafka looks at a
// record's rights before it looks at its acks, and refuses acks=2 for everybody; so a refusal of
// the acks says that the right is there. A mock cluster does not look at either and is not asked.
// A command, not part of the relay: blocks, each question for at most a few seconds, and stops with
// the first question if no broker answers. Errors are facts here: nothing fails.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kafka/producer_config.h"
#include "outrider/base/result.h"

namespace outrider {

/// More topics of one prefix are not looked at.
inline constexpr std::size_t kProbedTopicsMax = 100;

enum class TopicUse : std::uint8_t { events, dead_letters, positions };

struct TopicFacts {
  std::string name;
  TopicUse use = TopicUse::events;
  bool sample = false;  ///< A name that rows of some type would have; not missed.
  bool exists = false;
  std::optional<Error> fault = {};  ///< Of the look-up, other than "does not exist".
  int partitions = 0;
  int replicas = 0;  ///< The fewest of any partition.
  int in_sync = 0;   ///< The same.

  bool creation_asked = false;
  std::optional<Error> creation = {};  ///< Why it could not be made.

  bool write_asked = false;
  std::optional<Error> write = {};  ///< Why it cannot be written.
  bool read_asked = false;
  std::optional<Error> read = {};

  std::optional<Error> settings_fault = {};
  bool settings_known = false;
  std::optional<std::int64_t> message_bytes_max = {};
  std::optional<std::int64_t> in_sync_min = {};
  bool compacts = false;
};

struct KafkaQuestion {
  ProducerSettings settings;
  std::vector<std::string> topics;  ///< Of events.
  std::string prefix;               ///< Existing topics that begin so are looked at too.
  std::string sample;               ///< Asked about where no topic of events is known.
  std::string dead_letter_topic;    ///< Empty: none.
  bool positions = true;            ///< Whether the relay stores positions.
};

struct KafkaFacts {
  std::optional<Error> unreachable = {};
  int brokers = 0;
  std::string cluster_id;
  bool mock = false;
  bool producer_id = false;                     ///< The brokers gave one: idempotence works.
  std::optional<Error> producer_id_fault = {};  ///< Why not.
  std::int64_t client_message_bytes_max = 0;
  std::size_t topics_left_out = 0;  ///< Of the prefix, over the limit.
  std::vector<TopicFacts> topics;
};

KafkaFacts probe_kafka(const KafkaQuestion& question);

}  // namespace outrider
