#include "kafka/doctor_probe.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <string_view>
#include <utility>

#include "kafka/client_conf.h"
#include "kafka/errors.h"
#include "kafka/handles.h"
#include "kafka/position_topic.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kReachPatience{10'000};
/// All brokers refuse the connection for so long: they are down, not starting.
constexpr milliseconds kDownPatience{3'000};
constexpr milliseconds kAnswerPatience{5'000};
constexpr int kStepMs = 250;
constexpr std::int32_t kPartition = 0;
constexpr char kNoProducerId[] = "the brokers give this client no producer id";
constexpr char kProbeKey[] = "outrider-doctor";

std::string quoted(const std::string& topic) { return "topic \"" + topic + "\""; }

std::optional<std::int64_t> parse_number(const char* text) {
  const std::string_view view(text == nullptr ? "" : text);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), number);
  return error == std::errc{} ? std::optional(number) : std::nullopt;
}

/// Only the statistics say so (STATISTICS.md, "eos").
bool has_producer_id(std::string_view statistics) {
  constexpr std::string_view kState = "\"idemp_state\"";
  const std::size_t at = statistics.find(kState);
  if (at == std::string_view::npos) return false;
  const std::string_view value = statistics.substr(at + kState.size());
  return value.substr(0, value.find(',')).find("\"Assigned\"") != std::string_view::npos;
}

Result<KafkaHandle> make_client(ConfHandle conf, rd_kafka_type_t type) {
  rd_kafka_conf_set_events(conf.get(), RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR |
                                           RD_KAFKA_EVENT_LOG | RD_KAFKA_EVENT_STATS);
  std::array<char, 512> text{};
  KafkaHandle client(rd_kafka_new(type, conf.get(), text.data(), text.size()));
  if (client == nullptr) {
    return fail(ErrorKind::configuration,
                std::string("cannot create the Kafka client: ") + text.data(),
                "correct the named setting in kafka.properties");
  }
  static_cast<void>(conf.release());  // The client's now.
  rd_kafka_set_log_queue(client.get(), nullptr);
  return client;
}

/// One client, asked one thing after the other.
class Probe {
 public:
  Probe(const KafkaQuestion& question, KafkaHandle client, KafkaFacts& facts)
      : question_(question),
        facts_(facts),
        client_(std::move(client)),
        queue_(rd_kafka_queue_get_main(client_.get())) {}

  bool reach();
  void ask_producer_id();
  void choose_topics();
  void look_up(TopicFacts& topic);
  void ask_settings();
  void ask_creations();

 private:
  /// The next event within a step; notes errors and statistics on the way.
  EventHandle next(int wait_ms = kStepMs);
  EventHandle answer(rd_kafka_event_type_t type);
  void note_error(rd_kafka_event_t* event);
  bool list(int timeout_ms);
  AdminOptionsHandle options(rd_kafka_admin_op_t operation) const;
  void take_settings(const rd_kafka_ConfigResource_t* resource);

  const KafkaQuestion& question_;
  KafkaFacts& facts_;
  KafkaHandle client_;
  QueueHandle queue_;
  std::optional<Error> trouble_;
  bool all_down_ = false;
  std::vector<std::string> existing_;
};

EventHandle Probe::next(int wait_ms) {
  EventHandle event(rd_kafka_queue_poll(queue_.get(), wait_ms));
  if (event == nullptr) return event;
  const rd_kafka_event_type_t type = rd_kafka_event_type(event.get());
  if (type == RD_KAFKA_EVENT_ERROR) note_error(event.get());
  if (type == RD_KAFKA_EVENT_STATS && has_producer_id(rd_kafka_event_stats(event.get()))) {
    facts_.producer_id = true;
  }
  return event;
}

