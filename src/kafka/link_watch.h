// LinkWatch: whether brokers answer, as far as one can tell, and what is said about it.
//
// Fed with the client's error and log events and with every sign of life. Shorter outages than
// kOutageGrace are reconnects (brokers close idle connections) and nobody is told. Log lines are
// limited in rate. Owns nothing of the client. Thread: loop; nothing here blocks.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "kafka/handles.h"
#include "kafka/log_limiter.h"
#include "kafka/producer.h"
#include "outrider/base/clock.h"

namespace outrider {

class LinkWatch {
 public:
  explicit LinkWatch(LogFunction log);

  /// A new client: nothing is known about it.
  void reset(MonoTime now);

  /// An error event that is not a fatal error of the producer.
  void take_client_error(rd_kafka_event_t* event, MonoTime now);
  void take_log_line(rd_kafka_event_t* event, MonoTime now);

  /// A broker answered.
  void note_life();
  /// A broker acknowledged a record: from now on a refused login is a matter of waiting.
  void note_acknowledgement();

  /// Look for signs of life if it is time, and tell of an outage that lasts.
  void drive(rd_kafka_t* client, MonoTime now);

  /// Log at most once an interval for each key.
  void warn(const std::string& key, const std::string& line, MonoTime now);

  bool answered() const { return answered_; }
  bool connected() const { return answered_ && !outage_; }

  /// The login has been refused for `patience` since the start.
  std::optional<Error> refused(std::chrono::milliseconds patience, MonoTime now) const;

  std::string trouble(MonoTime now) const;
  std::optional<MonoTime> deadline(std::chrono::milliseconds patience, MonoTime now) const;

 private:
  struct Complaint {
    Error error;
    MonoTime since;
  };

  bool in_outage(MonoTime now) const;
  void look(rd_kafka_t* client, MonoTime now);

  const LogFunction log_;
  LogLimiter limiter_;
  bool answered_ = false;      ///< A broker has answered this client.
  bool acknowledged_ = false;  ///< A record was ever acknowledged.
  MonoTime look_at_{};         ///< When to look for signs of life again.
  std::optional<Complaint> outage_;
  bool outage_told_ = false;
  std::optional<Complaint> login_;
};

}  // namespace outrider
