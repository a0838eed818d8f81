#include "kafka/producer_sink.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <utility>

#include "kafka/client_conf.h"
#include "kafka/errors.h"
#include "kafka/hand_over.h"
#include "kafka/record_size.h"
#include "kafka/record_time.h"
#include "kafka/transaction_step.h"
#include "outrider/base/check.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

/// Events other than delivery reports taken in one go; the rest waits for the next turn.
constexpr int kEventsPerTurnMax = 64;
/// Purged records come back within this time of a loss, the real cause among them, and so do the
/// answers to most of what was under way.
constexpr milliseconds kLossDelay{500};
constexpr milliseconds kSlowStop{100};
constexpr int kPurgeUnsent = RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_NON_BLOCKING;
constexpr const char* kOriginalTimestamp = "outrider.original_timestamp";

std::string quoted_topic(std::string_view name) { return "topic \"" + std::string(name) + "\""; }

std::int64_t wall_ms(Now now) {
  return std::chrono::duration_cast<milliseconds>(now.wall.time_since_epoch()).count();
}

std::string event_id_of(const rd_kafka_message_t& message) {
  rd_kafka_headers_t* headers = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
      rd_kafka_header_get_last(headers, "id", &value, &size) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return {};
  }
  return std::string(static_cast<const char*>(value), size);
}

std::uint64_t sequence_of(const rd_kafka_message_t& message) {
  return reinterpret_cast<std::uintptr_t>(message._private) >> 1;
}

std::string_view topic_of(const rd_kafka_message_t& message) {
  return message.rkt == nullptr ? "" : rd_kafka_topic_name(message.rkt);
}

std::string random_name() {
  std::random_device random;
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%08x%08x", random(), random());
  return text.data();
}

}  // namespace

ProducerSink::ProducerSink(EventLoop& loop, ProducerSettings settings, SettingsProvider provider,
                           LogFunction log)
    : loop_(loop),
      writer_(random_name()),
      settings_(std::move(settings)),
      provider_(std::move(provider)),
      log_(std::move(log)),
      catalog_(settings_.topics, log_),
      link_(log_),
      session_(loop, log_),
      transactions_(settings_.delivery) {}

ProducerSink::~ProducerSink() { drop_instance(); }

Result<> ProducerSink::start() {
  OUTRIDER_TRY(ConfHandle conf, make_producer_conf(settings_, transactional_id_));
  batch_bytes_ = get_number(conf.get(), "batch.size");
  if (topic_batch_bytes_ && *topic_batch_bytes_ < batch_bytes_) {
    batch_bytes_ = *topic_batch_bytes_;
    OUTRIDER_TRY(set_property(conf.get(), "batch.size", std::to_string(batch_bytes_)));
  }
  compressed_ = get_property(conf.get(), "compression.codec") != "none";
  murmur2_ = get_property(conf.get(), "partitioner").starts_with("murmur2");
  OUTRIDER_TRY(instance_, ClientInstance::create(loop_, std::move(conf)));
  catalog_.attach(instance_->client(), instance_->queue());
  session_.attach(instance_->client(), instance_->queue());
  client_used_ = false;
  more_ = true;
  return {};
}

void ProducerSink::drop_instance() {
  if (instance_ != nullptr) abort_open_transaction();
  catalog_.detach();
  session_.detach();
  reports_.reset();
  stats_.client_gone();
  witness_.lost();
  transactions_.reset();
  positions_open_ = 0;
  if (instance_ == nullptr) return;
  const MonoTime begin = std::chrono::steady_clock::now();
  instance_.reset();
  const auto took =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
  if (took > kSlowStop) {
    log_(LogLevel::warn, "the Kafka client took " + std::to_string(took.count()) +
                             " ms to stop: name look-ups are slow");
  }
}

void ProducerSink::restart(Now now) {
  now_ = now;
  open_ = 0;
  loss_.reset();
  first_cause_.clear();
  renew(now);
}

