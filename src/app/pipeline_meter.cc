#include "app/pipeline_meter.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr std::string_view kRest = "other";
constexpr std::string_view kUnknown = "unknown";
constexpr std::size_t kSqlstateLength = 5;
constexpr std::size_t kSqlstateClassLength = 2;

void count(PipelineMeter::Counts& counts, std::string_view name, std::size_t most) {
  name = name.empty() ? kUnknown : name;
  auto found = counts.find(name);
  if (found == counts.end()) {
    name = counts.size() < most ? name : kRest;
    found = counts.try_emplace(std::string(name), 0).first;
  }
  ++found->second;
}

bool is_sqlstate(std::string_view code) {
  return code.size() == kSqlstateLength && std::all_of(code.begin(), code.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z');
         });
}

}  // namespace

std::string error_class(const Error& error) {
  if (error.code.empty()) {
    return to_string(error.kind);
  }
  return is_sqlstate(error.code) ? error.code.substr(0, kSqlstateClassLength) : error.code;
}

void PipelineMeter::on_stream_start(Lsn from, bool resumed) {
  ++stream_starts_;
  next_.on_stream_start(from, resumed);
}

void PipelineMeter::on_source_lost(const Error& error, std::chrono::milliseconds delay) {
  count(database_errors_, error_class(error), kErrorsMax);
  next_.on_source_lost(error, delay);
}

void PipelineMeter::on_sink_restart(const Error& error, Lsn rewind_to) {
  next_.on_sink_restart(error, rewind_to);
}

void PipelineMeter::on_row_refused(const OutboxEvent& event, Lsn commit_lsn, const Error& error) {
  count(failed_by_type_, event.event_type, kEventTypesMax);
  count(row_errors_, error_class(error), kErrorsMax);
  next_.on_row_refused(event, commit_lsn, error);
}

void PipelineMeter::on_dead_letter(const OutboxEvent& event, const RowPlace& row,
                                   DeadLetterReason reason, const Error& error) {
  if (reason != DeadLetterReason::key_parked) {  // A follower has not failed itself.
    count(failed_by_type_, event.event_type, kEventTypesMax);
    count(row_errors_, error.code.empty() ? to_string(reason) : error_class(error), kErrorsMax);
  }
  next_.on_dead_letter(event, row, reason, error);
}

void PipelineMeter::on_isolation(const Error& error, std::size_t suspects) {
  next_.on_isolation(error, suspects);
}

void PipelineMeter::on_slot_verdict(bool adopted, const std::vector<std::string>& warnings) {
  next_.on_slot_verdict(adopted, warnings);
}

void PipelineMeter::on_retried(std::int64_t number, const std::string& event_id,
                               const Error* refused) {
  ++(refused == nullptr ? retried_delivered_ : retried_refused_);
  next_.on_retried(number, event_id, refused);
}

void PipelineMeter::on_transaction_acked(WallTime commit_time, std::uint64_t records, Now now) {
  commit_to_ack_.add(std::chrono::duration<double>(now.wall - commit_time).count());
  next_.on_transaction_acked(commit_time, records, now);
}

void PipelineMeter::on_group_acked(MonoTime since, std::uint64_t transactions, Now now) {
  batch_duration_.add(std::chrono::duration<double>(now.mono - since).count());
  next_.on_group_acked(since, transactions, now);
}

void PipelineMeter::on_stop_reason(const Error& error) {
  count(stop_errors_, error_class(error), kErrorsMax);
  next_.on_stop_reason(error);
}

void PipelineMeter::note_turn(const std::optional<SlotHealth>& health, Lsn flushed, Lsn confirmed,
                              Now now) {
  if (health && health->seen_at != health_at_) {
    health_at_ = health->seen_at;
    age_.seen(health->seen_at, health->wal_end);
    confirmed = std::max(confirmed, health->confirmed_lsn);
    // A standby publishes nothing itself: what the slot has confirmed, another one has published.
    age_.published(health->confirmed_lsn);
  }
  age_.published(flushed);
  if (confirmed > confirmed_) {
    confirmed_ = confirmed;
    confirmed_at_ = now.mono;
  }
}

}  // namespace outrider
