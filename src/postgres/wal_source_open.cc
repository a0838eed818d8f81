// WalSource from closed to streaming: one step after another, none of them waiting.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <utility>

#include "outrider/base/check.h"
#include "postgres/sql_text.h"
#include "postgres/timeline_history.h"
#include "postgres/wal_source.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kQueryTimeout{30'000};
constexpr milliseconds kStartTimeout{60'000};
/// A new slot waits for running transactions; say so after a while, then once a minute.
constexpr milliseconds kPatienceWithSlot{2'000};
constexpr milliseconds kNoteInterval{60'000};

}  // namespace

void WalSource::open(std::optional<Lsn> resume_from, Now) {
  waited_ = false;
  slot_created_now_ = false;
  OUTRIDER_CHECK(step_ == Step::closed, "a source is opened when closed");
  resume_from_ = resume_from;
  step_ = Step::control_connecting;
  ++opens_;
}

Result<> WalSource::drive_opening(Now now) {
  if (control_.state() == Connection::State::closed) {
    OUTRIDER_TRY(control_.open(now));
  }
  OUTRIDER_TRY(control_.drive(now));
  OUTRIDER_TRY(stream_.connection().drive(now));
  for (;;) {
    OUTRIDER_TRY(bool moved, advance(now));
    if (!moved) {
      return {};
    }
  }
}

Result<bool> WalSource::advance(Now now) {
  switch (step_) {
    case Step::control_connecting:
      return on_control_connected(now);
    case Step::preflight:
      return on_preflight(now);
    case Step::preparing:
      return on_preparing(now);
    case Step::waiting:
      return on_waiting(now);
    case Step::stream_connecting:
      return on_stream_connected(now);
    case Step::identifying:
      return on_identified(now);
    case Step::reading_history:
      return on_history(now);
    case Step::asking:
      return on_allowed(now);
    case Step::arming:
      return on_armed(now);
    case Step::creating_slot:
      return on_creating_slot(now);
    case Step::rechecking:
      return on_rechecked(now);
    case Step::starting:
      return on_started(now);
    case Step::closed:
    case Step::streaming:
    case Step::finishing:
      break;
  }
  return false;
}

Result<bool> WalSource::on_control_connected(Now now) {
  if (control_.state() != Connection::State::idle) {
    return false;
  }
  return begin_preflight(now);
}

Result<bool> WalSource::begin_preflight(Now now) {
  SourceConfig asked = source_;
  // Whether a missing slot may be made is judged later, by begin_slot() and the core.
  asked.create_slot = true;
  preflight_ = std::make_unique<Preflight>(asked, outbox_, route_);
  step_ = Step::preflight;
  std::optional<std::string> sql = preflight_->next_statement();
  OUTRIDER_CHECK(sql.has_value(), "a preflight asks at least one question");
  OUTRIDER_TRY(control_.send(*sql, now, kQueryTimeout));
  return true;
}

Result<bool> WalSource::on_preflight(Now now) {
  std::optional<Answer> answer = control_.take_answer();
  if (!answer) {
    return false;
  }
  if (answer->error) {
    return fail(classify_server_error("cannot read the catalogue", *answer->error));
  }
  preflight_->take(answer->rows);
  if (std::optional<std::string> sql = preflight_->next_statement()) {
    OUTRIDER_TRY(control_.send(*sql, now, kQueryTimeout));
    return true;
  }
  return on_judged(now);
}

Result<bool> WalSource::on_judged(Now now) {
  OUTRIDER_TRY(plan_, preflight_->judge());
  if (plan_.slot_active) {
    wait_for_slot(now, std::to_string(plan_.slot_active_pid));
    return true;
  }
  next_note_ = MonoTime{};
  return begin_preparing(now);
}

Result<bool> WalSource::begin_preparing(Now now) {
  OUTRIDER_TRY(check_dry_run());
  for (const std::string& warning : plan_.warnings) {
    note(LogLevel::warn, warning);
  }
  partitions_.begin(plan_);
  statement_ = 0;
  step_ = Step::preparing;
  return send_statement(now);
}

Result<> WalSource::check_dry_run() const {
  if (plan_.create_slot && resume_from_ && leave_nothing_) {
    return fail(ErrorKind::fatal,
                "the temporary slot of the dry run ended with its connection, and what was "
                "committed since cannot be shown",
                "start the dry run again");
  }
  if (leave_nothing_ && !plan_.statements.empty()) {
    return fail(
        ErrorKind::configuration,
        "publication \"" + source_.publication +
            "\" does not exist, and a dry run makes nothing that stays",
        "set source.plugin: wal2json for the dry run, or run first: " + plan_.statements.front());
  }
  return {};
}

// Layout ids are unique within one decoder only, and rows of the old one may still be in flight.
Result<> WalSource::choose_decoder() {
  if (decoder_ == nullptr) {
    decoder_ = plan_.plugin == Plugin::wal2json ? make_wal2json_decoder() : make_pgoutput_decoder();
    decoder_plugin_ = plan_.plugin;
  } else if (decoder_plugin_ != plan_.plugin) {
    return fail(ErrorKind::fatal,
                "slot \"" + source_.slot + "\" was made with " + to_string(decoder_plugin_) +
                    " when the relay started and is now one of " + to_string(plan_.plugin),
                "find out who dropped and made the slot anew, then start the relay again");
  }
  decoder_->reset();
  return {};
}

/// The next of the plan's statements, or on to the stream's connection.
Result<bool> WalSource::send_statement(Now now) {
  if (statement_ < plan_.statements.size()) {
    OUTRIDER_TRY(control_.send(plan_.statements[statement_], now,
                               milliseconds(source_.lock_timeout_ms) + kQueryTimeout));
    return true;
  }
  step_ = Step::stream_connecting;
  if (stream_.connection().state() == Connection::State::closed) {
    OUTRIDER_TRY(stream_.connection().open(now));
  }
  return true;
}

Result<bool> WalSource::on_preparing(Now now) {
  std::optional<Answer> answer = control_.take_answer();
  if (!answer) {
    return false;
  }
  if (answer->error) {
    return fail(classify_server_error("cannot run \"" + plan_.statements[statement_] + "\"",
                                      *answer->error));
  }
  note(LogLevel::info, "statement done", {{"statement", plan_.statements[statement_]}});
  ++statement_;
  return send_statement(now);
}

void WalSource::wait_for_slot(Now now, const std::string& holder_pid) {
  waited_ = true;
  step_ = Step::waiting;
  stream_.close();
  next_poll_ = now.mono + milliseconds(source_.slot_poll_interval_ms);
  if (now.mono >= next_note_) {
    next_note_ = now.mono + kNoteInterval;
    note(LogLevel::info, "standby: the slot is held by another process, waiting for it",
         {{"slot", source_.slot}, {"holder_pid", holder_pid}});
  }
}

// When the slot is free (or gone) everything is judged anew: a standby may have waited for days.
Result<bool> WalSource::on_waiting(Now now) {
  if (std::optional<Answer> answer = control_.take_answer()) {
    if (take_slot_answer(*answer)) {
      return false;
    }
    if (answer->error) {
      return fail(classify_server_error("cannot look at the slot", *answer->error));
    }
    if (answer->rows.rows.empty() || answer->rows.text(0, "active") != "t") {
      return begin_preflight(now);
    }
    if (source_.evict_holder_after_ms != 0 && answer->rows.text(0, "evicted") == "t") {
      note(LogLevel::warn, "the process that held the slot had reported nothing: it was ended",
           {{"slot", source_.slot},
            {"holder_pid", answer->rows.text(0, "active_pid")},
            {"silent_ms", answer->rows.text(0, "silent_ms")}});
    }
    wait_for_slot(now, answer->rows.text(0, "active_pid"));
    return false;
  }
  if (control_.state() != Connection::State::idle || now.mono < next_poll_) {
    OUTRIDER_TRY(ask_about_slot(now));
    return false;
  }
  OUTRIDER_TRY(
      control_.send(holder_sql(source_.slot, source_.evict_holder_after_ms), now, kQueryTimeout));
  return false;
}

Result<bool> WalSource::on_stream_connected(Now now) {
  if (stream_.connection().state() != Connection::State::idle) {
    return false;
  }
  walsender_pid_ = stream_.connection().backend_pid();
  step_ = Step::identifying;
  OUTRIDER_TRY(stream_.connection().send("IDENTIFY_SYSTEM", now, kQueryTimeout));
  return true;
}

// Every role that may replicate may ask this, and it is asked where the stream will run.
Result<bool> WalSource::on_identified(Now now) {
  std::optional<Answer> answer = stream_.connection().take_answer();
  if (!answer) {
    return false;
  }
  if (answer->error) {
    return fail(classify_server_error("cannot identify the server", *answer->error));
  }
  const std::string timeline = answer->rows.text(0, "timeline");
  identity_.system_id = answer->rows.text(0, "systemid");
  identity_.database = answer->rows.text(0, "dbname");
  identity_.slot = source_.slot;
  identity_.timeline = 0;
  std::from_chars(timeline.data(), timeline.data() + timeline.size(), identity_.timeline);
  server_wal_end_ = Lsn::parse(answer->rows.text(0, "xlogpos")).value_or(Lsn());
  forks_.clear();
  if (identity_.timeline <= 1) {
    return begin_slot(now);
  }
  step_ = Step::reading_history;
  OUTRIDER_TRY(stream_.connection().send("TIMELINE_HISTORY " + std::to_string(identity_.timeline),
                                         now, kQueryTimeout));
  return true;
}

Result<bool> WalSource::on_history(Now now) {
  std::optional<Answer> answer = stream_.connection().take_answer();
  if (!answer) {
    return false;
  }
  if (answer->error) {
    return fail(classify_server_error("cannot read the server's timeline history", *answer->error));
  }
  forks_ = parse_timeline_history(answer->rows.text(0, "content"));
  OUTRIDER_TRY(check_promotion());
  return begin_slot(now);
}

// Behind the fork our positions name other rows on the new timeline. Judged before anything is said
// to the slot, which would take such a position for its own.
Result<> WalSource::check_promotion() const {
  if (!resume_from_ || streamed_timeline_ == 0 || streamed_timeline_ == identity_.timeline) {
    return {};
  }
  const std::optional<Lsn> fork = fork_of(streamed_timeline_);
  if (fork && *resume_from_ <= *fork) {
    return {};
  }
  return fail(ErrorKind::fatal,
              "the server was promoted: timeline " + std::to_string(streamed_timeline_) +
                  (fork ? " ended at " + fork->to_string() : " is none of its ancestors") +
                  ", this relay is at " + resume_from_->to_string() +
                  "; records beyond the end are phantoms, the new primary does not have their rows",
              "start the relay again: it goes on from the new primary's slot", "SERVER_PROMOTED");
}

// A slot that was there and is gone took events with it: a new one begins after them, and after the
// next start nobody would know.
Result<bool> WalSource::begin_slot(Now now) {
  if (!plan_.create_slot) {
    return begin_recheck(now);
  }
  if (resume_from_) {
    return fail(ErrorKind::fatal,
                "slot \"" + source_.slot +
                    "\" is gone while the relay runs; rows committed between " +
                    resume_from_->to_string() + " and " + server_wal_end_.to_string() +
                    " may be missing in Kafka",
                "find out who dropped it (a failover slot that was still temporary goes at a "
                "promotion), publish the rows between the two positions again, then start once "
                "with delivery.on_slot_lost: recreate",
                "SLOT_MISSING");
  }
  step_ = Step::asking;
  creation_allowed_ = leave_nothing_;
  return true;
}

std::optional<Lsn> WalSource::fork_of(std::uint32_t timeline) const {
  const auto fork = forks_.find(timeline);
  return fork == forks_.end() ? std::nullopt : std::optional(fork->second);
}

void WalSource::allow_creation() { creation_allowed_ = true; }

Result<bool> WalSource::on_allowed(Now now) {
  if (!creation_allowed_) {
    return false;
  }
  step_ = Step::arming;
  OUTRIDER_TRY(stream_.connection().send("SELECT 1", now, kQueryTimeout));
  return true;
}

// An SQL statement starts the server's timer for client_connection_check_interval (pinned before);
// CREATE_REPLICATION_SLOT does not, but with the timer running it notices that its client is gone
// and takes its half-made slot away.
Result<bool> WalSource::on_armed(Now now) {
  if (!stream_.connection().take_answer()) {
    return false;
  }
  step_ = Step::creating_slot;
  next_poll_ = now.mono + kPatienceWithSlot;
  // No deadline of our own: lock_timeout bounds each wait at the server.
  OUTRIDER_TRY(stream_.connection().send(create_slot_sql(source_.slot, plan_, leave_nothing_), now,
                                         milliseconds(0)));
  return true;
}

Result<bool> WalSource::on_creating_slot(Now now) {
  std::optional<Answer> answer = stream_.connection().take_answer();
  if (!answer) {
    OUTRIDER_TRY(watch_slot_creation(now));
    return false;
  }
  if (answer->error) {
    return on_slot_refused(*answer->error, now);
  }
  slot_created_ = slot_created_now_ = true;
  std::string consistent_point =
      answer->rows.rows.empty() ? std::string() : answer->rows.text(0, "consistent_point");
  plan_.confirmed_flush_lsn = Lsn::parse(consistent_point).value_or(Lsn());
  server_wal_end_ = std::max(server_wal_end_, plan_.confirmed_flush_lsn);
  note(LogLevel::info, leave_nothing_ ? "temporary slot created" : "slot created",
       {{"slot", source_.slot},
        {"plugin", to_string(plan_.plugin)},
        {"why", plan_.plugin_reason},
        {"consistent_point", consistent_point}});
  return begin_recheck(now);
}

// Whether the server has and allows wal2json cannot be seen beforehand by every role.
Result<bool> WalSource::on_slot_refused(const ServerError& error, Now now) {
  if (!plan_.fallback_plugin || control_.state() != Connection::State::idle ||
      !is_plugin_unavailable(error.sqlstate, error.message, plan_.plugin)) {
    return fail(replication_error(error));
  }
  note(LogLevel::warn, "the server does not have or allow the preferred output plugin",
       {{"plugin", to_string(plan_.plugin)},
        {"instead", to_string(*plan_.fallback_plugin)},
        {"error", error.message}});
  OUTRIDER_TRY(plan_, preflight_->judge(plan_.fallback_plugin));
  return begin_preparing(now);
}

Result<> WalSource::watch_slot_creation(Now now) {
  if (std::optional<Answer> answer = control_.take_answer()) {
    for (std::size_t row = 0; !answer->error && row < answer->rows.rows.size(); ++row) {
      const QueryResult& rows = answer->rows;
      note(LogLevel::warn, "creating the slot waits for a transaction to end",
           {{"slot", source_.slot},
            {"pid", rows.text(row, "pid")},
            {"user", rows.text(row, "usename")},
            {"application_name", rows.text(row, "application_name")},
            {"state", rows.text(row, "state")},
            {"since", rows.text(row, "xact_start")}});
    }
    return {};
  }
  if (control_.state() == Connection::State::idle && now.mono >= next_poll_) {
    next_poll_ = now.mono + kNoteInterval;
    return control_.send(blockers_sql(walsender_pid_), now, kQueryTimeout);
  }
  return {};
}

// Creating may have taken long: look again whether commits would wait for us, and where the slot
// stands now, as late as possible before the stream starts.
Result<bool> WalSource::begin_recheck(Now) {
  OUTRIDER_TRY(choose_decoder());
  step_ = Step::rechecking;
  recheck_sent_ = false;
  return true;
}

Result<bool> WalSource::on_rechecked(Now now) {
  if (!recheck_sent_) {
    if (control_.state() != Connection::State::idle) {
      return false;
    }
    (void)control_.take_answer();
    recheck_sent_ = true;
    OUTRIDER_TRY(control_.send(
        "SELECT pg_catalog.current_setting('synchronous_standby_names') AS names, "
        "s.confirmed_flush_lsn AS confirmed, s.restart_lsn AS restart "
        "FROM (SELECT 1) AS one LEFT JOIN pg_catalog.pg_replication_slots s ON s.slot_name = " +
            quote_literal(source_.slot),
        now, kQueryTimeout));
    return false;
  }
  std::optional<Answer> answer = control_.take_answer();
  if (!answer) {
    return false;
  }
  if (answer->error) {
    return fail(classify_server_error("cannot look at the slot", *answer->error));
  }
  std::string names = answer->rows.text(0, "names");
  if (counts_as_synchronous(names, application_name_)) {
    return fail(synchronous_error(application_name_, names));
  }
  if (std::optional<Lsn> lsn = Lsn::parse(answer->rows.text(0, "confirmed"))) {
    plan_.confirmed_flush_lsn = std::max(plan_.confirmed_flush_lsn, *lsn);
  }
  slot_restart_lsn_ = Lsn::parse(answer->rows.text(0, "restart")).value_or(Lsn());
  started_from_ = std::max(resume_from_.value_or(Lsn()), plan_.confirmed_flush_lsn);
  step_ = Step::starting;
  OUTRIDER_TRY(stream_.connection().send(start_replication_sql(source_.slot, started_from_, plan_),
                                         now, kStartTimeout));
  return true;
}

Result<bool> WalSource::on_started(Now now) {
  std::optional<Answer> answer = stream_.connection().take_answer();
  if (!answer) {
    return false;
  }
  if (answer->error && answer->error->sqlstate == "55006") {
    wait_for_slot(now, "");
    return true;
  }
  if (answer->error) {
    return fail(replication_error(*answer->error));
  }
  if (stream_.connection().state() != Connection::State::copy_both) {
    return fail(ErrorKind::fatal,
                "the server did not begin to stream from slot \"" + source_.slot + "\"");
  }
  step_ = Step::streaming;
  streamed_timeline_ = identity_.timeline;
  stream_.begin(now);
  apply_reading();
  watch_.begin(walsender_pid_, application_name_, now);
  silence_.restart(now.mono);
  start_pending_ = true;
  last_status_ = StandbyStatus{started_from_, started_from_};
  note(LogLevel::info, "streaming",
       {{"slot", source_.slot},
        {"plugin", to_string(plan_.plugin)},
        {"lsn", started_from_.to_string()},
        {"walsender_pid", std::to_string(walsender_pid_)}});
  return false;
}

Error WalSource::replication_error(const ServerError& error) const {
  return explain_replication_error(error.sqlstate, error.message, error.hint, source_, plan_);
}

}  // namespace outrider
