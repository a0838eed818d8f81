#include "kafka/producer.h"

#include <utility>

#include "kafka/producer_sink.h"

namespace outrider {

Result<std::unique_ptr<KafkaProducerSink>> KafkaProducerSink::create(EventLoop& loop,
                                                                     SettingsProvider provider,
                                                                     LogFunction log) {
  OUTRIDER_TRY(ProducerSettings settings, provider());
  OUTRIDER_TRY(check_producer_settings(settings));
  auto sink = std::make_unique<ProducerSink>(loop, std::move(settings), std::move(provider),
                                             std::move(log));
  OUTRIDER_TRY(sink->start());
  return std::unique_ptr<KafkaProducerSink>(std::move(sink));
}

}  // namespace outrider
