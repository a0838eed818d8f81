#include "kafka/producer_sink.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kafka/client_conf.h"
#include "kafka/errors.h"
#include "kafka/record_size.h"
#include "outrider/base/check.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

/// Events other than delivery reports taken in one go; the rest waits for the next turn.
constexpr int kEventsPerTurnMax = 64;
constexpr milliseconds kLogInterval{30'000};
/// Purged records come back within this time of a loss, the real cause among them.
constexpr milliseconds kLossDelay{500};
/// Shorter outages are reconnects: brokers close idle connections.
constexpr milliseconds kOutageGrace{1'000};
constexpr milliseconds kFirstLook{100};
constexpr milliseconds kLookInterval{1'000};
constexpr milliseconds kSlowStop{100};
constexpr int kSyslogError = 3;
constexpr int kSyslogWarning = 4;
constexpr int kSyslogInfo = 6;

LogLevel to_log_level(int syslog_level) {
  if (syslog_level <= kSyslogError) return LogLevel::error;
  if (syslog_level <= kSyslogWarning) return LogLevel::warn;
  return syslog_level <= kSyslogInfo ? LogLevel::info : LogLevel::debug;
}

// A string_view of nothing may point nowhere, and to librdkafka that is null.
const void* bytes_of(std::string_view text) { return text.data() == nullptr ? "" : text.data(); }

HeadersHandle make_headers(const KafkaRecord& record) {
  HeadersHandle headers(rd_kafka_headers_new(record.headers.size()));
  for (const RecordHeader& header : record.headers) {
    // Cannot fail on a list that is not read-only; names and values are copied.
    static_cast<void>(rd_kafka_header_add(
        headers.get(), static_cast<const char*>(bytes_of(header.name)),
        static_cast<ssize_t>(header.name.size()), header.value ? bytes_of(*header.value) : nullptr,
        header.value ? static_cast<ssize_t>(header.value->size()) : 0));
  }
  return headers;
}

rd_kafka_vu_t tagged(rd_kafka_vtype_t type) {
  rd_kafka_vu_t value{};
  value.vtype = type;
  return value;
}

rd_kafka_vu_t bytes(rd_kafka_vtype_t type, const std::optional<std::string_view>& content) {
  rd_kafka_vu_t value = tagged(type);
  // The library copies from here (RD_KAFKA_MSG_F_COPY) and does not write.
  value.u.mem.ptr = content ? const_cast<void*>(bytes_of(*content)) : nullptr;
  value.u.mem.size = content ? content->size() : 0;
  return value;
}

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

}  // namespace

ProducerSink::ProducerSink(EventLoop& loop, ProducerSettings settings, SettingsProvider provider,
                           LogFunction log)
    : loop_(loop),
      settings_(std::move(settings)),
      provider_(std::move(provider)),
      log_(std::move(log)),
      catalog_(settings_.topics, log_),
      limiter_(kLogInterval) {}

ProducerSink::~ProducerSink() { drop_instance(); }

Result<> ProducerSink::start() {
  OUTRIDER_TRY(ConfHandle conf, make_producer_conf(settings_));
  batch_bytes_ = get_number(conf.get(), "batch.size");
  if (topic_batch_bytes_ && *topic_batch_bytes_ < batch_bytes_) {
    batch_bytes_ = *topic_batch_bytes_;
    OUTRIDER_TRY(set_property(conf.get(), "batch.size", std::to_string(batch_bytes_)));
  }
  compressed_ = get_property(conf.get(), "compression.codec") != "none";
  OUTRIDER_TRY(instance_, ProducerInstance::create(loop_, std::move(conf)));
  catalog_.attach(instance_->client(), instance_->queue());
  more_ = true;
  return {};
}

void ProducerSink::drop_instance() {
  catalog_.detach();
  reports_.reset();
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
  drop_instance();
  open_ = 0;
  loss_.reset();
  first_cause_.clear();
  outage_.reset();
  outage_told_ = false;
  login_.reset();
  answered_ = false;
  look_at_ = now.mono + kFirstLook;
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
  look_for_life();
  tell_outage();
  catalog_.drive(now, connected());
  if (catalog_.failure()) return fail(*catalog_.failure());
  if (login_ && !acknowledged_ &&
      now.mono - login_->since >= milliseconds(settings_.login_patience_ms)) {
    return fail(login_->error);
  }
  return {};
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
      take_client_error(event.get());
      break;
    case RD_KAFKA_EVENT_LOG:
      take_log_line(event.get());
      break;
    default:
      if (catalog_.take_answer(event.get(), now_)) note_life();
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
  lose(std::move(error));
  return true;
}

void ProducerSink::take_client_error(rd_kafka_event_t* event) {
  if (note_fatal_error()) return;
  const rd_kafka_resp_err_t code = rd_kafka_event_error(event);
  Error error = kafka_error(code, "no connection to Kafka");
  error.message = "no connection to Kafka: " + text_of(rd_kafka_event_error_string(event));
  if (error.kind == ErrorKind::configuration && !login_) login_ = Complaint{error, now_.mono};
  if (error.kind == ErrorKind::configuration || code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
    if (!outage_) {
      outage_ = Complaint{error, now_.mono};
      look_at_ = now_.mono + kFirstLook;
    } else {
      outage_->error = error;
    }
  }
  if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) return;  // Told if it lasts: tell_outage().
  if (const auto held_back = limiter_.pass(error.code, now_.mono)) {
    log_(LogLevel::warn, outrider::describe(error) +
                             (*held_back == 0 ? "" : "; suppressed=" + std::to_string(*held_back)));
  }
}

void ProducerSink::take_log_line(rd_kafka_event_t* event) {
  const char* facility = nullptr;
  const char* text = nullptr;
  int level = 0;
  if (rd_kafka_event_log(event, &facility, &text, &level) != 0) return;
  const std::string_view name = facility == nullptr ? "" : facility;
  if (name == "FAIL") return;  // Comes as an error event as well.
  // Our own choice is called experimental at each start.
  if (name == "CONFWARN" && text_of(text).find("enable.gapless.guarantee") != std::string::npos) {
    return;
  }
  if (const auto held_back = limiter_.pass(name, now_.mono)) {
    log_(to_log_level(level),
         "librdkafka: " + text_of(facility) + ": " + text_of(text) +
             (*held_back == 0 ? "" : "; suppressed=" + std::to_string(*held_back)));
  }
}

void ProducerSink::note_life() {
  answered_ = true;
  login_.reset();
  if (!outage_) return;
  if (outage_told_) log_(LogLevel::info, "Kafka answers again");
  outage_.reset();
  outage_told_ = false;
}

// Brokers close idle connections, and the client calls that "all brokers are down".
void ProducerSink::tell_outage() {
  if (outage_told_ || !in_outage()) return;
  if (const auto held_back = limiter_.pass(outage_->error.code, now_.mono)) {
    outage_told_ = true;
    log_(LogLevel::warn, outrider::describe(outage_->error) +
                             (*held_back == 0 ? "" : "; suppressed=" + std::to_string(*held_back)));
  }
}

// The library tells of brokers lost, not of brokers back.
void ProducerSink::look_for_life() {
  if (now_.mono < look_at_ || (answered_ && !outage_)) return;
  look_at_ = now_.mono + (in_outage() ? kLookInterval : kFirstLook);
  if (!answered_) {
    char* cluster_id = rd_kafka_clusterid(instance_->client(), 0);  // Cached; never waits at 0.
    if (cluster_id == nullptr) return;
    rd_kafka_mem_free(instance_->client(), cluster_id);
    note_life();
    return;
  }
  // Sends a request if a broker is connected and does not wait for its answer.
  const rd_kafka_metadata_t* answer = nullptr;
  const rd_kafka_resp_err_t code = rd_kafka_metadata(instance_->client(), 0, nullptr, &answer, 0);
  const MetadataHandle metadata(answer);
  if (code != RD_KAFKA_RESP_ERR__TRANSPORT) note_life();
}

bool ProducerSink::connected() const { return answered_ && !outage_; }

bool ProducerSink::in_outage() const {
  return outage_ && now_.mono - outage_->since >= kOutageGrace;
}

void ProducerSink::lose(Error error) {
  if (!loss_) loss_ = Loss{std::move(error), now_.mono};
}

// What can be refused before the library sees it; false: wait. Batches are not split by a broker,
// so a topic that takes less than our batches would refuse rows that are small enough.
Result<bool> ProducerSink::fits(const KafkaRecord& record) {
  const TopicLimits* limits = catalog_.limits(record.topic);
  if (limits == nullptr || !limits->message_bytes_max) return true;
  const std::int64_t most = *limits->message_bytes_max;
  if (most < batch_bytes_) {
    if (!topic_batch_bytes_ || most < *topic_batch_bytes_) {
      log_(LogLevel::warn, "topic \"" + std::string(record.topic) + "\" takes at most " +
                               std::to_string(most) +
                               " bytes a batch: all batches become that small; raise its "
                               "max.message.bytes to " +
                               std::to_string(batch_bytes_));
      topic_batch_bytes_ = std::max<std::int64_t>(most, 1);
    }
    if (open_ == 0) restart(now_);
    return false;
  }
  // Compressed it may still fit: then only the broker can tell.
  if (!compressed_ && lone_batch_bytes(record) > most) {
    return fail(ErrorKind::poison,
                "the record takes " + std::to_string(lone_batch_bytes(record)) +
                    " bytes, topic \"" + std::string(record.topic) + "\" takes at most " +
                    std::to_string(most),
                "raise max.message.bytes of the topic, or make the payload smaller",
                rd_kafka_err2name(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE));
  }
  return true;
}

Result<ProduceStatus> ProducerSink::produce(const KafkaRecord& record, std::uint64_t sequence,
                                            Now now) {
  now_ = now;
  OUTRIDER_TRY(check_record(record));
  if (instance_ == nullptr || loss_) return ProduceStatus::busy;
  rd_kafka_topic_t* topic = catalog_.use(record.topic, now, connected());
  if (topic == nullptr) return ProduceStatus::busy;
  OUTRIDER_TRY(const bool fitting, fits(record));
  if (!fitting) return ProduceStatus::busy;
  return enqueue(record, sequence, topic);
}

Result<ProduceStatus> ProducerSink::enqueue(const KafkaRecord& record, std::uint64_t sequence,
                                            rd_kafka_topic_t* topic) {
  HeadersHandle headers = make_headers(record);
  std::array<rd_kafka_vu_t, 8> fields{};
  fields[0] = tagged(RD_KAFKA_VTYPE_RKT);
  fields[0].u.rkt = topic;
  fields[1] = tagged(RD_KAFKA_VTYPE_PARTITION);
  fields[1].u.i32 = record.partition.value_or(RD_KAFKA_PARTITION_UA);
  fields[2] = bytes(RD_KAFKA_VTYPE_KEY, record.key);
  fields[3] = bytes(RD_KAFKA_VTYPE_VALUE, record.value);
  fields[4] = tagged(RD_KAFKA_VTYPE_TIMESTAMP);
  fields[4].u.i64 = record.timestamp_ms;
  fields[5] = tagged(RD_KAFKA_VTYPE_MSGFLAGS);
  fields[5].u.i = RD_KAFKA_MSG_F_COPY;
  fields[6] = tagged(RD_KAFKA_VTYPE_OPAQUE);
  // A number in a pointer's clothes: nothing to free, nothing to dangle. The lowest bit says
  // whether the row named its partition; in a report that cannot be seen any more.
  fields[6].u.ptr = reinterpret_cast<void*>(
      static_cast<std::uintptr_t>(sequence << 1 | (record.partition ? 1U : 0U)));
  fields[7] = tagged(RD_KAFKA_VTYPE_HEADERS);
  fields[7].u.headers = headers.get();
  const ErrorHandle error(rd_kafka_produceva(instance_->client(), fields.data(), fields.size()));
  if (error != nullptr) {
    return not_enqueued(rd_kafka_error_code(error.get()), rd_kafka_error_string(error.get()),
                        record);
  }
  static_cast<void>(headers.release());  // The library's from here on, and only on success.
  ++open_;
  return ProduceStatus::accepted;
}

Result<ProduceStatus> ProducerSink::not_enqueued(rd_kafka_resp_err_t code, const std::string& text,
                                                 const KafkaRecord& record) {
  if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
    if (open_ > 0) return ProduceStatus::busy;
    // Nothing is in the queue and still it does not fit: it never will.
    return fail(ErrorKind::poison,
                "the record for topic \"" + std::string(record.topic) +
                    "\" is larger than the client's queue",
                "raise kafka.properties.queue.buffering.max.kbytes, or limits.in_flight_bytes_max",
                rd_kafka_err2name(code));
  }
  if (note_fatal_error()) return ProduceStatus::busy;
  const std::string topic = "topic \"" + std::string(record.topic) + "\"";
  Error error = kafka_error(code, "cannot send to " + topic);
  if (code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION) {
    if (!record.partition) error.kind = ErrorKind::transient;
    error.message = "partition " + std::to_string(record.partition.value_or(-1)) + " of " + topic +
                    " does not exist";
  }
  if (error.kind == ErrorKind::poison || error.kind == ErrorKind::configuration) {
    return fail(std::move(error));
  }
  error.message = "cannot send to " + topic + ": " + text;
  lose(std::move(error));
  return ProduceStatus::busy;
}

