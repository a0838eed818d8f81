// ProducerSink: the mechanics of KafkaProducerSink (see producer.h for its contract).
//
// A report is pulled from the delivery event at hand; when that is used up the queue is asked for
// the next one. The queue's descriptor is written only when it goes from empty to non-empty, so
// `more_` stays set until the queue has said null once. What concerns sessions, witnesses and
// transactions stands in producer_sink_session.cc.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kafka/instance.h"
#include "kafka/link_watch.h"
#include "kafka/producer.h"
#include "kafka/session.h"
#include "kafka/topic_catalog.h"
#include "kafka/transactions.h"
#include "kafka/witness.h"

namespace outrider {

/// The opaque of a position's record; no sequence looks like it.
constexpr std::uintptr_t kPositionOpaque = ~std::uintptr_t{0};

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
  bool transactional() const override { return exactly_once(); }
  void open_session(const SlotIdentity& identity, Now now) override;
  bool session_open() const override { return session_.open() && !loss_; }
  std::optional<StoredPosition> stored() const override { return session_.stored(); }
  void mark(const ResumePoint& point, bool whole, Now now) override;
  void reserve(Lsn lsn, Now now) override;
  Lsn confirm_limit() const override;
  void reserve_exactly(Lsn lsn, Now now) override;
  std::string_view writer() const override { return writer_; }
  bool healthy() const override;
  std::string trouble() const override;
  std::optional<MonoTime> deadline() const override;
  const TopicLimits* topic_limits(std::string_view topic) const override;
  std::uint64_t expired_records() const override { return expired_; }
  const SinkStats& stats() const override { return stats_; }
  std::optional<std::int32_t> partition_of(std::string_view topic,
                                           std::uint32_t key_hash) const override;

 private:
  struct Loss {
    Error error;
    MonoTime since;
    bool told = false;
    bool of_topic = false;  ///< Records that were not sent are refused for this reason.
  };

  void renew(Now now);
  void drop_instance();
  void read_settings_again();
  void pump();
  void take_event(EventHandle event);
  void take_statistics(rd_kafka_event_t* event);
  void count_delivery(const rd_kafka_message_t& message);
  bool take_report(const rd_kafka_message_t& message, SinkReport& report);
  bool take_failure(const rd_kafka_message_t& message, SinkReport& report);
  void take_position_report(const rd_kafka_message_t& message);
  Refused refusal(const rd_kafka_message_t& message);
  bool take_loss(SinkReport& report);
  bool note_fatal_error();
  void lose(Error error);
  Result<bool> fits(const KafkaRecord& record, const TopicLimits& limits);
  void cap_batches(std::string_view topic, std::int64_t bytes);
  Result<bool> expires(const KafkaRecord& record, const TopicLimits& limits);
  Result<ProduceStatus> enqueue(const KafkaRecord& record, std::uint64_t sequence,
                                rd_kafka_topic_t* topic);
  Result<ProduceStatus> enqueue_stamped_now(const KafkaRecord& record, std::uint64_t sequence,
                                            rd_kafka_topic_t* topic);
  Result<ProduceStatus> not_enqueued(const rd_kafka_error_t* failure, const KafkaRecord& record);

  bool exactly_once() const { return settings_.delivery.guarantee == Delivery::exactly_once; }
  Result<> drive_session();
  Result<> drive_transactions();
  Result<> drive_witness();
  Result<bool> write_position(const ResumePoint& point, Lsn flushed);
  Error position_error(Error error) const;
  void lose_transaction(Error error);
  Error fenced(Error error) const;
  void abort_open_transaction();

  EventLoop& loop_;
  const std::string writer_;  ///< Signs what this process stores.
  ProducerSettings settings_;
  const SettingsProvider provider_;
  const LogFunction log_;
  TopicCatalog catalog_;
  LinkWatch link_;
  std::unique_ptr<ClientInstance> instance_;
  EventHandle reports_;  ///< The delivery event whose messages are being taken.
  bool more_ = true;
  Now now_{};
  std::uint64_t open_ = 0;  ///< Records handed over and not reported.
  std::optional<Loss> loss_;
  std::string first_cause_;  ///< The first record that failed by itself since the last start.
  std::optional<Error> start_failure_;
  std::uint64_t expired_ = 0;
  SinkStats stats_;

  Session session_;
  WitnessBook witness_;
  Transactions transactions_;
  std::string transactional_id_;  ///< Known with the first session.
  bool client_used_ = false;      ///< A session was begun with this client.
  std::uint64_t positions_open_ = 0;
  std::optional<Error> position_failure_;

  std::int64_t batch_bytes_ = 0;                   ///< In force.
  std::optional<std::int64_t> topic_batch_bytes_;  ///< Smallest limit of the topics seen.
  bool compressed_ = true;
  bool murmur2_ = true;  ///< The partitioner in force is one of these.
};

}  // namespace outrider
