#include "kafka/link_watch.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>

#include "kafka/errors.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLogInterval{30'000};
/// Shorter outages are reconnects: brokers close idle connections.
constexpr milliseconds kOutageGrace{1'000};
constexpr milliseconds kFirstLook{100};
constexpr milliseconds kLookInterval{1'000};
constexpr int kSyslogError = 3;
constexpr int kSyslogWarning = 4;
constexpr int kSyslogInfo = 6;

LogLevel to_log_level(int syslog_level) {
  if (syslog_level <= kSyslogError) return LogLevel::error;
  if (syslog_level <= kSyslogWarning) return LogLevel::warn;
  return syslog_level <= kSyslogInfo ? LogLevel::info : LogLevel::debug;
}

std::string text_of(const char* text) { return text == nullptr ? "" : text; }

std::string suppressed(std::uint64_t held_back) {
  return held_back == 0 ? "" : "; suppressed=" + std::to_string(held_back);
}

}  // namespace

LinkWatch::LinkWatch(LogFunction log) : log_(std::move(log)), limiter_(kLogInterval) {}

void LinkWatch::reset(MonoTime now) {
  outage_.reset();
  outage_told_ = false;
  login_.reset();
  answered_ = false;
  look_at_ = now + kFirstLook;
}

void LinkWatch::take_client_error(rd_kafka_event_t* event, MonoTime now) {
  const rd_kafka_resp_err_t code = rd_kafka_event_error(event);
  Error error = kafka_error(code, "no connection to Kafka");
  error.message = "no connection to Kafka: " + text_of(rd_kafka_event_error_string(event));
  if (error.kind == ErrorKind::configuration && !login_) login_ = Complaint{error, now};
  if (error.kind == ErrorKind::configuration || code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
    if (!outage_) {
      outage_ = Complaint{error, now};
      look_at_ = now + kFirstLook;
    } else {
      outage_->error = error;
    }
  }
  if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) return;  // Told if it lasts: drive().
  warn(error.code, outrider::describe(error), now);
}

void LinkWatch::warn(const std::string& key, const std::string& line, MonoTime now) {
  if (const auto held_back = limiter_.pass(key, now)) {
    log_(LogLevel::warn, line + suppressed(*held_back));
  }
}

void LinkWatch::take_log_line(rd_kafka_event_t* event, MonoTime now) {
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
  if (const auto held_back = limiter_.pass(name, now)) {
    log_(to_log_level(level),
         "librdkafka: " + text_of(facility) + ": " + text_of(text) + suppressed(*held_back));
  }
}

void LinkWatch::note_life() {
  answered_ = true;
  login_.reset();
  if (!outage_) return;
  if (outage_told_) log_(LogLevel::info, "Kafka answers again");
  outage_.reset();
  outage_told_ = false;
}

void LinkWatch::note_acknowledgement() {
  acknowledged_ = true;
  if (!answered_ || outage_ || login_) note_life();
}

void LinkWatch::drive(rd_kafka_t* client, MonoTime now) {
  look(client, now);
  // Brokers close idle connections, and the client calls that "all brokers are down".
  if (outage_told_ || !in_outage(now)) return;
  if (const auto held_back = limiter_.pass(outage_->error.code, now)) {
    outage_told_ = true;
    log_(LogLevel::warn, outrider::describe(outage_->error) + suppressed(*held_back));
  }
}

// The library tells of brokers lost, not of brokers back.
void LinkWatch::look(rd_kafka_t* client, MonoTime now) {
  if (now < look_at_ || (answered_ && !outage_)) return;
  look_at_ = now + (in_outage(now) ? kLookInterval : kFirstLook);
  if (!answered_) {
    char* cluster_id = rd_kafka_clusterid(client, 0);  // Cached; never waits at 0.
    if (cluster_id == nullptr) return;
    rd_kafka_mem_free(client, cluster_id);
    note_life();
    return;
  }
  // Sends a request if a broker is connected and does not wait for its answer.
  const rd_kafka_metadata_t* answer = nullptr;
  const rd_kafka_resp_err_t code = rd_kafka_metadata(client, 0, nullptr, &answer, 0);
  const MetadataHandle metadata(answer);
  if (code != RD_KAFKA_RESP_ERR__TRANSPORT) note_life();
}

bool LinkWatch::in_outage(MonoTime now) const {
  return outage_ && now - outage_->since >= kOutageGrace;
}

std::optional<Error> LinkWatch::refused(milliseconds patience, MonoTime now) const {
  if (!login_ || acknowledged_ || now - login_->since < patience) return std::nullopt;
  return login_->error;
}

std::string LinkWatch::trouble(MonoTime now) const {
  if (login_) return login_->error.message;
  return in_outage(now) ? outage_->error.message : "";
}

std::optional<MonoTime> LinkWatch::deadline(milliseconds patience, MonoTime now) const {
  std::optional<MonoTime> due;
  const auto consider = [&due](MonoTime time) { due = due ? std::min(*due, time) : time; };
  if (!answered_ || outage_) consider(look_at_);
  if (outage_ && !in_outage(now)) consider(outage_->since + kOutageGrace);
  if (login_ && !acknowledged_) consider(login_->since + patience);
  return due;
}

}  // namespace outrider
