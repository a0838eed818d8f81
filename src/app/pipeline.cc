#include "app/pipeline.h"

#include <random>
#include <utility>

#include "app/ndjson_sink.h"
#include "outrider/config/secrets.h"

namespace outrider {

Result<ProducerSettings> producer_settings(const PipelineConfig& config) {
  ProducerSettings settings;
  OUTRIDER_TRY(settings.bootstrap_servers, resolve_secret(config.kafka.bootstrap_servers));
  OUTRIDER_TRY(check_bootstrap_servers(settings.bootstrap_servers));
  for (const auto& [name, value] : config.kafka.properties) {
    OUTRIDER_TRY(settings.properties[name], resolve_secret(value));
  }
  settings.topics = config.kafka.topics;
  settings.delivery = config.delivery;
  settings.in_flight_records_max = config.limits.in_flight_records_max;
  settings.in_flight_bytes_max = config.limits.in_flight_bytes_max;
  return settings;
}

namespace {

using std::chrono::milliseconds;

RelayOptions relay_options(const PipelineConfig& config, bool dry_run) {
  RelayOptions options;
  options.in_flight_records_max = static_cast<std::uint64_t>(config.limits.in_flight_records_max);
  options.in_flight_bytes_max = static_cast<std::uint64_t>(config.limits.in_flight_bytes_max);
  options.status_interval = milliseconds(config.source.status_interval_ms);
  options.confirm_interval = milliseconds(config.source.confirm_interval_ms);
  options.reconnect_first = milliseconds(config.source.reconnect_first_ms);
  options.reconnect_max = milliseconds(config.source.reconnect_max_ms);
  options.shutdown_timeout = milliseconds(config.limits.shutdown_timeout_ms);
  options.sink_losses_max = static_cast<std::uint32_t>(config.kafka.fatal_errors_max);
  options.random_seed = std::random_device{}();
  options.confirm = !dry_run;
  options.slot = SlotPolicy{config.delivery.witness && !dry_run, config.delivery.on_slot_lost,
                            config.source.create_slot};
  options.dead_letters = config.dead_letters;
  if (dry_run) {
    options.dead_letters.on_poison = OnPoison::stop;
    options.dead_letters.on_topic_error = OnTopicError::stop;
  }
  return options;
}

Result<std::unique_ptr<EventSink>> make_sink(EventLoop& loop, const PipelineConfig& config,
                                             RelayLog& observer, std::FILE* dry_run_out) {
  if (dry_run_out != nullptr) {
    return std::make_unique<NdjsonSink>(dry_run_out);
  }
  OUTRIDER_TRY(
      std::unique_ptr<EventSink> sink,
      KafkaProducerSink::create(
          loop, [config] { return producer_settings(config); },
          [&observer](LogLevel level, std::string_view line) { observer.note(level, line, {}); }));
  return sink;
}

std::unique_ptr<DeadLetterTable> make_dead_letter_table(EventLoop& loop,
                                                        const PipelineConfig& config,
                                                        RelayLog& observer) {
  const SecretText dsn =
      config.dead_letters.dsn.empty() ? config.source.dsn : config.dead_letters.dsn;
  return std::make_unique<DeadLetterTable>(
      loop, dead_letter_table_options(config, [dsn] { return resolve_conninfo(dsn); }),
      [&observer](const SourceNote& note) {
        observer.note(note.level, note.message, note.fields);
      });
}

}  // namespace

bool needs_dead_letter_table(const DeadLetterConfig& config) {
  return config.topic.empty() &&
         (config.on_poison != OnPoison::stop || config.on_topic_error == OnTopicError::dead_letter);
}

Result<std::unique_ptr<Pipeline>> Pipeline::create(EventLoop& loop, Log& log, const Clock& clock,
                                                   const PipelineConfig& config,
                                                   std::FILE* dry_run_out) {
  std::unique_ptr<Pipeline> pipeline(new Pipeline(config));
  pipeline->observer_ = std::make_unique<RelayLog>(log, config.name, config.source.slot, clock);
  RelayLog& observer = *pipeline->observer_;
  pipeline->meter_ = std::make_unique<PipelineMeter>(
      observer, milliseconds(config.source.watch_interval_ms), clock.now().mono);
  OUTRIDER_TRY(pipeline->mapper_, make_record_mapper(config.outbox, config.route));
  OUTRIDER_TRY(pipeline->source_, WalSource::create(
                                      loop, config.source, config.outbox, config.route,
                                      [dsn = config.source.dsn] { return resolve_conninfo(dsn); },
                                      [&observer](const SourceNote& note) {
                                        observer.note(note.level, note.message, note.fields);
                                      },
                                      dry_run_out != nullptr));
  OUTRIDER_TRY(pipeline->sink_, make_sink(loop, config, observer, dry_run_out));
  pipeline->kafka_ = dynamic_cast<const KafkaProducerSink*>(pipeline->sink_.get());
  if (dry_run_out == nullptr && needs_dead_letter_table(config.dead_letters)) {
    pipeline->letters_ = make_dead_letter_table(loop, config, observer);
    pipeline->desk_ = std::make_unique<LetterDesk>(*pipeline->letters_);
  }
  pipeline->relay_ =
      std::make_unique<Relay>(relay_options(config, dry_run_out != nullptr), *pipeline->source_,
                              *pipeline->sink_, *pipeline->mapper_, *pipeline->meter_,
                              pipeline->desk_ ? &pipeline->desk_->for_core() : nullptr);
  return pipeline;
}

Pipeline::Readiness Pipeline::readiness() const {
  const Phase phase = relay_->phase();
  const std::string doing = to_string(phase);
  if (relay_->stop_error()) {
    return {false, "stopped: " + describe(*relay_->stop_error())};
  }
  if (phase == Phase::draining || phase == Phase::finishing || phase == Phase::stopped) {
    return {false, doing + ": asked to stop"};
  }
  const bool waits = source_->state() == SourceState::waiting;
  std::string reasons;
  if (!waits && phase != Phase::streaming && phase != Phase::paused) {
    const std::string& trouble = observer_->source_trouble();
    reasons += ": database: " + (trouble.empty() ? "connecting" : trouble);
  }
  if (std::string held = relay_->trouble(); !held.empty()) {
    reasons += (reasons.empty() ? ": " : "; ") + held;
  }
  if (!sink_->healthy()) {
    reasons += (reasons.empty() ? ": kafka: " : "; kafka: ") + sink_->trouble();
  }
  if (!reasons.empty()) {
    return {false, doing + reasons};
  }
  return {true, waits ? "standby: the slot is held by another process" : doing};
}

const char* Pipeline::role() const {
  switch (relay_->source_state()) {
    case SourceState::waiting:
      return "standby";
    case SourceState::streaming:
    case SourceState::finishing:
      return "active";
    case SourceState::closed:
    case SourceState::opening:
    case SourceState::asking:
      break;
  }
  return "none";
}

}  // namespace outrider