// What people can put right says more than the lost connection that follows it.
void Probe::note_error(rd_kafka_event_t* event) {
  rd_kafka_resp_err_t code = rd_kafka_event_error(event);
  if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
    all_down_ = true;
    return;
  }
  std::array<char, 512> text{};
  const bool fatal = code == RD_KAFKA_RESP_ERR__FATAL;
  if (fatal) code = rd_kafka_fatal_error(client_.get(), text.data(), text.size());
  // A missing right is no end to the client, which asks again for ever.
  if (fatal || code == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED) {
    facts_.producer_id_fault = kafka_error(code, kNoProducerId);
    return;
  }
  Error error = kafka_error(code, "cannot reach Kafka");
  if (const char* told = rd_kafka_event_error_string(event); told != nullptr) {
    error.message = std::string("cannot reach Kafka: ") + told;
  }
  if (!trouble_ || trouble_->kind != ErrorKind::configuration) trouble_ = std::move(error);
}

bool Probe::list(int timeout_ms) {
  const rd_kafka_metadata_t* answer = nullptr;
  if (rd_kafka_metadata(client_.get(), question_.prefix.empty() ? 0 : 1, nullptr, &answer,
                        timeout_ms) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return false;
  }
  const MetadataHandle metadata(answer);
  facts_.brokers = metadata->broker_cnt;
  for (int i = 0; i < metadata->topic_cnt; ++i) {
    const std::string name = metadata->topics[i].topic;
    if (!question_.prefix.empty() && name.starts_with(question_.prefix)) existing_.push_back(name);
  }
  std::sort(existing_.begin(), existing_.end());
  return true;
}

bool Probe::reach() {
  const Clock::time_point began = Clock::now();
  for (;;) {
    if (list(2 * kStepMs)) break;
    // Without waiting: statistics come more often than a step is long.
    while (next(0) != nullptr) {
    }
    const auto waited = Clock::now() - began;
    const bool lasting = trouble_ && trouble_->kind == ErrorKind::configuration;
    if (lasting || waited >= kReachPatience || (all_down_ && waited >= kDownPatience)) {
      facts_.unreachable = trouble_ ? *trouble_
                                    : Error{ErrorKind::transient,
                                            "no broker answered within 10 s",
                                            "check kafka.bootstrap_servers, the brokers and the "
                                            "network between",
                                            {}};
      return false;
    }
  }
  if (char* id = rd_kafka_clusterid(client_.get(), 2 * kStepMs); id != nullptr) {
    facts_.cluster_id = id;
    rd_kafka_mem_free(client_.get(), id);
  }
  facts_.mock = facts_.cluster_id.starts_with("mockCluster");
  return true;
}

void Probe::ask_producer_id() {
  const Clock::time_point until = Clock::now() + kAnswerPatience;
  while (!facts_.producer_id && !facts_.producer_id_fault && Clock::now() < until) next();
  if (!facts_.producer_id && !facts_.producer_id_fault) {
    facts_.producer_id_fault = Error{ErrorKind::transient,
                                     "no broker gave a producer id within 5 s",
                                     "look at the brokers, then run outrider doctor again",
                                     {}};
  }
}

void Probe::choose_topics() {
  std::vector<std::string> names = question_.topics;
  for (const std::string& name : existing_) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (names.size() >= kProbedTopicsMax) {
      ++facts_.topics_left_out;
      continue;
    }
    names.push_back(name);
  }
  for (const std::string& name : names) facts_.topics.push_back({.name = name});
  if (names.empty() && !question_.sample.empty()) {
    facts_.topics.push_back({.name = question_.sample, .sample = true});
  }
  if (!question_.dead_letter_topic.empty()) {
    facts_.topics.push_back({.name = question_.dead_letter_topic, .use = TopicUse::dead_letters});
  }
  if (question_.positions) {
    facts_.topics.push_back(
        {.name = question_.settings.delivery.position_topic, .use = TopicUse::positions});
  }
}

void Probe::look_up(TopicFacts& topic) {
  const TopicHandle handle(rd_kafka_topic_new(client_.get(), topic.name.c_str(), nullptr));
  const rd_kafka_metadata_t* answer = nullptr;
  rd_kafka_resp_err_t code = rd_kafka_metadata(client_.get(), 0, handle.get(), &answer,
                                               static_cast<int>(kAnswerPatience.count()));
  const MetadataHandle metadata(answer);
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR && metadata->topic_cnt == 1) {
    code = metadata->topics[0].err;
  }
  if (is_missing_topic(code)) return;
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    topic.fault = kafka_error(code, "cannot look up " + quoted(topic.name));
    return;
  }
  topic.exists = true;
  const rd_kafka_metadata_topic_t& found = metadata->topics[0];
  topic.partitions = found.partition_cnt;
  for (int i = 0; i < found.partition_cnt; ++i) {
    const auto& partition = found.partitions[i];
    topic.replicas =
        i == 0 ? partition.replica_cnt : std::min(topic.replicas, partition.replica_cnt);
    topic.in_sync = i == 0 ? partition.isr_cnt : std::min(topic.in_sync, partition.isr_cnt);
  }
}

