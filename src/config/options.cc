#include "config/options.h"

namespace outrider {
namespace {

constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::string_view kOneTopic = "pipelines[].route.topic";
constexpr std::int64_t kGiB = 1024LL * 1024 * 1024;

void add_process_options(std::vector<Option>& rows) {
  rows.push_back({"version",
                  [](Scope s) -> Field { return s.version; },
                  "Version of this file's format, the first thing to write. This release reads "
                  "version 1.",
                  {.min = 1, .max = 1, .required = true, .file_only = true}});
  rows.push_back({"log.level",
                  [](Scope s) -> Field { return word(s.config->log.level); },
                  "Least important log line that is still written.",
                  {.words = {"debug", "info", "warn", "error"}}});
  rows.push_back({"log.format",
                  [](Scope s) -> Field { return word(s.config->log.format); },
                  "Form of a log line on standard error: text for people, json for collectors.",
                  {.words = {"text", "json"}}});
  rows.push_back({"http.listen",
                  [](Scope s) -> Field { return &s.config->http.listen; },
                  "Address and port, as `host:port` or `[ipv6]:port`, that serves /metrics, /livez "
                  "and /readyz. Empty: no HTTP.",
                  {.may_be_empty = true}});
  rows.push_back({"control.socket",
                  [](Scope s) -> Field { return &s.config->control.socket; },
                  "Absolute path of the Unix socket through which `outrider status`, `pause`, "
                  "`resume` and `dead-letters` reach this process, for example "
                  "`/run/outrider/orders.sock`. Only the relay's user and root may use it; its "
                  "folder has to exist. Empty: no such commands.",
                  {.may_be_empty = true}});
}

void add_source_options(std::vector<Option>& rows) {
  rows.push_back({"pipelines[].name",
                  [](Scope s) -> Field { return &s.pipeline->name; },
                  "Name of the pipeline in logs, metrics and overrides: a-z, 0-9, _ and -. Must be "
                  "unique.",
                  {.required = true}});
  rows.push_back(
      {"pipelines[].source.dsn",
       [](Scope s) -> Field { return &s.pipeline->source.dsn; },
       "How to reach the database: any libpq connection string, URI or key=value, several "
       "hosts allowed. Write the password as `${env:NAME}` or `${file:/path}`.",
       {.required = true, .conninfo = true}});
  rows.push_back({"pipelines[].source.slot",
                  [](Scope s) -> Field { return &s.pipeline->source.slot; },
                  "Name of the logical replication slot: 1 to 63 of a-z, 0-9 and _. Each pipeline "
                  "needs its own.",
                  {}});
  rows.push_back({"pipelines[].source.create_slot",
                  [](Scope s) -> Field { return &s.pipeline->source.create_slot; },
                  "Create the slot when it does not exist. Rows written before that moment are not "
                  "relayed.",
                  {}});
  rows.push_back({"pipelines[].source.plugin",
                  [](Scope s) -> Field { return word(s.pipeline->source.plugin); },
                  "Output plugin of the slot. With auto an existing slot keeps its own; a new one "
                  "takes wal2json where the server has and allows it, else pgoutput.",
                  {.words = {"auto", "wal2json", "pgoutput"}}});
  rows.push_back({"pipelines[].source.publication",
                  [](Scope s) -> Field { return &s.pipeline->source.publication; },
                  "Name of the publication that pgoutput reads. Not used with wal2json.",
                  {}});
  rows.push_back({"pipelines[].source.create_publication",
                  [](Scope s) -> Field { return &s.pipeline->source.create_publication; },
                  "Create an insert-only publication of the outbox tables when it does not exist.",
                  {}});
}

void add_source_timing(std::vector<Option>& rows) {
  rows.push_back({"pipelines[].source.connect_timeout_ms",
                  [](Scope s) -> Field { return &s.pipeline->source.connect_timeout_ms; },
                  "Longest time for one attempt to connect.",
                  {.min = 100, .max = kHourMs}});
  rows.push_back({"pipelines[].source.status_interval_ms",
                  [](Scope s) -> Field { return &s.pipeline->source.status_interval_ms; },
                  "Longest time between two status messages to the server. A short "
                  "wal_sender_timeout shortens it further.",
                  {.min = 10, .max = kHourMs}});
  rows.push_back({"pipelines[].source.confirm_interval_ms",
                  [](Scope s) -> Field { return &s.pipeline->source.confirm_interval_ms; },
                  "How long acknowledged positions are gathered before they are confirmed to the "
                  "server. Longer means more repeats after a crash; at most status_interval_ms.",
                  {.min = 0, .max = kHourMs}});
  rows.push_back(
      {"pipelines[].source.wal_sender_timeout_ms",
       [](Scope s) -> Field { return &s.pipeline->source.wal_sender_timeout_ms; },
       "wal_sender_timeout of our own session, after which the server frees the slot of a "
       "dead relay. 0 keeps the server's setting.",
       {.min = 0, .max = 24 * kHourMs}});
  rows.push_back({"pipelines[].source.silence_probe_ms",
                  [](Scope s) -> Field { return &s.pipeline->source.silence_probe_ms; },
                  "After so long without a word from the server a reply is asked for; after twice "
                  "the time the connection counts as lost.",
                  {.min = 100, .max = kHourMs}});
  rows.push_back({"pipelines[].source.reconnect_first_ms",
                  [](Scope s) -> Field { return &s.pipeline->source.reconnect_first_ms; },
                  "Pause before the first new attempt to connect; it doubles, with jitter, up to "
                  "reconnect_max_ms.",
                  {.min = 1, .max = kHourMs}});
  rows.push_back({"pipelines[].source.reconnect_max_ms",
                  [](Scope s) -> Field { return &s.pipeline->source.reconnect_max_ms; },
                  "Longest pause between two attempts to connect.",
                  {.min = 1, .max = kHourMs}});
}

void add_source_watches(std::vector<Option>& rows) {
  rows.push_back({"pipelines[].source.slot_poll_interval_ms",
                  [](Scope s) -> Field { return &s.pipeline->source.slot_poll_interval_ms; },
                  "How often a standby relay looks whether the slot has become free.",
                  {.min = 10, .max = kHourMs}});
  rows.push_back(
      {"pipelines[].source.evict_holder_after_ms",
       [](Scope s) -> Field { return &s.pipeline->source.evict_holder_after_ms; },
       "A standby ends the server process of a holder that has reported nothing for so long (a "
       "frozen relay, a dead link), sooner than wal_sender_timeout would. At least twice "
       "status_interval_ms. 0: never.",
       {.min = 0, .max = kHourMs}});
  rows.push_back(
      {"pipelines[].source.watch_interval_ms",
       [](Scope s) -> Field { return &s.pipeline->source.watch_interval_ms; },
       "How often the server is asked whether it counts this relay as a synchronous standby, and "
       "what it says about the slot; every third time also about publication and table.",
       {.min = 10, .max = kHourMs}});
  rows.push_back({"pipelines[].source.lock_timeout_ms",
                  [](Scope s) -> Field { return &s.pipeline->source.lock_timeout_ms; },
                  "Longest wait for a lock while the slot or the publication is created.",
                  {.min = 1, .max = kHourMs}});
  rows.push_back({"pipelines[].source.read_pause_us",
                  [](Scope s) -> Field { return &s.pipeline->source.read_pause_us; },
                  "Longest pause, in microseconds, between two reads of a backlog; it lets the "
                  "server send more at once. 0: never pause.",
                  {.min = 0, .max = 100'000}});
  rows.push_back({"pipelines[].source.former_partitions",
                  [](Scope s) -> Field { return &s.pipeline->source.former_partitions; },
                  "Partitions that were detached or dropped while they held rows not yet relayed. "
                  "Their rows count as events of the outbox table.",
                  {.may_be_empty = true}});
  rows.push_back(
      {"pipelines[].source.foreign_tables",
       [](Scope s) -> Field { return &s.pipeline->source.foreign_tables; },
       "Tables whose rows never are events. With a partitioned outbox wal2json sends every "
       "table of the database: one with the outbox table's columns that is no partition "
       "of it (the outbox of another service) has to be listed here, a busy one may be, "
       "so that the server need not send it. Other set-ups do not need it.",
       {.may_be_empty = true}});
}

void add_outbox_options(std::vector<Option>& rows) {
  rows.push_back({"pipelines[].outbox.tables",
                  [](Scope s) -> Field { return &s.pipeline->outbox.tables; },
                  "Outbox tables, as `schema.table`, quoted as in SQL where the name needs it.",
                  {}});
  rows.push_back({"pipelines[].outbox.columns.id",
                  [](Scope s) -> Field { return &s.pipeline->outbox.columns.id; },
                  "Column with the event's id, sent as header `id`. Empty: recognised from the "
                  "table.",
                  {.may_be_empty = true}});
  rows.push_back({"pipelines[].outbox.columns.event_type",
                  [](Scope s) -> Field { return &s.pipeline->outbox.columns.event_type; },
                  "Column with the event's type. Empty: recognised from the table.",
                  {.may_be_empty = true}});
  rows.push_back({"pipelines[].outbox.columns.aggregate_type",
                  [](Scope s) -> Field { return &s.pipeline->outbox.columns.aggregate_type; },
                  "Column with the kind of thing the event is about. Empty: recognised from the "
                  "table.",
                  {.may_be_empty = true}});
  rows.push_back({"pipelines[].outbox.columns.aggregate_id",
                  [](Scope s) -> Field { return &s.pipeline->outbox.columns.aggregate_id; },
                  "Column that becomes the record's key. Empty: recognised from the table.",
                  {.may_be_empty = true}});
  rows.push_back(
      {"pipelines[].outbox.columns.payload",
       [](Scope s) -> Field { return &s.pipeline->outbox.columns.payload; },
       "Column that becomes the record's value, byte for byte. Empty: recognised from the "
       "table.",
       {.may_be_empty = true}});
  rows.push_back({"pipelines[].outbox.headers",
                  [](Scope s) -> Field { return &s.pipeline->outbox.headers; },
                  "Further columns sent as record headers, each `column` or `column:header`.",
                  {.may_be_empty = true}});
}

void add_route_options(std::vector<Option>& rows) {
  rows.push_back({"pipelines[].route.topic",
                  [](Scope s) -> Field { return &s.pipeline->route.topic; },
                  "One topic for every event. Excludes by, pattern and replacement.",
                  {.may_be_empty = true}});
  rows.push_back({"pipelines[].route.by",
                  [](Scope s) -> Field { return &s.pipeline->route.by; },
                  "What the topic is made from: event_type, aggregate_type or a column's name.",
                  {.excluded_by = kOneTopic}});
  rows.push_back({"pipelines[].route.pattern",
                  [](Scope s) -> Field { return &s.pipeline->route.pattern; },
                  "Regular expression that the value of `by` has to match as a whole; with "
                  "Debezium's meaning.",
                  {.excluded_by = kOneTopic}});
  rows.push_back({"pipelines[].route.replacement",
                  [](Scope s) -> Field { return &s.pipeline->route.replacement; },
                  "Topic name, in which `${name}` or `$1` stands for a group of the pattern.",
                  {.excluded_by = kOneTopic}});
  rows.push_back({"pipelines[].route.topics_max",
                  [](Scope s) -> Field { return &s.pipeline->route.topics_max; },
                  "So many different topics in one run; an event for one more is refused.",
                  {.min = 1, .max = 1'000'000}});
}

void add_kafka_options(std::vector<Option>& rows) {
  rows.push_back({"pipelines[].kafka.bootstrap_servers",
                  [](Scope s) -> Field { return &s.pipeline->kafka.bootstrap_servers; },
                  "Brokers to ask first: `host:port`, several with commas.",
                  {.required = true}});
  rows.push_back({"pipelines[].kafka.properties",
                  [](Scope s) -> Field { return &s.pipeline->kafka.properties; },
                  "Any producer property of librdkafka by its own name. Those that would break the "
                  "delivery guarantees are refused with the reason.",
                  {.may_be_empty = true}});
  rows.push_back({"pipelines[].kafka.topics.create",
                  [](Scope s) -> Field { return &s.pipeline->kafka.topics.create; },
                  "Create a topic that does not exist. Otherwise the relay waits for it, not "
                  "ready, until somebody makes it.",
                  {}});
  rows.push_back({"pipelines[].kafka.topics.partitions",
                  [](Scope s) -> Field { return &s.pipeline->kafka.topics.partitions; },
                  "Partitions of a created topic.",
                  {.min = 1, .max = 100'000}});
  rows.push_back({"pipelines[].kafka.topics.replication_factor",
                  [](Scope s) -> Field { return &s.pipeline->kafka.topics.replication_factor; },
                  "Replicas of a created topic; -1 takes the broker's default.",
                  {.min = -1, .max = 1'000}});
  rows.push_back({"pipelines[].kafka.topics.config",
                  [](Scope s) -> Field { return &s.pipeline->kafka.topics.config; },
                  "Settings of a created topic by Kafka's own names, such as `retention.ms`.",
                  {.may_be_empty = true}});
  rows.push_back(
      {"pipelines[].kafka.fatal_errors_max",
       [](Scope s) -> Field { return &s.pipeline->kafka.fatal_errors_max; },
       "So many lost producers within one minute end the relay; fewer mean a new producer "
       "and a replay.",
       {.min = 1, .max = 1'000}});
}

void add_limit_options(std::vector<Option>& rows) {
  rows.push_back({"pipelines[].limits.in_flight_records_max",
                  [](Scope s) -> Field { return &s.pipeline->limits.in_flight_records_max; },
                  "Records waiting for Kafka's acknowledgement at which reading pauses; it goes on "
                  "at half.",
                  {.min = 1, .max = 10'000'000}});
  rows.push_back({"pipelines[].limits.in_flight_bytes_max",
                  [](Scope s) -> Field { return &s.pipeline->limits.in_flight_bytes_max; },
                  "The same in bytes. One larger event still passes, alone.",
                  {.min = 1'024, .max = 16 * kGiB}});
  rows.push_back({"pipelines[].limits.shutdown_timeout_ms",
                  [](Scope s) -> Field { return &s.pipeline->limits.shutdown_timeout_ms; },
                  "Longest time from SIGTERM to the last acknowledgement. Past it the relay ends "
                  "with its own exit code and duplicates are possible.",
                  {.min = 0, .max = 24 * kHourMs}});
}

std::vector<Option> make_options() {
  std::vector<Option> rows;
  add_process_options(rows);
  add_source_options(rows);
  add_source_timing(rows);
  add_source_watches(rows);
  add_outbox_options(rows);
  add_route_options(rows);
  add_kafka_options(rows);
  add_delivery_options(rows);
  add_dead_letter_options(rows);
  add_limit_options(rows);
  return rows;
}

}  // namespace

std::string_view Option::section() const {
  std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::string_view Option::key() const {
  std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

std::string Option::concrete_path(std::size_t pipeline) const {
  if (!in_pipeline()) {
    return std::string(path);
  }
  return "pipelines[" + std::to_string(pipeline) + "]" +
         std::string(path.substr(std::string_view("pipelines[]").size()));
}

const std::vector<Option>& options() {
  static const std::vector<Option> rows = make_options();
  return rows;
}

const Option* find_option(std::string_view path) {
  for (const Option& option : options()) {
    if (option.path == path) {
      return &option;
    }
  }
  return nullptr;
}

const std::vector<Section>& sections() {
  static const std::vector<Section> rows = {
      {"", "The file begins with its version."},
      {"log", "Log lines go to standard error. They never hold payloads, headers or secrets."},
      {"http", "One small endpoint for the whole process."},
      {"control", "How the commands that talk to a running relay find it."},
      {"pipelines[]",
       "A list, at least one. A pipeline is one database, one slot, one set of outbox tables and "
       "one Kafka cluster; pipelines share nothing but the process."},
      {"pipelines[].source", "The PostgreSQL side: connection, slot, plugin and timing."},
      {"pipelines[].outbox", "Which tables are the outbox, and what else goes into a record."},
      {"pipelines[].outbox.columns",
       "Needed only where the table's columns have names that are not recognised."},
      {"pipelines[].route",
       "How an event finds its topic. Order holds per topic and key, so events that need a common "
       "order belong in a common topic."},
      {"pipelines[].kafka", "The Kafka side."},
      {"pipelines[].kafka.topics", "What happens when a topic does not exist."},
      {"pipelines[].delivery",
       "What is promised, and what happens when the slot does not hold what it should. At least "
       "once: a crash may repeat records. Exactly once: records and position are written in one "
       "Kafka transaction, and consumers read with `isolation.level=read_committed`."},
      {"pipelines[].dead_letters",
       "What happens to a row that cannot be sent. A row is at fault when it has no topic, is too "
       "large or ill-dated, or cannot be decoded; a topic is at fault when it is missing or "
       "forbidden, and that is not the row's fault. Letters are kept in a table that "
       "`outrider init` makes, or in a topic."},
      {"pipelines[].limits", "Bounds on memory and on the time to stop."},
  };
  return rows;
}

bool is_list(const Field& field) {
  return std::holds_alternative<std::vector<std::string>*>(field) ||
         std::holds_alternative<std::vector<HeaderColumn>*>(field);
}

bool is_map(const Field& field) {
  return std::holds_alternative<std::map<std::string, std::string>*>(field) ||
         std::holds_alternative<std::map<std::string, SecretText>*>(field);
}

}  // namespace outrider
