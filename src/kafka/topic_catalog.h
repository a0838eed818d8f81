// TopicCatalog: what is known about each topic, and the questions that find it out.
//
// Before the first record of a topic goes out the broker is asked for the topic's settings
// (DescribeConfigs, asynchronous). A missing topic is created if that is configured, else asked for
// again every 1 to 5 s. Where that question is not allowed, not known or not answered in
// kDescribePatience, a metadata request stands in for it, which blocks: for kProbeTimeoutFirstMs,
// and twice as long after each try that was too short; only with a broker connected, and
// librdkafka 2.0.2 has no other way to ask. One question at a time: the relay holds the row while
// its topic is looked up. What is wrong with one topic (missing, forbidden, cannot be created) is
// that topic's fault and asked about again; a refusal that concerns the whole cluster is failure().
// A topic that a broker let us find but not write to is left alone for a while (deny()), across
// clients. Owns topic handles of the attached client. Bounded by the topics the mapper lets through
// (route.topics_max). Thread: loop.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "kafka/handles.h"
#include "kafka/producer.h"
#include "outrider/base/clock.h"
#include "outrider/config/config.h"

namespace outrider {

/// Of the first try and of the last: a slow link is only known by trying.
constexpr int kProbeTimeoutFirstMs = 50;
constexpr int kProbeTimeoutMaxMs = 1'000;
constexpr std::chrono::milliseconds kDescribePatience{500};
/// So long a topic's settings are relied on to refuse a record: somebody may have changed them.
constexpr std::chrono::milliseconds kLimitsFresh{2'000};

/// A second catalog on the same queue numbers its questions from here.
constexpr std::uintptr_t kSecondCatalogQuestions = std::uintptr_t{1} << 48;

class TopicCatalog {
 public:
  TopicCatalog(TopicConfig config, LogFunction log, std::uintptr_t questions = 0);

  /// Work with this client from now on; all topics are looked up again.
  void attach(rd_kafka_t* client, rd_kafka_queue_t* queue);
  /// Give up all handles; before the client is destroyed.
  void detach();

  /// The topic's handle; nullptr while nothing is known; the topic's fault (kind configuration)
  /// while the last answer named one. `connected`: a broker answers at the moment.
  Result<rd_kafka_topic_t*> use(std::string_view topic, Now now, bool connected);

  /// A broker refused a record because of its topic: nothing more for a while.
  void deny(std::string_view topic, const Error& error, Now now);
  /// A broker took a record of the topic.
  void allow(std::string_view topic);
  bool denies() const { return !denied_.empty(); }

  /// Ask what is due.
  void drive(Now now, bool connected);

  /// Take an answer; true if a broker gave it.
  bool take_answer(rd_kafka_event_t* event, Now now);

  const TopicLimits* limits(std::string_view topic) const;

  /// A record is to be refused by what limits() says: true if that is too old to be relied on. Then
  /// the topic is looked up again, and use() gives nothing until that is answered.
  bool look_again(std::string_view topic, Now now);

  /// A broker's refusal that only people can resolve, whatever the topic.
  const std::optional<Error>& failure() const { return failure_; }

  /// "topic "x" does not exist …", empty if no topic is waited for or at fault.
  std::string trouble(Now now) const;

  std::optional<MonoTime> deadline() const;

 private:
  enum class State : std::uint8_t {
    unchecked,  ///< To be asked about at `due`.
    describing,
    creating,
    ready,
  };

  struct Topic {
    State state = State::unchecked;
    bool missing = false;  ///< The last answer was that it does not exist.
    bool created = false;  ///< We created it; brokers may not know it yet.
    MonoTime due{};
    MonoTime waiting_since{};
    std::chrono::milliseconds delay{};
    TopicHandle handle;
    TopicLimits limits;
    MonoTime limits_read_at{};
    int probe_timeout_ms = kProbeTimeoutFirstMs;
    std::optional<Error> fault;  ///< What the last answer said.
  };
  using Topics = std::map<std::string, Topic, std::less<>>;

  struct Denial {
    Error error;
    std::chrono::milliseconds delay{};
    MonoTime until{};
  };

  struct Question {
    std::uintptr_t number = 0;  ///< Travels with the request as its opaque.
    std::string topic;
    MonoTime since{};
  };

  AdminOptionsHandle ask(const std::string& name, rd_kafka_admin_op_t operation, Now now);
  void describe(const std::string& name, Now now);
  void create(const std::string& name, Topic& topic, Now now);
  bool take_description(rd_kafka_event_t* event, Now now);
  void take_creation(rd_kafka_event_t* event, Now now);
  void take_late_description(rd_kafka_event_t* event, Now now);
  bool probe(const std::string& name, Topic& topic, Now now);
  void found(const std::string& name, Topic& topic);
  void not_found(const std::string& name, Topic& topic, Now now);
  void blame(Topic& topic, Error error);
  void ask_again(Topic& topic, std::chrono::milliseconds first, Now now);

  const TopicConfig config_;
  const LogFunction log_;
  rd_kafka_t* client_ = nullptr;
  rd_kafka_queue_t* queue_ = nullptr;
  Topics topics_;
  std::map<std::string, Denial, std::less<>> denied_;
  std::string wanted_;             ///< The topic that use() could not give.
  std::optional<Question> asked_;  ///< The question under way.
  std::uintptr_t questions_;
  std::optional<Error> failure_;
};

}  // namespace outrider