AdminOptionsHandle Probe::options(rd_kafka_admin_op_t operation) const {
  AdminOptionsHandle made(rd_kafka_AdminOptions_new(client_.get(), operation));
  std::array<char, 256> text{};
  // The constant is within the documented range, so this cannot be refused.
  static_cast<void>(rd_kafka_AdminOptions_set_request_timeout(
      made.get(), static_cast<int>(kAnswerPatience.count()), text.data(), text.size()));
  return made;
}

EventHandle Probe::answer(rd_kafka_event_type_t type) {
  const Clock::time_point until = Clock::now() + 2 * kAnswerPatience;
  while (Clock::now() < until) {
    EventHandle event = next();
    if (event != nullptr && rd_kafka_event_type(event.get()) == type) return event;
  }
  return nullptr;
}

void Probe::take_settings(const rd_kafka_ConfigResource_t* resource) {
  const std::string_view name = rd_kafka_ConfigResource_name(resource);
  const auto topic = std::find_if(facts_.topics.begin(), facts_.topics.end(),
                                  [&](const TopicFacts& each) { return each.name == name; });
  if (topic == facts_.topics.end()) return;
  const rd_kafka_resp_err_t code = rd_kafka_ConfigResource_error(resource);
  if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    topic->settings_fault = kafka_error(code, "cannot read the settings of " + quoted(topic->name));
    return;
  }
  topic->settings_known = true;
  std::size_t count = 0;
  const rd_kafka_ConfigEntry_t** entries = rd_kafka_ConfigResource_configs(resource, &count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view setting = rd_kafka_ConfigEntry_name(entries[i]);
    const char* value = rd_kafka_ConfigEntry_value(entries[i]);
    if (setting == "max.message.bytes") topic->message_bytes_max = parse_number(value);
    if (setting == "min.insync.replicas") topic->in_sync_min = parse_number(value);
    if (setting == "cleanup.policy" && value != nullptr) {
      topic->compacts = std::string_view(value).find("compact") != std::string_view::npos;
    }
  }
}

void Probe::ask_settings() {
  std::vector<ConfigResourceHandle> owned;
  std::vector<rd_kafka_ConfigResource_t*> resources;
  for (const TopicFacts& topic : facts_.topics) {
    if (!topic.exists) continue;
    owned.emplace_back(rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic.name.c_str()));
    resources.push_back(owned.back().get());
  }
  if (resources.empty()) return;
  const AdminOptionsHandle how = options(RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);
  rd_kafka_DescribeConfigs(client_.get(), resources.data(), resources.size(), how.get(),
                           queue_.get());
  const EventHandle event = answer(RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT);
  if (event == nullptr || rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    const rd_kafka_resp_err_t code =
        event == nullptr ? RD_KAFKA_RESP_ERR__TIMED_OUT : rd_kafka_event_error(event.get());
    for (TopicFacts& topic : facts_.topics) {
      if (topic.exists) {
        topic.settings_fault =
            kafka_error(code, "cannot read the settings of " + quoted(topic.name));
      }
    }
    return;
  }
  std::size_t count = 0;
  const rd_kafka_ConfigResource_t** answers = rd_kafka_DescribeConfigs_result_resources(
      rd_kafka_event_DescribeConfigs_result(event.get()), &count);
  for (std::size_t i = 0; i < count; ++i) take_settings(answers[i]);
}

