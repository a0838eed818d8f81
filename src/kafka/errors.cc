#include "kafka/errors.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr ErrorKind kTransient = ErrorKind::transient;
constexpr ErrorKind kConfiguration = ErrorKind::configuration;
constexpr ErrorKind kPoison = ErrorKind::poison;

constexpr const char* kTooLarge =
    "raise message.max.bytes in kafka.properties and max.message.bytes of the topic, or make the "
    "payload smaller";
constexpr const char* kTimestamp =
    "correct the event's time, or set message.timestamp.after.max.ms and "
    "message.timestamp.before.max.ms of the topic";
constexpr const char* kBadRecord =
    "compare the record with the topic's settings (a compacted topic needs a key)";
constexpr const char* kPartition =
    "correct the column that names the partition, or add partitions to the topic";
constexpr const char* kTopicMissing =
    "create the topic, or set kafka.topics.create: true to have it created";
constexpr const char* kTopicName =
    "use a topic name of letters, digits, dot, underscore and hyphen that does not collide with "
    "another one by dot and underscore";
constexpr const char* kTopicAcl = "grant the relay's Kafka user WRITE and DESCRIBE on the topic";
constexpr const char* kClusterAcl = "grant the relay's Kafka user IDEMPOTENT_WRITE on the cluster";
constexpr const char* kLogin =
    "check security.protocol, sasl.mechanism, sasl.username and sasl.password in kafka.properties";
constexpr const char* kTls =
    "check security.protocol and the ssl.* files and names in kafka.properties";
constexpr const char* kVersion = "use Apache Kafka 2.0 or newer";
constexpr const char* kCodec = "set compression.codec to one that the broker accepts";
constexpr const char* kCreate = "correct kafka.topics, or create the topic by hand";
constexpr const char* kSettings = "correct the named property in kafka.properties";
constexpr const char* kWait = "nothing to do if it passes; else look at the brokers";
constexpr const char* kReplicas =
    "bring the partition's replicas back, or lower min.insync.replicas of the topic";
constexpr const char* kRewind =
    "nothing to do: the producer is made anew and the stream rewinds; duplicates are possible";
constexpr const char* kFenced =
    "look which other process relays this slot; only one may, and this one has stopped";
constexpr const char* kNetwork =
    "check kafka.bootstrap_servers, the brokers and the network between";

// Sorted by meaning: the record's fault, then settings and grants, then what heals.
constexpr KafkaErrorRow kTable[] = {
    {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, kPoison, kTooLarge},
    {RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, kPoison, kTooLarge},
    {RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE, kPoison, kTooLarge},
    {RD_KAFKA_RESP_ERR_INVALID_RECORD, kPoison, kBadRecord},
    {RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, kPoison, kTimestamp},
    // Older brokers say this for a null key in a compacted topic; a batch damaged on the way passes
    // when it is sent again record by record.
    {RD_KAFKA_RESP_ERR_INVALID_MSG, kPoison, kBadRecord},
    {RD_KAFKA_RESP_ERR__BAD_MSG, kPoison, kBadRecord},
    {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, kPoison, kPartition},

    {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, kConfiguration, kTopicAcl},
    {RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, kConfiguration, kClusterAcl},
    {RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, kConfiguration,
     "grant the relay's Kafka user WRITE and DESCRIBE on its transactional id"},
    {RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED, kConfiguration, kLogin},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM, kConfiguration, kLogin},
    {RD_KAFKA_RESP_ERR_ILLEGAL_SASL_STATE, kConfiguration, kLogin},
    {RD_KAFKA_RESP_ERR__AUTHENTICATION, kConfiguration, kLogin},
    {RD_KAFKA_RESP_ERR_SECURITY_DISABLED, kConfiguration, kLogin},
    {RD_KAFKA_RESP_ERR__SSL, kConfiguration, kTls},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION, kConfiguration, kVersion},
    {RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE, kConfiguration, kVersion},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT, kConfiguration, kVersion},
    {RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE, kConfiguration, kCodec},
    {RD_KAFKA_RESP_ERR__BAD_COMPRESSION, kConfiguration, kCodec},
    {RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS, kConfiguration, kSettings},
    {RD_KAFKA_RESP_ERR__INVALID_ARG, kConfiguration, kSettings},
    {RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, kConfiguration, kTopicName},
    {RD_KAFKA_RESP_ERR_INVALID_PARTITIONS, kConfiguration, kCreate},
    {RD_KAFKA_RESP_ERR_INVALID_REPLICA_ASSIGNMENT, kConfiguration, kCreate},
    {RD_KAFKA_RESP_ERR_INVALID_CONFIG, kConfiguration, kCreate},
    {RD_KAFKA_RESP_ERR_POLICY_VIOLATION, kConfiguration, kCreate},
    {RD_KAFKA_RESP_ERR_INVALID_REQUEST, kConfiguration, kCreate},

    {RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT, kConfiguration,
     "lower delivery.transaction_timeout_ms, or raise transaction.max.timeout.ms of the brokers"},
    {RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED, kConfiguration, kTopicAcl},

    // Another producer with our transactional id, so another relay of our slot.
    {RD_KAFKA_RESP_ERR__FENCED, ErrorKind::fatal, kFenced},
    {RD_KAFKA_RESP_ERR_PRODUCER_FENCED, ErrorKind::fatal, kFenced},

    // Fewer brokers than replicas: true for a moment while a cluster starts.
    {RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR, kTransient,
     "lower kafka.topics.replication_factor, or start more brokers"},
    {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, kTransient, kTopicMissing},
    {RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC, kTransient, kTopicMissing},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, kTransient, kReplicas},
    {RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND, kTransient, kReplicas},
    {RD_KAFKA_RESP_ERR__ISR_INSUFF, kTransient, kReplicas},
    {RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_NOT_CONTROLLER, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_NOT_COORDINATOR, kTransient, kWait},
    {RD_KAFKA_RESP_ERR__QUEUE_FULL, kTransient, kWait},
    {RD_KAFKA_RESP_ERR__TRANSPORT, kTransient, kNetwork},
    {RD_KAFKA_RESP_ERR__RESOLVE, kTransient, kNetwork},
    {RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN, kTransient, kNetwork},
    {RD_KAFKA_RESP_ERR__TIMED_OUT, kTransient, kNetwork},
    {RD_KAFKA_RESP_ERR__MSG_TIMED_OUT, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR__PURGE_QUEUE, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR__INCONSISTENT, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR__FATAL, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR__STATE, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR__DESTROY, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR_INVALID_TXN_STATE, kTransient, kRewind},
    {RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_TRANSACTION_COORDINATOR_FENCED, kTransient, kWait},
    {RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE, kTransient, kWait},
};

}  // namespace

std::span<const KafkaErrorRow> kafka_error_table() { return kTable; }

const KafkaErrorRow* find_kafka_error(rd_kafka_resp_err_t code) {
  const auto* row =
      std::ranges::find_if(kTable, [code](const KafkaErrorRow& r) { return r.code == code; });
  return row == std::end(kTable) ? nullptr : row;
}

Error kafka_error(rd_kafka_resp_err_t code, const std::string& what) {
  Error error;
  error.message = what + ": " + rd_kafka_err2str(code);
  error.code = rd_kafka_err2name(code);
  const KafkaErrorRow* row = find_kafka_error(code);
  error.kind = row == nullptr ? ErrorKind::transient : row->kind;
  error.hint = row == nullptr ? kRewind : row->hint;
  return error;
}

bool is_purge(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR__PURGE_QUEUE || code == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT;
}

bool is_missing_topic(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
         code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
}

}  // namespace outrider
