#include "kafka/session.h"

#include <algorithm>
#include <utility>

#include "kafka/errors.h"
#include "kafka/position_topic.h"
#include "kafka/transaction_step.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kInitFirst{2};
constexpr milliseconds kInitMax{100};
constexpr milliseconds kReadAgainFirst{100};
constexpr milliseconds kReadAgainMax{5'000};
/// So long a step may take before it is called trouble.
constexpr milliseconds kPatience{2'000};
/// So long the stored position may take to be read before the topic is looked for again.
constexpr milliseconds kReaderPatience{15'000};

}  // namespace

Session::Session(EventLoop& loop, LogFunction log) : loop_(loop), log_(std::move(log)) {}

void Session::begin(const SlotIdentity& identity, const ProducerSettings& settings, Now now) {
  settings_ = settings;
  if (!(identity_ == identity)) stored_.reset();
  identity_ = identity;
  reader_.reset();
  last_trouble_.clear();
  if (!stores()) {
    enter(State::open, now);
    return;
  }
  if (topic_ == nullptr) {
    catalog_.emplace(position_topic_config(settings_, !topic_seen_), log_, kSecondCatalogQuestions);
    catalog_->attach(client_, queue_);
  }
  enter(State::finding_topic, now);
}

void Session::attach(rd_kafka_t* client, rd_kafka_queue_t* queue) {
  client_ = client;
  queue_ = queue;
}

void Session::detach() {
  reader_.reset();
  catalog_.reset();
  topic_ = nullptr;
  client_ = nullptr;
  queue_ = nullptr;
  state_ = State::closed;
}

void Session::enter(State state, Now now) {
  state_ = state;
  since_ = now.mono;
  due_ = now.mono;
  delay_ = milliseconds(0);
}

Result<> Session::drive(bool connected, Now now) {
  if (catalog_) {
    catalog_->drive(now, connected);
    if (catalog_->failure()) return fail(*catalog_->failure());
  }
  switch (state_) {
    case State::closed:
    case State::open:
      return {};
    case State::finding_topic:
      return find_topic(connected, now);
    case State::initialising:
      return initialise(now);
    case State::reading:
      return read(now);
  }
  return {};
}

Result<> Session::find_topic(bool connected, Now now) {
  const std::string& name = settings_.delivery.position_topic;
  Result<rd_kafka_topic_t*> topic = catalog_->use(name, now, connected);
  if (!topic) {
    Error error = topic.error();
    if (topic_seen_ && error.code == rd_kafka_err2name(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)) {
      error.message = "the position topic \"" + name + "\" vanished while the relay ran";
      error.hint = "find out who deleted it; a restart makes it anew and takes the slot as it is";
    } else {
      error.hint =
          "grant the relay's Kafka user READ, WRITE, DESCRIBE and CREATE on the topic, or create "
          "it by hand (1 partition, cleanup.policy=compact)" +
          std::string(exactly_once() ? "" : ", or set delivery.witness: false");
    }
    return fail(std::move(error));
  }
  if (*topic == nullptr) return {};
  topic_ = *topic;
  topic_seen_ = true;
  OUTRIDER_TRY(judge_topic(now));
  enter(exactly_once() ? State::initialising : State::reading, now);
  return drive(connected, now);
}

// A topic that is not compacted loses positions once they are old, and the session of an idle
// database with them.
Result<> Session::judge_topic(Now) {
  const std::string& name = settings_.delivery.position_topic;
  const TopicLimits* limits = catalog_->limits(name);
  if (limits == nullptr || limits->compacts.value_or(true)) return {};
  Error error{ErrorKind::configuration,
              "the position topic \"" + name + "\" is not compacted",
              "set cleanup.policy=compact on topic \"" + name +
                  "\", or name another one in delivery.position_topic",
              {}};
  if (exactly_once()) return fail(std::move(error));
  if (!std::exchange(topic_told_, true)) log_(LogLevel::error, describe(error));
  return {};
}

Result<> Session::initialise(Now now) {
  if (now.mono < due_) return {};
  Result<bool> done = init_step(client_, last_trouble_);
  if (!done) return fail(explained(std::move(done).error()));
  if (*done) {
    enter(State::reading, now);
    return read(now);
  }
  delay_ = std::clamp(delay_ * 3 / 2, kInitFirst, kInitMax);
  due_ = now.mono + delay_;
  return {};
}

Error Session::explained(Error error) const {
  if (error.code == rd_kafka_err2name(RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT)) {
    error.message = "delivery.transaction_timeout_ms " +
                    std::to_string(settings_.delivery.transaction_timeout_ms) +
                    " is above transaction.max.timeout.ms of the brokers (900000 if nobody set it)";
  }
  return error;
}

Result<> Session::read(Now now) {
  if (reader_ == nullptr) {
    if (now.mono < due_) return {};
    OUTRIDER_TRY(reader_, PositionReader::create(loop_, settings_, identity_));
  }
  const Result<bool> done = reader_->drive();
  if (!done) {
    reader_.reset();
    if (done.error().kind == ErrorKind::configuration) {
      Error error = done.error();
      if (error.code == rd_kafka_err2name(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)) {
        error.hint = "grant the relay's Kafka user READ on topic \"" +
                     settings_.delivery.position_topic + "\"" +
                     (exactly_once() ? "" : ", or set delivery.witness: false");
      }
      return fail(std::move(error));
    }
    last_trouble_ = done.error().message;
    delay_ = std::clamp(delay_ * 2, kReadAgainFirst, kReadAgainMax);
    due_ = now.mono + delay_;
    return {};
  }
  if (!*done) return find_again(now);
  stored_ = reader_->found();
  if (reader_->foreign_records() > 0) {
    log_(LogLevel::warn, std::to_string(reader_->foreign_records()) +
                             " records of the position topic \"" +
                             settings_.delivery.position_topic + "\" were not written by Outrider");
  }
  reader_.reset();
  last_trouble_.clear();
  enter(State::open, now);
  return {};
}

/// A reader of a topic that is not there waits for ever and says nothing.
Result<> Session::find_again(Now now) {
  if (reader_->held_up() || now.mono - since_ < kReaderPatience) return {};
  reader_.reset();
  topic_ = nullptr;
  catalog_.emplace(position_topic_config(settings_, !topic_seen_), log_, kSecondCatalogQuestions);
  catalog_->attach(client_, queue_);
  enter(State::finding_topic, now);
  return {};
}

bool Session::take_answer(rd_kafka_event_t* event, Now now) {
  return catalog_ && catalog_->take_answer(event, now);
}

Lsn Session::durable() const {
  if (!stored_ || stored_->exactly_once != exactly_once() || !(stored_->identity == identity_)) {
    return Lsn{};
  }
  return stored_->point.lsn;
}

std::string Session::trouble(Now now) const {
  if (state_ == State::closed || state_ == State::open) return {};
  const std::string topic = "topic \"" + settings_.delivery.position_topic + "\"";
  if (!last_trouble_.empty()) return last_trouble_;
  if (state_ == State::finding_topic) {
    const std::string trouble = catalog_->trouble(now);
    if (!trouble.empty()) return trouble;
  }
  if (state_ == State::initialising && now.mono - since_ >= kPatience) {
    return "waiting for the transaction coordinator";
  }
  if (reader_ != nullptr && reader_->held_up()) {
    return "reading the stored position from " + topic +
           ": waiting for the end of another relay's open transaction";
  }
  return "reading the stored position from " + topic;
}

std::optional<MonoTime> Session::deadline() const {
  std::optional<MonoTime> due = catalog_ ? catalog_->deadline() : std::nullopt;
  const bool waits = state_ == State::initialising ||
                     (state_ == State::reading && (reader_ == nullptr || reader_->has_more()));
  if (waits) due = due ? std::min(*due, due_) : due_;
  if (state_ == State::reading && reader_ != nullptr && !reader_->held_up()) {
    const MonoTime look = since_ + kReaderPatience;
    due = due ? std::min(*due, look) : look;
  }
  return due;
}

}  // namespace outrider
