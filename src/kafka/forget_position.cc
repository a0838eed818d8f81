#include "kafka/forget_position.h"

#include <array>
#include <string>

#include "kafka/client_conf.h"
#include "kafka/errors.h"
#include "kafka/handles.h"
#include "kafka/position_record.h"

namespace outrider {
namespace {

/// What became of the one record, told by the delivery report.
struct Outcome {
  bool reported = false;
  rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
};

Outcome wait_for_report(rd_kafka_t* client) {
  const QueueHandle queue(rd_kafka_queue_get_main(client));
  Outcome outcome;
  for (int waited = 0; waited < kForgetTimeoutMs && !outcome.reported; waited += 100) {
    const EventHandle event(rd_kafka_queue_poll(queue.get(), 100));
    if (event == nullptr || rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_DR) continue;
    while (const rd_kafka_message_t* message = rd_kafka_event_message_next(event.get())) {
      outcome.reported = true;
      outcome.code = message->err;
    }
  }
  return outcome;
}

}  // namespace

Result<> forget_position(const ProducerSettings& settings, const SlotIdentity& identity) {
  OUTRIDER_TRY(ConfHandle conf, make_producer_conf(settings, ""));
  rd_kafka_conf_set_events(conf.get(),
                           RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG);
  std::array<char, 512> text{};
  const KafkaHandle client(rd_kafka_new(RD_KAFKA_PRODUCER, conf.get(), text.data(), text.size()));
  if (client == nullptr) {
    return fail(ErrorKind::configuration, std::string("cannot make a Kafka client: ") + text.data(),
                "correct kafka.properties");
  }
  static_cast<void>(conf.release());  // The client's now.
  const std::string& topic = settings.delivery.position_topic;
  const std::string what = "cannot write to topic \"" + topic + "\"";
  const std::string key = encode_position_key(identity);
  const TopicHandle handle(rd_kafka_topic_new(client.get(), topic.c_str(), nullptr));
  if (rd_kafka_produce(handle.get(), 0, RD_KAFKA_MSG_F_COPY, nullptr, 0, key.data(), key.size(),
                       nullptr) != 0) {
    return fail(kafka_error(rd_kafka_last_error(), what));
  }
  const Outcome outcome = wait_for_report(client.get());
  if (!outcome.reported) {
    // What still waits would hold up the end of the client.
    static_cast<void>(
        rd_kafka_purge(client.get(), RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT));
    return fail(ErrorKind::transient, what + ": no broker answered within 30 s",
                "see that kafka.bootstrap_servers can be reached, then run the command again");
  }
  if (outcome.code != RD_KAFKA_RESP_ERR_NO_ERROR) return fail(kafka_error(outcome.code, what));
  return {};
}

}  // namespace outrider
