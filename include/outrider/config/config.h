// Config: everything an operator can set, as plain typed data.
//
// Filled by src/config from file, environment and flags (one table of options, docs/adr/0005); the
// other rooms read the struct of their own concern from here and nothing else of the config room.
// Units are in the names. Defaults here are the defaults: the table of options takes them from a
// default-constructed Config.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace outrider {

/// Text with ${env:NAME} or ${file:path} in it, kept unresolved and resolved at each use
/// (config/secrets.h), so that a rotated secret is picked up and nothing secret is ever printed.
struct SecretText {
  std::string raw;

  bool empty() const { return raw.empty(); }
  bool operator==(const SecretText&) const = default;
};

enum class PluginChoice : std::uint8_t { automatic, wal2json, pgoutput };

struct SourceConfig {
  SecretText dsn;  ///< libpq conninfo, URI or key=value; several hosts allowed.
  std::string slot = "outrider";
  bool create_slot = false;
  PluginChoice plugin = PluginChoice::automatic;
  std::string publication = "outrider";
  bool create_publication = false;
  std::int64_t connect_timeout_ms = 10'000;
  std::int64_t status_interval_ms = 5'000;  ///< Upper bound; a shorter server timeout shortens it.
  std::int64_t confirm_interval_ms = 5;     ///< Coalesces statuses that only move the position.
  std::int64_t wal_sender_timeout_ms = 30'000;  ///< Set for our own session; 0 keeps the server's.
  std::int64_t silence_probe_ms =
      15'000;  ///< Nothing heard for so long: ask for a reply; twice: lost.
  std::int64_t reconnect_first_ms = 100;
  std::int64_t reconnect_max_ms = 10'000;
  std::int64_t slot_poll_interval_ms =
      250;                                 ///< How often a standby looks whether the slot is free.
  std::int64_t evict_holder_after_ms = 0;  ///< End a silent holder's backend; 0: never.
  std::int64_t watch_interval_ms = 1'000;  ///< How often sync_state is looked at while streaming.
  std::int64_t lock_timeout_ms = 10'000;   ///< For CREATE_REPLICATION_SLOT and CREATE PUBLICATION.
  std::int64_t read_pause_us = 200;        ///< Longest pause between reads of a backlog; 0: none.
  std::vector<std::string>
      former_partitions;                    ///< Detached or dropped leaves whose rows are events.
  std::vector<std::string> foreign_tables;  ///< Look like leaves and are none (wal2json only).
};

/// Which column carries what. An empty name: recognised from the table's columns.
struct ColumnMapping {
  std::string id;
  std::string event_type;
  std::string aggregate_type;
  std::string aggregate_id;
  std::string payload;
};

struct HeaderColumn {
  std::string column;
  std::string header;  ///< Empty: the column's name.
};

struct OutboxConfig {
  std::vector<std::string> tables = {"public.outbox"};  ///< SQL identifiers, quoted as in SQL.
  ColumnMapping columns;
  std::vector<HeaderColumn> headers;
};

struct RouteConfig {
  std::string topic;  ///< Not empty: every row goes to this topic; the rest is not used.
  std::string by = "event_type";  ///< event_type, aggregate_type or a column's name.
  std::string pattern = "(?<routedByValue>.*)";
  std::string replacement = "outbox.event.${routedByValue}";
  std::int64_t topics_max = 1'000;  ///< Distinct topics in a process's life; one more is poison.
};

struct TopicConfig {
  bool create = false;
  std::int64_t partitions = 6;
  std::int64_t replication_factor = -1;  ///< -1: the broker's default.
  std::map<std::string, std::string> config;
};

struct KafkaConfig {
  SecretText bootstrap_servers;
  std::map<std::string, SecretText>
      properties;  ///< Any librdkafka property that keeps the contract.
  TopicConfig topics;
  std::int64_t fatal_errors_max = 5;  ///< So many producer losses within a minute end the relay.
};

enum class OnPoison : std::uint8_t { dead_letter, park_key, stop };
enum class OnTopicError : std::uint8_t { wait, stop, dead_letter };
enum class OnExpired : std::uint8_t { warn, stamp_now, stop };
/// automatic: only with park_key, where a retry keeps the order.
enum class AutomaticRetry : std::uint8_t { automatic, on, off };

struct DeadLetterConfig {
  OnPoison on_poison = OnPoison::dead_letter;
  OnTopicError on_topic_error = OnTopicError::wait;
  SecretText dsn;     ///< Where the table is; empty: source.dsn.
  std::string topic;  ///< Not empty: dead letters go to this topic and no table is used.
  std::int64_t parked_keys_max = 10'000;  ///< One more key: the relay pauses until one is released.
  std::int64_t burst = 100;               ///< So many at once, then per_minute: the breaker.
  std::int64_t per_minute = 10;
  AutomaticRetry automatic_retry = AutomaticRetry::automatic;
  std::int64_t max_attempts = 5;
  std::int64_t retry_first_ms = 5'000;
  std::int64_t retry_max_ms = 600'000;
};

enum class Delivery : std::uint8_t { at_least_once, exactly_once };
enum class OnLargeTransaction : std::uint8_t { split, stop };
enum class OnSlotLost : std::uint8_t { stop, recreate };

struct DeliveryConfig {
  Delivery guarantee = Delivery::at_least_once;
  bool witness = true;
  std::string position_topic = "outrider.positions";
  OnSlotLost on_slot_lost = OnSlotLost::stop;
  OnExpired on_expired = OnExpired::warn;  ///< An event older than its topic's retention.
  OnLargeTransaction on_large_transaction = OnLargeTransaction::split;
  std::int64_t transaction_records_max = 100'000;
  std::int64_t transaction_bytes_max = 64 * 1024 * 1024;
  std::int64_t transaction_ms = 100;             ///< A Kafka transaction is ended after so long.
  std::int64_t transaction_max_ms = 10'000;      ///< Within one PostgreSQL transaction: then split.
  std::int64_t transaction_timeout_ms = 60'000;  ///< The broker's patience with an open one.
};

struct LimitConfig {
  std::int64_t in_flight_records_max = 20'000;
  std::int64_t in_flight_bytes_max = 16 * 1024 * 1024;
  std::int64_t shutdown_timeout_ms = 30'000;
};

struct PipelineConfig {
  std::string name;
  SourceConfig source;
  OutboxConfig outbox;
  RouteConfig route;
  KafkaConfig kafka;
  DeliveryConfig delivery;
  DeadLetterConfig dead_letters;
  LimitConfig limits;
};

enum class LogFormat : std::uint8_t { text, json };
enum class LogLevel : std::uint8_t { debug, info, warn, error };

struct LogConfig {
  LogLevel level = LogLevel::info;
  LogFormat format = LogFormat::text;
};

struct HttpConfig {
  std::string listen = "127.0.0.1:9640";  ///< host:port; empty: no HTTP.
};

struct ControlConfig {
  std::string socket;  ///< Absolute path of the Unix socket for commands; empty: none.
};

struct Config {
  LogConfig log;
  HttpConfig http;
  ControlConfig control;
  std::vector<PipelineConfig> pipelines;
};

}  // namespace outrider
