#include "kafka/topic_catalog.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "kafka/errors.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

constexpr int kRequestTimeoutMs = 5'000;
constexpr milliseconds kFirstDelay{1'000};
constexpr milliseconds kCreatedDelay{100};
constexpr milliseconds kDelayMax{5'000};
/// A try to write to a forbidden topic costs a producer, so they get rarer.
constexpr milliseconds kDenialFirst{1'000};
constexpr milliseconds kDenialMax{15'000};
/// So long an answer may take before it is called trouble.
constexpr milliseconds kPatience{2'000};

std::optional<std::int64_t> parse_number(const char* text) {
  if (text == nullptr) return std::nullopt;
  const std::string_view view(text);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

TopicLimits read_limits(const rd_kafka_ConfigResource_t* resource) {
  TopicLimits limits;
  std::size_t count = 0;
  const rd_kafka_ConfigEntry_t** entries = rd_kafka_ConfigResource_configs(resource, &count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name = rd_kafka_ConfigEntry_name(entries[i]);
    const char* value = rd_kafka_ConfigEntry_value(entries[i]);
    if (name == "max.message.bytes") limits.message_bytes_max = parse_number(value);
    if (name == "message.timestamp.after.max.ms") {
      limits.timestamp_after_max_ms = parse_number(value);
    }
    if (name == "message.timestamp.before.max.ms") {
      limits.timestamp_before_max_ms = parse_number(value);
    }
    if (name == "retention.ms") limits.retention_ms = parse_number(value);
    if (name == "cleanup.policy" && value != nullptr) {
      const std::string_view policy(value);
      limits.compacts = policy.find("compact") != std::string_view::npos;
      limits.deletes = policy.find("delete") != std::string_view::npos;
    }
    if (name == "message.timestamp.type") {
      limits.log_append_time = value != nullptr && std::string_view(value) == "LogAppendTime";
    }
  }
  return limits;
}

/// The settings of the one topic asked for, or why there are none.
struct Description {
  rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
  const rd_kafka_ConfigResource_t* resource = nullptr;
  bool answered = false;
};

Description read_description(rd_kafka_event_t* event) {
  Description description;
  description.code = rd_kafka_event_error(event);
  // Not supported is known only after a connect.
  description.answered = description.code == RD_KAFKA_RESP_ERR_NO_ERROR ||
                         description.code == RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE;
  if (description.code != RD_KAFKA_RESP_ERR_NO_ERROR) return description;
  std::size_t count = 0;
  const rd_kafka_ConfigResource_t** resources = rd_kafka_DescribeConfigs_result_resources(
      rd_kafka_event_DescribeConfigs_result(event), &count);
  if (count != 1) {
    description.code = RD_KAFKA_RESP_ERR__BAD_MSG;
    return description;
  }
  description.code = rd_kafka_ConfigResource_error(resources[0]);
  if (description.code == RD_KAFKA_RESP_ERR_NO_ERROR) description.resource = resources[0];
  return description;
}

std::string quoted(std::string_view name) { return "topic \"" + std::string(name) + "\""; }

}  // namespace

TopicCatalog::TopicCatalog(TopicConfig config, LogFunction log, std::uintptr_t questions)
    : config_(std::move(config)), log_(std::move(log)), questions_(questions) {}

void TopicCatalog::attach(rd_kafka_t* client, rd_kafka_queue_t* queue) {
  client_ = client;
  queue_ = queue;
}

void TopicCatalog::detach() {
  topics_.clear();
  wanted_.clear();
  asked_.reset();
  failure_.reset();
  client_ = nullptr;
  queue_ = nullptr;
}

Result<rd_kafka_topic_t*> TopicCatalog::use(std::string_view topic, Now now, bool connected) {
  auto place = topics_.find(topic);
  if (place == topics_.end()) {
    place = topics_.emplace(topic, Topic{}).first;
    place->second.waiting_since = now.mono;
  }
  const auto denial = denied_.find(topic);
  if (denial != denied_.end() && now.mono < denial->second.until) {
    if (wanted_ != topic) wanted_ = topic;
    return fail(denial->second.error);
  }
  if (place->second.state != State::ready) {
    if (wanted_ != topic) wanted_ = topic;
    drive(now, connected);
  }
  if (place->second.state != State::ready) {
    if (place->second.fault) return fail(*place->second.fault);
    return nullptr;
  }
  wanted_.clear();
  return place->second.handle.get();
}

void TopicCatalog::deny(std::string_view topic, const Error& error, Now now) {
  Denial& denial = denied_.try_emplace(std::string(topic)).first->second;
  // The records of one batch tell one story.
  if (denial.until > now.mono) return;
  denial.error = error;
  denial.delay = std::clamp(denial.delay * 2, kDenialFirst, kDenialMax);
  denial.until = now.mono + denial.delay;
}

void TopicCatalog::allow(std::string_view topic) {
  const auto place = denied_.find(topic);
  if (place != denied_.end()) denied_.erase(place);
}

void TopicCatalog::drive(Now now, bool connected) {
  if (client_ == nullptr || wanted_.empty()) return;
  const std::string name = wanted_;
  Topic& topic = topics_.find(name)->second;
  if (topic.state == State::ready) {  // Denied for a while, and that may be over.
    const auto denial = denied_.find(name);
    if (denial == denied_.end() || denial->second.until <= now.mono) wanted_.clear();
    return;
  }
  if (!asked_ && topic.state == State::unchecked && topic.due <= now.mono) {
    describe(name, now);
    topic.state = State::describing;
    return;
  }
  const bool unanswered = asked_ && now.mono - asked_->since >= kDescribePatience;
  const bool open = topic.state == State::describing ||
                    (topic.state == State::unchecked && topic.due <= now.mono);
  if (unanswered && open && connected && !probe(name, topic, now)) {
    asked_->since = now.mono - kDescribePatience + kCreatedDelay;  // It is still under way.
  }
}

AdminOptionsHandle TopicCatalog::ask(const std::string& name, rd_kafka_admin_op_t operation,
                                     Now now) {
  asked_ = Question{++questions_, name, now.mono};
  AdminOptionsHandle options(rd_kafka_AdminOptions_new(client_, operation));
  std::array<char, 256> text{};
  // The constant is within the documented range, so this cannot be refused.
  static_cast<void>(rd_kafka_AdminOptions_set_request_timeout(options.get(), kRequestTimeoutMs,
                                                              text.data(), text.size()));
  // A number, so that an answer to an older question is told from this one's.
  rd_kafka_AdminOptions_set_opaque(options.get(), reinterpret_cast<void*>(asked_->number));
  return options;
}

void TopicCatalog::describe(const std::string& name, Now now) {
  const AdminOptionsHandle options = ask(name, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS, now);
  const ConfigResourceHandle resource(
      rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, name.c_str()));
  rd_kafka_ConfigResource_t* resources[] = {resource.get()};
  rd_kafka_DescribeConfigs(client_, resources, 1, options.get(), queue_);
}

void TopicCatalog::create(const std::string& name, Topic& topic, Now now) {
  std::array<char, 256> text{};
  const NewTopicHandle wish(rd_kafka_NewTopic_new(
      name.c_str(), static_cast<int>(config_.partitions),
      static_cast<int>(config_.replication_factor), text.data(), text.size()));
  if (wish == nullptr) {
    topic.fault = Error{ErrorKind::configuration,
                        "cannot create " + quoted(name) + ": " + text.data(),
                        "correct kafka.topics, or create the topic by hand",
                        {}};
    ask_again(topic, kFirstDelay, now);
    return;
  }
  for (const auto& [key, value] : config_.config) {
    static_cast<void>(rd_kafka_NewTopic_set_config(wish.get(), key.c_str(), value.c_str()));
  }
  const AdminOptionsHandle options = ask(name, RD_KAFKA_ADMIN_OP_CREATETOPICS, now);
  rd_kafka_NewTopic_t* wishes[] = {wish.get()};
  rd_kafka_CreateTopics(client_, wishes, 1, options.get(), queue_);
  topic.state = State::creating;
}

bool TopicCatalog::take_answer(rd_kafka_event_t* event, Now now) {
  const rd_kafka_event_type_t type = rd_kafka_event_type(event);
  const bool description = type == RD_KAFKA_EVENT_DESCRIBECONFIGS_RESULT;
  if (!description && type != RD_KAFKA_EVENT_CREATETOPICS_RESULT) return false;
  const auto number = reinterpret_cast<std::uintptr_t>(rd_kafka_event_opaque(event));
  if (!asked_ || asked_->number != number) {
    if (description) take_late_description(event, now);
    return rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR;
  }
  if (description) return take_description(event, now);
  take_creation(event, now);
  return rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR_NO_ERROR;
}

bool TopicCatalog::take_description(rd_kafka_event_t* event, Now now) {
  const std::string name = asked_->topic;
  asked_.reset();
  const Description answer = read_description(event);
  Topic& topic = topics_.find(name)->second;
  if (topic.state != State::describing) {
    take_late_description(event, now);
  } else if (answer.resource != nullptr) {
    topic.limits = read_limits(answer.resource);
    topic.limits_read_at = now.mono;
    found(name, topic);
  } else if (is_missing_topic(answer.code)) {
    not_found(name, topic, now);
  } else if (answer.answered && kafka_error(answer.code, {}).kind == ErrorKind::configuration) {
    if (!probe(name, topic, now)) ask_again(topic, kCreatedDelay, now);
  } else {
    ask_again(topic, kFirstDelay, now);
  }
  return answer.answered;
}

// The topic was found by other means meanwhile; its limits are still wanted.
void TopicCatalog::take_late_description(rd_kafka_event_t* event, Now now) {
  const Description answer = read_description(event);
  if (answer.resource == nullptr) return;
  const auto place = topics_.find(rd_kafka_ConfigResource_name(answer.resource));
  if (place == topics_.end()) return;
  place->second.limits = read_limits(answer.resource);
  place->second.limits_read_at = now.mono;
}

void TopicCatalog::take_creation(rd_kafka_event_t* event, Now now) {
  const std::string name = asked_->topic;
  asked_.reset();
  Topic& topic = topics_.find(name)->second;
  rd_kafka_resp_err_t code = rd_kafka_event_error(event);
  const bool whole = code != RD_KAFKA_RESP_ERR_NO_ERROR;
  std::string text = whole ? rd_kafka_event_error_string(event) : "";
  if (!whole) {
    std::size_t count = 0;
    const rd_kafka_topic_result_t** results =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count);
    if (count == 1) {
      code = rd_kafka_topic_result_error(results[0]);
      const char* reason = rd_kafka_topic_result_error_string(results[0]);
      text = reason == nullptr ? "" : reason;
    }
  }
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS) {
    topic.created = true;
    topic.missing = false;
    topic.fault.reset();
    topic.delay = milliseconds(0);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) log_(LogLevel::info, "created " + quoted(name));
    ask_again(topic, kCreatedDelay, now);
    return;
  }
  Error error = kafka_error(code, "cannot create " + quoted(name));
  if (!text.empty()) error.message = "cannot create " + quoted(name) + ": " + text;
  if (code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED ||
      code == RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED) {
    error.hint = "grant the relay's Kafka user CREATE on the topic, or create the topic by hand";
  }
  if (error.kind != ErrorKind::configuration) {
    log_(LogLevel::error, outrider::describe(error));
  } else {
    blame(topic, std::move(error));
  }
  ask_again(topic, kFirstDelay, now);
}

// The broker has just answered another question, so this one is mostly answered within a round
// trip; false if it was not.
bool TopicCatalog::probe(const std::string& name, Topic& topic, Now now) {
  const TopicHandle handle(rd_kafka_topic_new(client_, name.c_str(), nullptr));
  const rd_kafka_metadata_t* answer = nullptr;
  rd_kafka_resp_err_t code =
      rd_kafka_metadata(client_, 0, handle.get(), &answer, topic.probe_timeout_ms);
  const MetadataHandle metadata(answer);
  const bool answered = code == RD_KAFKA_RESP_ERR_NO_ERROR;
  if (answered && answer->topic_cnt == 1) code = answer->topics[0].err;
  if (code == RD_KAFKA_RESP_ERR__TIMED_OUT) {
    topic.probe_timeout_ms = std::min(topic.probe_timeout_ms * 2, kProbeTimeoutMaxMs);
    return false;
  }
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE) {
    found(name, topic);
  } else if (is_missing_topic(code)) {
    not_found(name, topic, now);
  } else {
    Error error = kafka_error(code, "cannot use " + quoted(name));
    const bool of_topic = answered && code != RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
    if (error.kind == ErrorKind::configuration) {
      if (of_topic) {
        blame(topic, std::move(error));
      } else {
        failure_ = std::move(error);
      }
    }
    ask_again(topic, kFirstDelay, now);
  }
  return true;
}