NewTopicHandle wish_for(const TopicFacts& topic, const ProducerSettings& settings,
                        std::optional<Error>& refused) {
  const TopicConfig config =
      topic.use == TopicUse::positions ? position_topic_config(settings, true) : settings.topics;
  std::array<char, 256> text{};
  NewTopicHandle wish(rd_kafka_NewTopic_new(topic.name.c_str(), static_cast<int>(config.partitions),
                                            static_cast<int>(config.replication_factor),
                                            text.data(), text.size()));
  if (wish == nullptr) {
    refused = Error{ErrorKind::configuration,
                    quoted(topic.name) + " cannot be created: " + text.data(),
                    "correct kafka.topics, or create the topic by hand",
                    {}};
    return wish;
  }
  for (const auto& [key, value] : config.config) {
    static_cast<void>(rd_kafka_NewTopic_set_config(wish.get(), key.c_str(), value.c_str()));
  }
  return wish;
}

void Probe::ask_creations() {
  std::vector<NewTopicHandle> owned;
  std::vector<rd_kafka_NewTopic_t*> wishes;
  for (TopicFacts& topic : facts_.topics) {
    const bool made_by_relay = topic.use == TopicUse::positions || question_.settings.topics.create;
    if (topic.exists || topic.fault || !made_by_relay) continue;
    topic.creation_asked = true;
    NewTopicHandle wish = wish_for(topic, question_.settings, topic.creation);
    if (wish == nullptr) continue;
    wishes.push_back(wish.get());
    owned.push_back(std::move(wish));
    topic.creation = kafka_error(RD_KAFKA_RESP_ERR__TIMED_OUT,
                                 "cannot ask whether " + quoted(topic.name) + " could be created");
  }
  if (wishes.empty()) return;
  const AdminOptionsHandle how = options(RD_KAFKA_ADMIN_OP_CREATETOPICS);
  std::array<char, 256> text{};
  if (rd_kafka_AdminOptions_set_validate_only(how.get(), 1, text.data(), text.size()) !=
      RD_KAFKA_RESP_ERR_NO_ERROR) {
    return;  // Without it the topics would be made.
  }
  rd_kafka_CreateTopics(client_.get(), wishes.data(), wishes.size(), how.get(), queue_.get());
  const EventHandle event = answer(RD_KAFKA_EVENT_CREATETOPICS_RESULT);
  if (event == nullptr || rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR) return;
  std::size_t count = 0;
  const rd_kafka_topic_result_t** results =
      rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event.get()), &count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name = rd_kafka_topic_result_name(results[i]);
    for (TopicFacts& topic : facts_.topics) {
      if (topic.name != name || !topic.creation_asked) continue;
      const rd_kafka_resp_err_t code = rd_kafka_topic_result_error(results[i]);
      topic.creation.reset();
      if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) {
        topic.creation = kafka_error(code, quoted(topic.name) + " cannot be created");
      }
    }
  }
}

// Writing and reading --------------------------------------------------------------------------

Result<KafkaHandle> make_refused_producer(const ProducerSettings& settings) {
  OUTRIDER_TRY(ConfHandle conf, make_producer_conf(settings));
  constexpr std::array<std::pair<const char*, const char*>, 8> kRefused = {{
      {"enable.gapless.guarantee", "false"},
      {"enable.idempotence", "false"},
      {"acks", "2"},  // No broker takes it (header).
      {"retries", "0"},
      {"message.timeout.ms", "5000"},
      {"compression.codec", "none"},
      {"linger.ms", "0"},
      {"client.id", "outrider-doctor"},
  }};
  for (const auto& [name, value] : kRefused) {
    OUTRIDER_TRY(set_property(conf.get(), name, value));
  }
  return make_client(std::move(conf), RD_KAFKA_PRODUCER);
}

/// Nothing: the broker would let this user write.
std::optional<Error> write_fault(rd_kafka_resp_err_t code, const std::string& topic) {
  if (code == RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS || code == RD_KAFKA_RESP_ERR_NO_ERROR) {
    return std::nullopt;
  }
  return kafka_error(code, "cannot write to " + quoted(topic));
}