// A new client in place of the old one; nothing may be open that anybody waits for.
void ProducerSink::renew(Now now) {
  drop_instance();
  link_.reset(now.mono);
  start_failure_.reset();
  read_settings_again();
  if (auto started = start(); !started) start_failure_ = std::move(started).error();
}

void ProducerSink::read_settings_again() {
  Result<ProducerSettings> fresh = provider_();
  Result<> checked = fresh ? check_producer_settings(*fresh) : Result<>{};
  if (fresh && checked) {
    settings_ = std::move(*fresh);
    return;
  }
  const Error& error = fresh ? checked.error() : fresh.error();
  log_(LogLevel::warn,
       "the kafka settings cannot be read again, the old ones stay in force: " + error.message);
}

const TopicLimits* ProducerSink::topic_limits(std::string_view topic) const {
  return catalog_.limits(topic);
}

Result<> ProducerSink::drive(Now now) {
  now_ = now;
  if (start_failure_) return fail(*start_failure_);
  if (instance_->take_wake()) more_ = true;
  if (reports_ == nullptr && more_) pump();
  link_.drive(instance_->client(), now.mono);
  catalog_.drive(now, link_.connected());
  if (catalog_.failure()) return fail(*catalog_.failure());
  if (auto refused = link_.refused(milliseconds(settings_.login_patience_ms), now.mono)) {
    return fail(std::move(*refused));
  }
  return drive_session();
}

void ProducerSink::pump() {
  for (int i = 0; i < kEventsPerTurnMax && reports_ == nullptr; ++i) {
    EventHandle event = instance_->poll();
    if (event == nullptr) {
      more_ = false;
      return;
    }
    take_event(std::move(event));
  }
}

void ProducerSink::take_event(EventHandle event) {
  switch (rd_kafka_event_type(event.get())) {
    case RD_KAFKA_EVENT_DR:
      reports_ = std::move(event);
      break;
    case RD_KAFKA_EVENT_ERROR:
      stats_.failed(rd_kafka_err2name(rd_kafka_event_error(event.get())));
      if (!note_fatal_error()) link_.take_client_error(event.get(), now_.mono);
      break;
    case RD_KAFKA_EVENT_LOG:
      link_.take_log_line(event.get(), now_.mono);
      break;
    case RD_KAFKA_EVENT_STATS:
      take_statistics(event.get());
      break;
    default:
      if (reinterpret_cast<std::uintptr_t>(rd_kafka_event_opaque(event.get())) >
          kSecondCatalogQuestions) {
        if (session_.take_answer(event.get(), now_)) link_.note_life();
      } else if (catalog_.take_answer(event.get(), now_)) {
        link_.note_life();
      }
      break;
  }
}

// An event of a fatal error carries the code of its cause, so the client itself is asked.
bool ProducerSink::note_fatal_error() {
  std::array<char, 512> text{};
  const rd_kafka_resp_err_t cause =
      rd_kafka_fatal_error(instance_->client(), text.data(), text.size());
  if (cause == RD_KAFKA_RESP_ERR_NO_ERROR) return false;
  Error error = kafka_error(cause, {});
  error.message = std::string("the Kafka producer cannot go on: ") + text.data();
  lose(fenced(std::move(error)));
  return true;
}

// What was handed over and not sent stays unsent, so that nothing passes what failed; what was sent
// already still gets its real outcome.
void ProducerSink::lose(Error error) {
  if (loss_) return;
  loss_ = Loss{std::move(error), now_.mono};
  static_cast<void>(rd_kafka_purge(instance_->client(), kPurgeUnsent));
}

// What can be refused before the library sees it; false: wait.
Result<bool> ProducerSink::fits(const KafkaRecord& record, const TopicLimits& limits) {
  if (!limits.message_bytes_max) return true;
  const std::int64_t most = *limits.message_bytes_max;
  if (most < batch_bytes_) {
    cap_batches(record.topic, most);
    return false;
  }
  // Compressed it may still fit: then only the broker can tell.
  if (!compressed_ && lone_batch_bytes(record) > most) {
    return fail(ErrorKind::poison,
                "the record takes " + std::to_string(lone_batch_bytes(record)) + " bytes, " +
                    quoted_topic(record.topic) + " takes at most " + std::to_string(most),
                "raise max.message.bytes of the topic, or make the payload smaller",
                rd_kafka_err2name(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE));
  }
  return true;
}

