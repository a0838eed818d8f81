// Session: everything that has to be known before the first record of a held slot goes out.
//
// In order: the position topic exists (made if missing, compacted, one partition), with
// transactions the producer is initialised (which fences whoever produced for the slot before),
// the newest stored position is read, the session is open. Owns the reader and the position topic's
// handle; uses the sink's client. Errors of drive(): configuration ends the relay, others lose the
// producer. Thread: loop; init_transactions blocks for at most a millisecond a call.
// Rules: docs/adr/0013 and 0015.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "kafka/position_reader.h"
#include "kafka/producer.h"
#include "kafka/topic_catalog.h"
#include "outrider/relay/position.h"

namespace outrider {

class Session {
 public:
  Session(EventLoop& loop, LogFunction log);

  /// Open a session for this slot, with these settings from now on.
  void begin(const SlotIdentity& identity, const ProducerSettings& settings, Now now);

  /// Work with this client; whatever was under way begins anew there.
  void attach(rd_kafka_t* client, rd_kafka_queue_t* queue);
  /// Give up everything of the client's; the session is closed.
  void detach();

  Result<> drive(bool connected, Now now);

  /// Take an answer to a question of the position topic's catalog.
  bool take_answer(rd_kafka_event_t* event, Now now);

  bool open() const { return state_ == State::open; }
  const SlotIdentity& identity() const { return identity_; }
  const std::optional<StoredPosition>& stored() const { return stored_; }
  /// Up to where the stored position lets this very slot be confirmed; zero: nowhere.
  Lsn durable() const;
  /// Of the position topic; null unless open.
  rd_kafka_topic_t* topic() const { return topic_; }

  /// The error in words of the relay's own options.
  Error explained(Error error) const;

  std::string trouble(Now now) const;
  std::optional<MonoTime> deadline() const;

 private:
  enum class State : std::uint8_t {
    closed,
    finding_topic,
    initialising,
    reading,
    open,
  };

  Result<> find_topic(bool connected, Now now);
  Result<> judge_topic(Now now);
  Result<> initialise(Now now);
  Result<> read(Now now);
  Result<> find_again(Now now);
  void enter(State state, Now now);
  bool exactly_once() const { return settings_.delivery.guarantee == Delivery::exactly_once; }
  bool stores() const { return exactly_once() || settings_.delivery.witness; }

  EventLoop& loop_;
  const LogFunction log_;
  ProducerSettings settings_;
  std::optional<TopicCatalog> catalog_;
  std::unique_ptr<PositionReader> reader_;
  rd_kafka_t* client_ = nullptr;
  rd_kafka_queue_t* queue_ = nullptr;
  rd_kafka_topic_t* topic_ = nullptr;
  SlotIdentity identity_;
  std::optional<StoredPosition> stored_;
  State state_ = State::closed;
  MonoTime since_{};
  MonoTime due_{};
  std::chrono::milliseconds delay_{};
  bool topic_seen_ = false;   ///< It was there once; should it vanish, it is not made again.
  bool topic_told_ = false;   ///< Its settings were judged.
  std::string last_trouble_;  ///< Of a step that is tried again.
};

}  // namespace outrider
