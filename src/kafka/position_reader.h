// PositionReader: reads the newest record of one slot from the position topic, to its end.
//
// A consumer of its own without a group (nothing is committed, no coordinator is asked), on the
// loop by its own descriptor. It reads what is committed up to the high watermark seen first: an
// open transaction of another relay before that holds it up until the broker ends it. Owns the
// client; making and destroying it costs some milliseconds. Errors: drive(), kind configuration if
// people must act, else transient: make a new one later. Thread: loop; nothing blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kafka/instance.h"
#include "kafka/producer.h"
#include "outrider/relay/position.h"

namespace outrider {

class PositionReader {
 public:
  static Result<std::unique_ptr<PositionReader>> create(EventLoop& loop,
                                                        const ProducerSettings& settings,
                                                        SlotIdentity whose);
  ~PositionReader();
  PositionReader(const PositionReader&) = delete;
  PositionReader& operator=(const PositionReader&) = delete;

  /// True when everything is read.
  Result<bool> drive();

  const std::optional<StoredPosition>& found() const { return found_; }
  /// Records that no Outrider wrote.
  std::uint64_t foreign_records() const { return foreign_; }
  /// The reader waits for somebody's open transaction.
  bool held_up() const { return held_up_; }
  /// More is there than one call takes.
  bool has_more() const { return more_; }

 private:
  PositionReader(std::unique_ptr<ClientInstance> client, std::string topic, SlotIdentity whose);

  Result<> take_event(rd_kafka_event_t* event);
  Result<> take_message(const rd_kafka_message_t& message);
  void take_end(std::int64_t offset);

  std::unique_ptr<ClientInstance> client_;
  const std::string topic_;
  const SlotIdentity whose_;
  TopicHandle handle_;
  std::optional<StoredPosition> found_;
  std::uint64_t foreign_ = 0;
  std::int64_t end_offset_ = -1;  ///< Read up to here; unknown at first.
  bool done_ = false;
  bool held_up_ = false;
  bool more_ = true;
};

}  // namespace outrider