// Batches are not split by a broker, so a topic that takes less than our batches would refuse rows
// that are small enough.
void ProducerSink::cap_batches(std::string_view topic, std::int64_t bytes) {
  if (!topic_batch_bytes_ || bytes < *topic_batch_bytes_) {
    log_(LogLevel::warn, quoted_topic(topic) + " takes at most " + std::to_string(bytes) +
                             " bytes a batch: all batches become that small; raise its "
                             "max.message.bytes to " +
                             std::to_string(batch_bytes_));
    topic_batch_bytes_ = std::max<std::int64_t>(bytes, 1);
  }
  if (exactly_once()) {
    lose(
        Error{ErrorKind::transient, "the Kafka producer is made anew for smaller batches", {}, {}});
  } else if (open_ == 0) {
    const bool in_session = client_used_;
    renew(now_);
    client_used_ = in_session;
    if (in_session && !start_failure_) session_.begin(session_.identity(), settings_, now_);
  }
}

// True: the topic would delete the record soon after it acknowledged it.
Result<bool> ProducerSink::expires(const KafkaRecord& record, const TopicLimits& limits) {
  if (!is_expired(record.timestamp_ms, limits, wall_ms(now_))) return false;
  if (settings_.delivery.on_expired == OnExpired::stop) {
    return fail(expired_error(record, limits, wall_ms(now_)));
  }
  return true;
}

Result<ProduceStatus> ProducerSink::produce(const KafkaRecord& record, std::uint64_t sequence,
                                            Now now) {
  now_ = now;
  OUTRIDER_TRY(check_record(record));
  if (instance_ == nullptr || start_failure_ || loss_) return ProduceStatus::busy;
  if (exactly_once() && (!session_.open() || !transactions_.takes_records(now.mono))) {
    return ProduceStatus::busy;
  }
  OUTRIDER_TRY(rd_kafka_topic_t* const topic, catalog_.use(record.topic, now, link_.connected()));
  if (topic == nullptr) return ProduceStatus::busy;
  static const TopicLimits kUnknown;
  const TopicLimits* known = catalog_.limits(record.topic);
  const TopicLimits& limits = known == nullptr ? kUnknown : *known;
  const Result<bool> fitting = fits(record, limits);
  if (!fitting) {
    if (catalog_.look_again(record.topic, now)) return ProduceStatus::busy;
    return fail(fitting.error());
  }
  if (!*fitting) return ProduceStatus::busy;
  OUTRIDER_TRY(const bool expired, expires(record, limits));
  if (expired && settings_.delivery.on_expired == OnExpired::stamp_now) {
    return enqueue_stamped_now(record, sequence, topic);
  }
  if (Result<> timely = check_time(record, limits, wall_ms(now)); !timely) {
    if (catalog_.look_again(record.topic, now)) return ProduceStatus::busy;
    return fail(std::move(timely).error());
  }
  OUTRIDER_TRY(const ProduceStatus status, enqueue(record, sequence, topic));
  if (expired && status == ProduceStatus::accepted) {
    ++expired_;
    link_.warn("expired " + std::string(record.topic),
               describe(expired_error(record, limits, wall_ms(now))), now.mono);
  }
  return status;
}

Result<ProduceStatus> ProducerSink::enqueue_stamped_now(const KafkaRecord& record,
                                                        std::uint64_t sequence,
                                                        rd_kafka_topic_t* topic) {
  const std::string original = std::to_string(record.timestamp_ms);
  KafkaRecord stamped = record;
  stamped.timestamp_ms = wall_ms(now_);
  stamped.headers.push_back({kOriginalTimestamp, original});
  OUTRIDER_TRY(const ProduceStatus status, enqueue(stamped, sequence, topic));
  if (status == ProduceStatus::accepted) ++expired_;
  return status;
}