bool ProducerSink::next_report(SinkReport& report) {
  if (instance_ == nullptr) return false;
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
  OUTRIDER_CHECK(open_ > 0, "a report comes once, and only for a record handed over");
  --open_;
  const std::uint64_t sequence = reinterpret_cast<std::uintptr_t>(message._private) >> 1;
  if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    acknowledged_ = true;
    if (!answered_ || outage_ || login_) note_life();
    report = Delivered{sequence};
    return true;
  }
  if (is_purge(message.err) || message.err == RD_KAFKA_RESP_ERR__FATAL) {
    if (!note_fatal_error()) {
      lose(kafka_error(message.err, "records were dropped from the producer's queue"));
    }
    return false;
  }
  Error error = refusal(message);
  if (first_cause_.empty()) first_cause_ = error.message;
  report = Refused{sequence, std::move(error), event_id_of(message)};
  return true;
}

std::string ProducerSink::event_id_of(const rd_kafka_message_t& message) {
  rd_kafka_headers_t* headers = nullptr;
  const void* value = nullptr;
  std::size_t size = 0;
  if (rd_kafka_message_headers(&message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR ||
      rd_kafka_header_get_last(headers, "id", &value, &size) != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return {};
  }
  return std::string(static_cast<const char*>(value), size);
}

Error ProducerSink::refusal(const rd_kafka_message_t& message) const {
  const std::string topic =
      "topic \"" + std::string(message.rkt == nullptr ? "" : rd_kafka_topic_name(message.rkt)) +
      "\"";
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
  return error;
}

bool ProducerSink::take_loss(SinkReport& report) {
  if (!loss_ || loss_->since == MonoTime::max()) return false;  // None, or told already.
  if (open_ > 0 && now_.mono - loss_->since < kLossDelay) return false;
  Error error = loss_->error;
  if (!first_cause_.empty()) error.message += "; first cause: " + first_cause_;
  loss_->since = MonoTime::max();
  report = SinkLost{std::move(error)};
  return true;
}

bool ProducerSink::healthy() const { return answered_ && trouble().empty(); }

std::string ProducerSink::trouble() const {
  if (start_failure_) return start_failure_->message;
  if (loss_) return loss_->error.message;
  if (login_) return login_->error.message;
  if (in_outage()) return outage_->error.message;
  if (std::string topic = catalog_.trouble(now_); !topic.empty()) return topic;
  return answered_ ? "" : "no Kafka broker has answered yet";
}

std::optional<MonoTime> ProducerSink::deadline() const {
  if (start_failure_ || reports_ != nullptr || more_) return now_.mono;
  std::optional<MonoTime> due = catalog_.deadline();
  const auto consider = [&due](MonoTime time) { due = due ? std::min(*due, time) : time; };
  if (!answered_ || outage_) consider(look_at_);
  if (outage_ && !in_outage()) consider(outage_->since + kOutageGrace);
  if (loss_ && loss_->since != MonoTime::max()) consider(loss_->since + kLossDelay);
  if (login_ && !acknowledged_) {
    consider(login_->since + milliseconds(settings_.login_patience_ms));
  }
  return due;
}

}  // namespace outrider