void ask_writes(const KafkaQuestion& question, KafkaFacts& facts) {
  Result<KafkaHandle> made = make_refused_producer(question.settings);
  if (!made) return;
  const KafkaHandle client = std::move(*made);
  const QueueHandle queue(rd_kafka_queue_get_main(client.get()));
  std::vector<TopicHandle> handles;
  std::size_t open = 0;
  for (TopicFacts& topic : facts.topics) {
    if (!topic.exists) continue;
    handles.emplace_back(rd_kafka_topic_new(client.get(), topic.name.c_str(), nullptr));
    topic.write_asked = true;
    topic.write =
        kafka_error(RD_KAFKA_RESP_ERR__TIMED_OUT, "cannot write to " + quoted(topic.name));
    if (rd_kafka_produce(handles.back().get(), kPartition, RD_KAFKA_MSG_F_COPY, nullptr, 0,
                         kProbeKey, sizeof(kProbeKey) - 1, &topic) == 0) {
      ++open;
    } else {
      topic.write = write_fault(rd_kafka_last_error(), topic.name);
    }
  }
  const Clock::time_point until = Clock::now() + 2 * kAnswerPatience;
  while (open > 0 && Clock::now() < until) {
    const EventHandle event(rd_kafka_queue_poll(queue.get(), kStepMs));
    if (event == nullptr || rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_DR) continue;
    while (const rd_kafka_message_t* message = rd_kafka_event_message_next(event.get())) {
      auto* topic = static_cast<TopicFacts*>(message->_private);
      topic->write = write_fault(message->err, topic->name);
      --open;
    }
  }
  // What still waits would hold up the end of the client.
  static_cast<void>(
      rd_kafka_purge(client.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT));
}

std::optional<Error> read_fault(const ProducerSettings& settings, const std::string& topic) {
  Result<ConfHandle> conf = make_reader_conf(settings);
  if (!conf) return std::move(conf).error();
  Result<KafkaHandle> made = make_client(std::move(*conf), RD_KAFKA_CONSUMER);
  if (!made) return std::move(made).error();
  const KafkaHandle client = std::move(*made);
  const TopicHandle handle(rd_kafka_topic_new(client.get(), topic.c_str(), nullptr));
  const std::string what = "cannot read " + quoted(topic);
  if (rd_kafka_consume_start(handle.get(), kPartition, 0) != 0) {
    return kafka_error(rd_kafka_last_error(), what);
  }
  std::optional<Error> fault = kafka_error(RD_KAFKA_RESP_ERR__TIMED_OUT, what);
  const Clock::time_point until = Clock::now() + kAnswerPatience;
  while (Clock::now() < until) {
    rd_kafka_message_t* message = rd_kafka_consume(handle.get(), kPartition, kStepMs);
    if (message == nullptr) continue;
    const rd_kafka_resp_err_t code = message->err;
    rd_kafka_message_destroy(message);
    fault.reset();
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      fault = kafka_error(code, what);
    }
    break;
  }
  static_cast<void>(rd_kafka_consume_stop(handle.get(), kPartition));
  return fault;
}

}  // namespace

KafkaFacts probe_kafka(const KafkaQuestion& question) {
  KafkaFacts facts;
  Result<ConfHandle> conf = make_producer_conf(question.settings);
  if (!conf) {
    facts.unreachable = std::move(conf).error();
    return facts;
  }
  static_cast<void>(set_property(conf->get(), "statistics.interval.ms", "200"));
  facts.client_message_bytes_max = get_number(conf->get(), "message.max.bytes");
  Result<KafkaHandle> client = make_client(std::move(*conf), RD_KAFKA_PRODUCER);
  if (!client) {
    facts.unreachable = std::move(client).error();
    return facts;
  }
  Probe probe(question, std::move(*client), facts);
  if (!probe.reach()) return facts;
  probe.ask_producer_id();
  probe.choose_topics();
  for (TopicFacts& topic : facts.topics) probe.look_up(topic);
  probe.ask_settings();
  probe.ask_creations();
  if (facts.mock) return facts;
  ask_writes(question, facts);
  for (TopicFacts& topic : facts.topics) {
    if (topic.use != TopicUse::positions || !topic.exists) continue;
    topic.read_asked = true;
    topic.read = read_fault(question.settings, topic.name);
  }
  return facts;
}

}  // namespace outrider