Result<ProduceStatus> ProducerSink::enqueue(const KafkaRecord& record, std::uint64_t sequence,
                                            rd_kafka_topic_t* topic) {
  if (exactly_once()) {
    if (auto begun = transactions_.begin(instance_->client(), now_.mono); !begun) {
      lose_transaction(std::move(begun).error());
      return ProduceStatus::busy;
    }
  }
  // A number in a pointer's clothes: nothing to free, nothing to dangle. The lowest bit says
  // whether the row named its partition; in a report that cannot be seen any more.
  const std::uintptr_t opaque = sequence << 1 | (record.partition ? 1U : 0U);
  const ErrorHandle failure = stats_.produce_time.run(
      [&] { return hand_over(instance_->client(), topic, record, opaque); });
  if (failure != nullptr) return not_enqueued(failure.get(), record);
  ++open_;
  if (exactly_once()) {
    transactions_.produced(sequence, static_cast<std::uint64_t>(lone_batch_bytes(record)),
                           now_.mono);
  }
  return ProduceStatus::accepted;
}

Result<ProduceStatus> ProducerSink::not_enqueued(const rd_kafka_error_t* failure,
                                                 const KafkaRecord& record) {
  const rd_kafka_resp_err_t code = rd_kafka_error_code(failure);
  if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
    if (open_ > 0) return ProduceStatus::busy;
    // Nothing is in the queue and still it does not fit: it never will.
    return fail(
        ErrorKind::poison,
        "the record for " + quoted_topic(record.topic) + " is larger than the client's queue",
        "raise kafka.properties.queue.buffering.max.kbytes, or limits.in_flight_bytes_max",
        rd_kafka_err2name(code));
  }
  if (note_fatal_error()) return ProduceStatus::busy;
  Error error = kafka_error(code, "cannot send to " + quoted_topic(record.topic));
  if (code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION) {
    if (!record.partition) error.kind = ErrorKind::transient;
    error.message = "partition " + std::to_string(record.partition.value_or(-1)) + " of " +
                    quoted_topic(record.topic) + " does not exist";
  }
  if (error.kind == ErrorKind::poison || error.kind == ErrorKind::configuration) {
    return fail(std::move(error));
  }
  error.message =
      "cannot send to " + quoted_topic(record.topic) + ": " + rd_kafka_error_string(failure);
  lose(std::move(error));
  return ProduceStatus::busy;
}

bool ProducerSink::next_report(SinkReport& report) {
  if (instance_ == nullptr) return false;
  if (const auto sequence = transactions_.take_finished()) {
    report = Delivered{*sequence};
    return true;
  }
  while (true) {
    if (reports_ == nullptr) {
      if (more_) pump();
      if (reports_ == nullptr) return take_loss(report);
    }
    const rd_kafka_message_t* message = rd_kafka_event_message_next(reports_.get());
    if (message == nullptr) {
      reports_.reset();
    } else if (take_report(*message, report)) {
      return true;
    }
  }
}

bool ProducerSink::take_report(const rd_kafka_message_t& message, SinkReport& report) {
  if (reinterpret_cast<std::uintptr_t>(message._private) == kPositionOpaque) {
    take_position_report(message);
    return false;
  }
  OUTRIDER_CHECK(open_ > 0, "a report comes once, and only for a record handed over");
  --open_;
  if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) return take_failure(message, report);
  link_.note_acknowledgement();
  count_delivery(message);
  if (catalog_.denies()) catalog_.allow(topic_of(message));
  if (exactly_once()) {
    transactions_.wake();
    report = Accepted{sequence_of(message)};  // Delivered when the transaction is committed.
  } else {
    report = Delivered{sequence_of(message)};
  }
  return true;
}