void TopicCatalog::blame(Topic& topic, Error error) {
  if (!topic.fault || topic.fault->message != error.message) {
    log_(LogLevel::error, outrider::describe(error));
  }
  topic.fault = std::move(error);
}

void TopicCatalog::found(const std::string& name, Topic& topic) {
  if (topic.missing) log_(LogLevel::info, quoted(name) + " exists now");
  topic.handle.reset(rd_kafka_topic_new(client_, name.c_str(), nullptr));
  topic.missing = false;
  topic.fault.reset();
  topic.state = State::ready;
  if (wanted_ == name && !denied_.contains(name)) wanted_.clear();
}

void TopicCatalog::not_found(const std::string& name, Topic& topic, Now now) {
  if (topic.created) {
    ask_again(topic, kCreatedDelay, now);
    return;
  }
  if (!topic.missing) {
    log_(LogLevel::warn, quoted(name) + " does not exist" +
                             (config_.create ? "; creating it" : "; waiting until it does"));
  }
  topic.missing = true;
  if (config_.create) {
    create(name, topic, now);
    return;
  }
  topic.fault = Error{ErrorKind::configuration, quoted(name) + " does not exist",
                      "create it, or set kafka.topics.create: true to have it created",
                      rd_kafka_err2name(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)};
  ask_again(topic, kFirstDelay, now);
}

