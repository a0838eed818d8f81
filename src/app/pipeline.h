// Pipeline: one source, one mapper, one sink and the core between them, wired from configuration.
//
// Owns all four and the observer. Thread: loop. Outlives: loop, log and metrics registry must
// outlive it. Errors: create() for what is wrong before any connection is made; later ones end in
// relay().stop_error().
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "app/letter_desk.h"
#include "app/pipeline_meter.h"
#include "app/relay_log.h"
#include "kafka/producer.h"
#include "outrider/config/config.h"
#include "outrider/loop/event_loop.h"
#include "outrider/observe/log.h"
#include "outrider/relay/relay.h"
#include "outrider/route/record_mapper.h"
#include "postgres/dead_letter_table.h"
#include "postgres/wal_source.h"

namespace outrider {

/// What the Kafka side needs of a pipeline's configuration, secrets resolved.
Result<ProducerSettings> producer_settings(const PipelineConfig& config);

/// Whether the policy keeps dead letters in a table; else in a topic, or there are none.
bool needs_dead_letter_table(const DeadLetterConfig& config);

class Pipeline {
 public:
  /// `dry_run_out` set: records are printed there, Kafka is not touched, nothing is confirmed.
  static Result<std::unique_ptr<Pipeline>> create(EventLoop& loop, Log& log, const Clock& clock,
                                                  const PipelineConfig& config,
                                                  std::FILE* dry_run_out);

  void turn(Now now) { relay_->turn(now); }

  struct Readiness {
    bool ready = false;
    std::string reason;  ///< Never empty: what it is doing, or why it is not ready.
  };
  Readiness readiness() const;
  /// "active", "standby" or "none", as status and metrics say it.
  const char* role() const;

  const std::string& name() const { return config_.name; }
  const PipelineConfig& config() const { return config_; }
  Relay& relay() { return *relay_; }
  const Relay& relay() const { return *relay_; }
  const WalSource& source() const { return *source_; }
  const EventSink& sink() const { return *sink_; }
  RelayLog& observer() { return *observer_; }
  PipelineMeter& meter() { return *meter_; }
  const PipelineMeter& meter() const { return *meter_; }
  /// Null in a dry run.
  const KafkaProducerSink* kafka() const { return kafka_; }
  /// Null where the policy needs no table.
  const DeadLetterTable* letter_table() const { return letters_.get(); }
  /// The commands' seat at the table of dead letters (app/letter_desk.h); null: there is none.
  DeadLetterPlace* dead_letters() { return desk_ ? &desk_->for_commands() : nullptr; }

 private:
  explicit Pipeline(PipelineConfig config) : config_(std::move(config)) {}

  PipelineConfig config_;
  std::unique_ptr<RelayLog> observer_;
  std::unique_ptr<PipelineMeter> meter_;
  std::unique_ptr<WalSource> source_;
  std::unique_ptr<EventSink> sink_;
  const KafkaProducerSink* kafka_ = nullptr;  ///< `sink_`, if it is one.
  std::unique_ptr<RecordMapper> mapper_;
  std::unique_ptr<DeadLetterTable> letters_;
  std::unique_ptr<LetterDesk> desk_;
  std::unique_ptr<Relay> relay_;
};

}  // namespace outrider