// Purged records are no culprits, except where the broker named a topic and not its records.
bool ProducerSink::take_failure(const rd_kafka_message_t& message, SinkReport& report) {
  const bool purged = is_purge(message.err) || message.err == RD_KAFKA_RESP_ERR__FATAL;
  if (purged && exactly_once() && !loss_) {
    if (auto reason = abort_reason(instance_->client())) lose_transaction(std::move(*reason));
  }
  if (purged && loss_ && loss_->of_topic) {
    // The only one: its topic is the culprit.
    if (open_ == 0 && first_cause_.empty()) catalog_.deny(topic_of(message), loss_->error, now_);
    if (first_cause_.empty()) first_cause_ = loss_->error.message;
    report = Refused{sequence_of(message), loss_->error, event_id_of(message),
                     std::string(topic_of(message))};
    return true;
  }
  if (purged || (exactly_once() && ends_transactions(message.err))) {
    if (!loss_ && !note_fatal_error()) {
      lose(kafka_error(message.err, purged ? "records were dropped from the producer's queue"
                                           : "the Kafka transaction cannot go on"));
    }
    return false;
  }
  report = refusal(message);
  return true;
}

Refused ProducerSink::refusal(const rd_kafka_message_t& message) {
  const std::string topic = quoted_topic(topic_of(message));
  stats_.failed(rd_kafka_err2name(message.err));
  Error error = kafka_error(message.err, "cannot send to " + topic);
  if (message.err == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION) {
    if ((reinterpret_cast<std::uintptr_t>(message._private) & 1) == 0) {
      // Our own choice: the topic was deleted, or made anew with fewer partitions.
      error.kind = ErrorKind::transient;
      error.hint = "nothing to do if the topic is made again: the relay looks it up anew";
    } else {
      error.message =
          "partition " + std::to_string(message.partition) + " of " + topic + " does not exist";
    }
  }
  if (error.kind == ErrorKind::configuration) catalog_.deny(topic_of(message), error, now_);
  if (first_cause_.empty()) first_cause_ = error.message;
  if (!loss_ && !note_fatal_error()) {
    // Refused by the client alone, which goes on after it; the relay must not.
    lose(kafka_error(RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE, "the Kafka producer is given up"));
  }
  return Refused{sequence_of(message), std::move(error), event_id_of(message),
                 std::string(topic_of(message))};
}

bool ProducerSink::take_loss(SinkReport& report) {
  if (!loss_ || loss_->told) return false;
  if (open_ > 0 && now_.mono - loss_->since < kLossDelay) return false;
  Error error = loss_->error;
  if (loss_->of_topic) error.kind = ErrorKind::transient;  // The refused records say the rest.
  if (!first_cause_.empty()) error.message += "; first cause: " + first_cause_;
  loss_->told = true;
  report = SinkLost{std::move(error)};
  return true;
}

bool ProducerSink::healthy() const { return link_.answered() && trouble().empty(); }

std::string ProducerSink::trouble() const {
  if (start_failure_) return start_failure_->message;
  if (loss_) return loss_->error.message;
  if (std::string link = link_.trouble(now_.mono); !link.empty()) return link;
  if (std::string topic = catalog_.trouble(now_); !topic.empty()) return topic;
  if (!link_.answered()) return "no Kafka broker has answered yet";
  if (std::string session = session_.trouble(now_); !session.empty()) return session;
  return transactions_.trouble(now_.mono);
}

std::optional<MonoTime> ProducerSink::deadline() const {
  if (start_failure_ || reports_ != nullptr || more_) return now_.mono;
  std::optional<MonoTime> due = catalog_.deadline();
  const auto consider = [&due](std::optional<MonoTime> time) {
    if (time) due = due ? std::min(*due, *time) : *time;
  };
  consider(link_.deadline(milliseconds(settings_.login_patience_ms), now_.mono));
  if (loss_ && !loss_->told) consider(loss_->since + kLossDelay);
  if (loss_) return due;
  consider(session_.deadline());
  if (session_.open())
    consider(exactly_once() ? transactions_.deadline(open_ + positions_open_ > 0)
                            : witness_.deadline());
  return due;
}

}  // namespace outrider
