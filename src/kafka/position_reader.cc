#include "kafka/position_reader.h"

#include <string_view>
#include <utility>

#include "kafka/client_conf.h"
#include "kafka/errors.h"
#include "kafka/position_record.h"

namespace outrider {
namespace {

constexpr int kEventsPerTurnMax = 1'000;
constexpr std::int32_t kPartition = 0;

std::string_view view_of(const void* bytes, std::size_t size) {
  return bytes == nullptr ? std::string_view()
                          : std::string_view(static_cast<const char*>(bytes), size);
}

}  // namespace

Result<std::unique_ptr<PositionReader>> PositionReader::create(EventLoop& loop,
                                                               const ProducerSettings& settings,
                                                               SlotIdentity whose) {
  OUTRIDER_TRY(ConfHandle conf, make_reader_conf(settings));
  OUTRIDER_TRY(std::unique_ptr<ClientInstance> client,
               ClientInstance::create(loop, std::move(conf), RD_KAFKA_CONSUMER));
  std::unique_ptr<PositionReader> reader(
      new PositionReader(std::move(client), settings.delivery.position_topic, std::move(whose)));
  // From offset 0, where asking for the beginning would cost half a second; should records have
  // been deleted there, auto.offset.reset takes it to the beginning.
  if (rd_kafka_consume_start_queue(reader->handle_.get(), kPartition, 0,
                                   reader->client_->queue()) != 0) {
    return fail(kafka_error(rd_kafka_last_error(), "cannot read topic \"" + reader->topic_ + "\""));
  }
  return reader;
}

PositionReader::PositionReader(std::unique_ptr<ClientInstance> client, std::string topic,
                               SlotIdentity whose)
    : client_(std::move(client)),
      topic_(std::move(topic)),
      whose_(std::move(whose)),
      handle_(rd_kafka_topic_new(client_->client(), topic_.c_str(), nullptr)) {}

PositionReader::~PositionReader() {
  static_cast<void>(rd_kafka_consume_stop(handle_.get(), kPartition));
}

Result<bool> PositionReader::drive() {
  if (client_->take_wake()) more_ = true;
  for (int i = 0; more_ && !done_ && i < kEventsPerTurnMax; ++i) {
    const EventHandle event = client_->poll();
    more_ = event != nullptr;
    if (more_) OUTRIDER_TRY(take_event(event.get()));
  }
  return done_;
}

Result<> PositionReader::take_event(rd_kafka_event_t* event) {
  switch (rd_kafka_event_type(event)) {
    case RD_KAFKA_EVENT_FETCH:
      while (const rd_kafka_message_t* message = rd_kafka_event_message_next(event)) {
        OUTRIDER_TRY(take_message(*message));
      }
      return {};
    case RD_KAFKA_EVENT_ERROR: {
      if (rd_kafka_event_error(event) == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        const PartitionHandle end(rd_kafka_event_topic_partition(event));
        if (end != nullptr) take_end(end->offset);
        return {};
      }
      Error error = kafka_error(rd_kafka_event_error(event), "cannot read the stored position");
      // Lost connections are the producer's to tell; the consumer makes new ones by itself.
      if (error.kind == ErrorKind::configuration) return fail(std::move(error));
      return {};
    }
    default:
      return {};
  }
}

Result<> PositionReader::take_message(const rd_kafka_message_t& message) {
  if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return fail(kafka_error(message.err, "cannot read topic \"" + topic_ + "\""));
  }
  OUTRIDER_TRY(const PositionKeyIs key,
               judge_position_key(view_of(message.key, message.key_len), whose_));
  if (key == PositionKeyIs::foreign) ++foreign_;
  if (key != PositionKeyIs::ours) return {};
  if (message.payload == nullptr) {
    found_.reset();  // Somebody removed it on purpose.
    return {};
  }
  OUTRIDER_TRY(found_, decode_position(view_of(message.payload, message.len), whose_));
  return {};
}

// The reader's end is where the first open transaction begins; what lies behind that may be ours.
void PositionReader::take_end(std::int64_t offset) {
  if (end_offset_ < 0) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    const rd_kafka_resp_err_t code =
        rd_kafka_get_watermark_offsets(client_->client(), topic_.c_str(), kPartition, &low, &high);
    end_offset_ = code == RD_KAFKA_RESP_ERR_NO_ERROR && high > offset ? high : offset;
  }
  done_ = offset >= end_offset_;
  held_up_ = !done_;
}

}  // namespace outrider
