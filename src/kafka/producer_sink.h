// ProducerSink: the mechanics of KafkaProducerSink (see producer.h for its contract).
//
// A report is pulled from the delivery event at hand; when that is used up the queue is asked for
// the next one. The queue's descriptor is written only when it goes from empty to non-empty, so
// `more_` stays set until the queue has said null once.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kafka/instance.h"
#include "kafka/log_limiter.h"
#include "kafka/producer.h"
#include "kafka/topic_catalog.h"

namespace outrider {

class ProducerSink final : public KafkaProducerSink {
 public:
  ProducerSink(EventLoop& loop, ProducerSettings settings, SettingsProvider provider,
               LogFunction log);
  ~ProducerSink() override;

  Result<> start();

  Result<> drive(Now now) override;
  Result<ProduceStatus> produce(const KafkaRecord& record, std::uint64_t sequence,
                                Now now) override;
  bool next_report(SinkReport& report) override;
  void restart(Now now) override;
  bool healthy() const override;
  std::string trouble() const override;
  std::optional<MonoTime> deadline() const override;
  const TopicLimits* topic_limits(std::string_view topic) const override;

 private:
  struct Loss {
    Error error;
    MonoTime since;
  };
  struct Complaint {
    Error error;
    MonoTime since;
  };

  void drop_instance();
  void read_settings_again();
  void pump();
  void take_event(EventHandle event);
  void take_client_error(rd_kafka_event_t* event);
  void take_log_line(rd_kafka_event_t* event);
  bool take_report(const rd_kafka_message_t& message, SinkReport& report);
  static std::string event_id_of(const rd_kafka_message_t& message);
  Error refusal(const rd_kafka_message_t& message) const;
  bool take_loss(SinkReport& report);
  bool note_fatal_error();
  void lose(Error error);
  void note_life();
  void tell_outage();
  void look_for_life();
  Result<bool> fits(const KafkaRecord& record);
  Result<ProduceStatus> enqueue(const KafkaRecord& record, std::uint64_t sequence,
                                rd_kafka_topic_t* topic);
  Result<ProduceStatus> not_enqueued(rd_kafka_resp_err_t code, const std::string& text,
                                     const KafkaRecord& record);
  bool connected() const;
  bool in_outage() const;

  EventLoop& loop_;
  ProducerSettings settings_;
  const SettingsProvider provider_;
  const LogFunction log_;
  TopicCatalog catalog_;
  LogLimiter limiter_;
  std::unique_ptr<ProducerInstance> instance_;
  EventHandle reports_;  ///< The delivery event whose messages are being taken.
  bool more_ = true;
  Now now_{};
  std::uint64_t open_ = 0;  ///< Records handed over and not reported.
  std::optional<Loss> loss_;
  std::string first_cause_;  ///< The first record that failed by itself since the last start.
  std::optional<Error> start_failure_;

  bool answered_ = false;      ///< A broker has answered this instance.
  bool acknowledged_ = false;  ///< A record was ever acknowledged.
  MonoTime look_at_{};         ///< When to look for signs of life again.
  std::optional<Complaint> outage_;
  bool outage_told_ = false;
  std::optional<Complaint> login_;

  std::int64_t batch_bytes_ = 0;                   ///< In force.
  std::optional<std::int64_t> topic_batch_bytes_;  ///< Smallest limit of the topics seen.
  bool compressed_ = true;
};

}  // namespace outrider
