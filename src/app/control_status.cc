#include "app/control_status.h"

#include <algorithm>
#include <chrono>

namespace outrider {
namespace {

struct CounterRow {
  const char* name;
  std::uint64_t RelayCounters::*member;
};

/// The names are those of the metrics without prefix and suffix.
constexpr CounterRow kCounters[] = {
    {"events_published", &RelayCounters::acknowledged},
    {"events_produced", &RelayCounters::events},
    {"events_refused", &RelayCounters::refused},
    {"dead_letters", &RelayCounters::dead_letters},
    {"dead_letter_followers", &RelayCounters::followers},
    {"transactions", &RelayCounters::transactions},
    {"known_rows", &RelayCounters::known_rows},
    {"pauses", &RelayCounters::pauses},
    {"source_losses", &RelayCounters::source_losses},
    {"producer_restarts", &RelayCounters::sink_restarts},
};

const char* place_of(const DeadLetterConfig& config) {
  if (!config.topic.empty()) {
    return "topic";
  }
  return needs_dead_letter_table(config) ? "table" : "none";
}

void append_error(JsonWriter& json, const Error& error) {
  json.open_object().name("kind").text(to_string(error.kind));
  json.name("message").text(error.message).name("hint").text(error.hint);
  json.name("code").text(error.code).close_object();
}

}  // namespace

void PipelineTarget::append_status(JsonWriter& json, Now now) const {
  const Relay& relay = pipeline_.relay();
  const Pipeline::Readiness readiness = pipeline_.readiness();
  const PipelineConfig& config = pipeline_.config();
  json.open_object().name("name").text(pipeline_.name());
  json.name("phase").text(to_string(relay.phase()));
  json.name("ready").boolean(readiness.ready).name("reason").text(readiness.reason);
  json.name("role").text(pipeline_.role());
  json.name("paused_by_operator").boolean(relay.paused_by_operator());
  json.name("guarantee")
      .text(config.delivery.guarantee == Delivery::exactly_once ? "exactly_once" : "at_least_once");
  json.name("slot").text(config.source.slot);
  json.name("plugin");
  relay.ever_streamed() ? json.text(to_string(pipeline_.source().plan().plugin)) : json.null();
  append_positions(json);
  json.name("oldest_unconfirmed_age_s");
  const std::optional<WallTime> oldest = relay.tracker().oldest_commit_time();
  const auto age =
      oldest ? std::max(now.wall - *oldest, WallTime::duration(0)) : WallTime::duration(0);
  json.number(std::int64_t{std::chrono::duration_cast<std::chrono::seconds>(age).count()});
  append_counters(json);
  append_letters(json);
  append_links(json);
  json.close_object();
}

void PipelineTarget::append_positions(JsonWriter& json) const {
  const Relay& relay = pipeline_.relay();
  const AckTracker& tracker = relay.tracker();
  json.name("received_lsn").text(tracker.received_lsn().to_string());
  json.name("flushed_lsn").text(tracker.flushed_lsn().to_string());
  json.name("confirmed_lsn").text(relay.confirmed_lsn().to_string());
  json.name("in_flight_records").number(tracker.in_flight_records());
  json.name("in_flight_bytes").number(tracker.in_flight_bytes());
}

void PipelineTarget::append_counters(JsonWriter& json) const {
  json.name("counters").open_object();
  for (const CounterRow& row : kCounters) {
    json.name(row.name).number(pipeline_.relay().counters().*row.member);
  }
  json.close_object();
}

void PipelineTarget::append_letters(JsonWriter& json) const {
  const RetryProgress& retry = pipeline_.relay().retry_progress();
  const DeadLetterPlace* place = pipeline_.dead_letters();
  json.name("dead_letters").open_object();
  json.name("place").text(place_of(pipeline_.config().dead_letters));
  json.name("ready").boolean(place != nullptr && place->ready());
  json.name("trouble").text(place != nullptr ? place->trouble() : std::string());
  json.name("stored").number(pipeline_.relay().counters().dead_letters);
  json.name("parked_keys").number(std::uint64_t{pipeline_.relay().parked_keys()});
  json.name("retry_running").boolean(retry.running).close_object();
}

void PipelineTarget::append_links(JsonWriter& json) const {
  json.name("database_trouble").text(pipeline_.observer().source_trouble());
  json.name("kafka_trouble").text(pipeline_.sink().healthy() ? "" : pipeline_.sink().trouble());
  json.name("relay_trouble").text(pipeline_.relay().trouble());
  json.name("stop_error");
  if (const std::optional<Error>& error = pipeline_.relay().stop_error()) {
    append_error(json, *error);
  } else {
    json.null();
  }
}

void PipelineTarget::pause(Now) { pipeline_.relay().pause(); }

void PipelineTarget::resume(Now) { pipeline_.relay().resume(); }

Error PipelineTarget::no_letters() const {
  const DeadLetterConfig& config = pipeline_.config().dead_letters;
  if (!config.topic.empty()) {
    return {ErrorKind::configuration,
            "pipeline \"" + pipeline_.name() + "\" keeps its dead letters in the topic \"" +
                config.topic + "\"",
            "read them there with a consumer; only a table can be listed and retried from",
            {}};
  }
  return {ErrorKind::configuration,
          "pipeline \"" + pipeline_.name() + "\" keeps no dead letters",
          "set dead_letters.on_poison to dead_letter or park_key to keep them in a table",
          {}};
}

bool PipelineTarget::start_retry(const RetryRequest& request) {
  return pipeline_.relay().start_retry(request);
}

RetryProgress PipelineTarget::retry_progress() const { return pipeline_.relay().retry_progress(); }

}  // namespace outrider
