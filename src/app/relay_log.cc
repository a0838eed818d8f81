#include "app/relay_log.h"

namespace outrider {
namespace {

constexpr std::chrono::minutes kRepeatInterval{1};

}  // namespace

void RelayLog::on_phase(Phase from, Phase to) {
  // What a change of phase means to people has a line of its own; this one is for tracing.
  log_.write(
      LogLevel::debug, "phase changed",
      {{"pipeline", pipeline_}, {"slot", slot_}, {"from", to_string(from)}, {"to", to_string(to)}});
}

void RelayLog::on_stream_start(Lsn from, bool resumed) {
  source_trouble_.clear();
  // The first start is told by the source, with plugin and process; a resumption is news.
  log_.write(resumed ? LogLevel::info : LogLevel::debug,
             resumed ? "stream resumed" : "stream started",
             {{"pipeline", pipeline_}, {"slot", slot_}, {"lsn", from}});
}

void RelayLog::on_source_lost(const Error& error, std::chrono::milliseconds delay) {
  source_trouble_ = describe(error);
  log_.write_limited(LogLevel::warn, pipeline_ + "/source/" + error.code + error.message,
                     clock_.now(), kRepeatInterval, "no link to the database, trying again",
                     {{"pipeline", pipeline_},
                      {"slot", slot_},
                      {"error", error.message},
                      {"code", error.code},
                      {"hint", error.hint},
                      {"retry_in_ms", delay}});
}

void RelayLog::on_sink_restart(const Error& error, Lsn rewind_to) {
  log_.write(LogLevel::warn,
             "producer replaced: delivery of some records is unknown, they are sent again",
             {{"pipeline", pipeline_},
              {"slot", slot_},
              {"error", error.message},
              {"code", error.code},
              {"rewind_to_lsn", rewind_to}});
}

void RelayLog::on_row_refused(const OutboxEvent& event, Lsn commit_lsn, const Error& error) {
  log_.write(LogLevel::error, "row cannot be relayed",
             {{"pipeline", pipeline_},
              {"slot", slot_},
              {"table", event.table},
              {"event_id", event.event_id},
              {"event_type", event.event_type},
              {"aggregate_id", event.aggregate_id},
              {"commit_lsn", commit_lsn},
              {"attempt", 1},
              {"error", error.message},
              {"code", error.code},
              {"hint", error.hint}});
}

void RelayLog::on_transaction_acked(WallTime commit_time, std::uint64_t, Now now) {
  if (on_latency) {
    on_latency(std::chrono::duration<double>(now.wall - commit_time).count());
  }
}

void RelayLog::on_stop_reason(const Error& error) {
  source_trouble_ = describe(error);
  log_.write(LogLevel::error, "pipeline stops",
             {{"pipeline", pipeline_},
              {"slot", slot_},
              {"kind", to_string(error.kind)},
              {"error", error.message},
              {"code", error.code},
              {"hint", error.hint}});
}

void RelayLog::note(LogLevel level, std::string_view message,
                    const std::vector<std::pair<std::string, std::string>>& fields) {
  std::vector<LogField> all = {{"pipeline", pipeline_}, {"slot", slot_}};
  for (const auto& [name, value] : fields) {
    if (name != "slot") {  // Said already; a JSON line must not say it twice.
      all.emplace_back(name, value);
    }
  }
  log_.write(level, message, all);
}

}  // namespace outrider
