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

void RelayLog::on_dead_letter(const OutboxEvent& event, const RowPlace& row,
                              DeadLetterReason reason, const Error& error) {
  // Followers of one parked key may be many; the first one says it.
  const bool follower = reason == DeadLetterReason::key_parked;
  const std::string line =
      follower ? "/follower/" + std::string(event.aggregate_id)
               : "/letter/" + row.commit_lsn.to_string() + "/" + std::to_string(row.index);
  log_.write_limited(
      LogLevel::warn, pipeline_ + line, clock_.now(), kRepeatInterval,
      follower ? "row follows its parked key to the dead letters" : "row becomes a dead letter",
      {{"pipeline", pipeline_},
       {"slot", slot_},
       {"reason", to_string(reason)},
       {"table", event.table},
       {"event_id", event.event_id},
       {"event_type", event.event_type},
       {"aggregate_id", event.aggregate_id},
       {"commit_lsn", row.commit_lsn},
       {"index", row.index},
       {"error", error.message},
       {"code", error.code},
       {"hint", error.hint}});
}

void RelayLog::on_isolation(const Error& error, std::size_t suspects) {
  log_.write(LogLevel::warn, "a batch was refused, its rows are sent again one by one",
             {{"pipeline", pipeline_},
              {"slot", slot_},
              {"rows", suspects},
              {"error", error.message},
              {"code", error.code}});
}

void RelayLog::on_rows_held(const std::string& why) {
  if (why.empty()) {
    log_.write_limited(LogLevel::info, pipeline_ + "/flow", clock_.now(), kRepeatInterval,
                       "rows flow again", {{"pipeline", pipeline_}, {"slot", slot_}});
    return;
  }
  log_.write_limited(LogLevel::error, pipeline_ + "/held/" + why, clock_.now(), kRepeatInterval,
                     "rows wait", {{"pipeline", pipeline_}, {"slot", slot_}, {"reason", why}});
}

void RelayLog::on_slot_verdict(bool adopted, const std::vector<std::string>& warnings) {
  if (adopted) {
    log_.write(LogLevel::info,
               "no position of this slot is stored in Kafka yet: the slot is adopted as it is",
               {{"pipeline", pipeline_}, {"slot", slot_}});
  }
  for (const std::string& warning : warnings) {
    log_.write(LogLevel::warn, warning, {{"pipeline", pipeline_}, {"slot", slot_}});
  }
}

void RelayLog::on_retried(std::int64_t number, const std::string& event_id, const Error* refused) {
  std::vector<LogField> fields = {
      {"pipeline", pipeline_}, {"slot", slot_}, {"number", number}, {"event_id", event_id}};
  if (refused != nullptr) {
    fields.emplace_back("error", refused->message);
    fields.emplace_back("code", refused->code);
  }
  log_.write(refused == nullptr ? LogLevel::info : LogLevel::warn,
             refused == nullptr ? "dead letter delivered" : "dead letter refused again", fields);
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