void TopicCatalog::ask_again(Topic& topic, milliseconds first, Now now) {
  topic.delay = std::min(kDelayMax, topic.delay == milliseconds(0) ? first : topic.delay * 3 / 2);
  topic.state = State::unchecked;
  topic.due = now.mono + topic.delay;
}

const TopicLimits* TopicCatalog::limits(std::string_view topic) const {
  const auto place = topics_.find(topic);
  if (place == topics_.end() || place->second.state != State::ready) return nullptr;
  return &place->second.limits;
}

bool TopicCatalog::look_again(std::string_view topic, Now now) {
  const auto place = topics_.find(topic);
  if (place == topics_.end() || place->second.state != State::ready) return false;
  if (now.mono - place->second.limits_read_at < kLimitsFresh) return false;
  place->second.state = State::unchecked;
  place->second.due = place->second.waiting_since = now.mono;
  place->second.delay = milliseconds(0);
  wanted_ = topic;
  return true;
}

std::string TopicCatalog::trouble(Now now) const {
  if (failure_) return failure_->message;
  if (wanted_.empty()) return {};
  const auto denial = denied_.find(wanted_);
  if (denial != denied_.end()) return denial->second.error.message;
  const Topic& topic = topics_.find(wanted_)->second;
  if (topic.fault) return topic.fault->message + ": " + topic.fault->hint;
  if (topic.missing) return quoted(wanted_) + " is being created";
  if (now.mono - topic.waiting_since < kPatience) return {};
  return "waiting for the brokers' answer about " + quoted(wanted_);
}

std::optional<MonoTime> TopicCatalog::deadline() const {
  if (wanted_.empty()) return std::nullopt;
  const Topic& topic = topics_.find(wanted_)->second;
  const auto denial = denied_.find(wanted_);
  if (topic.state == State::ready) {
    return denial == denied_.end() ? std::nullopt : std::optional(denial->second.until);
  }
  if (topic.state == State::creating) return std::nullopt;
  if (!asked_) return topic.due;
  return std::max(topic.due, asked_->since + kDescribePatience);
}

}  // namespace outrider
