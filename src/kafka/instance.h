// ClientInstance: one librdkafka client, its main queue and the descriptor that wakes the loop.
//
// Owns all three; everything the library has to say arrives as an event on that one queue. Topic
// handles and events of it must be gone before it goes. Its destruction joins librdkafka's threads:
// 0.1 to 31 ms measured with brokers up, frozen and refusing connections; a thread caught in a name
// look-up ends when the resolver gives up (name brokers by address, or keep its timeout short).
// Thread: loop. Errors: create() only, kind configuration.
#pragma once

#include <cstdint>
#include <memory>

#include "kafka/handles.h"
#include "outrider/base/result.h"
#include "outrider/loop/event_loop.h"

namespace outrider {

class ClientInstance {
 public:
  static Result<std::unique_ptr<ClientInstance>> create(EventLoop& loop, ConfHandle conf,
                                                        rd_kafka_type_t type = RD_KAFKA_PRODUCER);
  ~ClientInstance();
  ClientInstance(const ClientInstance&) = delete;
  ClientInstance& operator=(const ClientInstance&) = delete;

  rd_kafka_t* client() const { return client_.get(); }
  rd_kafka_queue_t* queue() const { return queue_.get(); }

  /// True if the queue went from empty to non-empty since the last call: drain it until null.
  bool take_wake();

  /// The next event, without waiting; null if there is none.
  EventHandle poll();

 private:
  ClientInstance(EventLoop& loop, int wake_fd, KafkaHandle client);

  int wake_fd_;
  KafkaHandle client_;
  QueueHandle queue_;
  std::unique_ptr<FdWatch> watch_;
};

}  // namespace outrider
