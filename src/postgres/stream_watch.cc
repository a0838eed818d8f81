#include "postgres/stream_watch.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>
#include <utility>

#include "postgres/preflight.h"
#include "postgres/sql_text.h"

namespace outrider {
namespace {

/// A question takes the server a millisecond; one that takes this long is lost.
constexpr std::chrono::seconds kAnswerTimeout{10};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

// The idle walsender's waits (manual, "Wait Events"): in its main loop, for WAL to decode, for the
// client to take what was written.
WalsenderActivity activity_of(bool exists, const std::string& wait_event) {
  if (!exists) {
    return WalsenderActivity::gone;
  }
  std::string event = lower(wait_event);
  constexpr std::array<std::string_view, 5> kWaits = {
      "walsendermain", "walsenderwaitforwal", "walsenderwritedata", "clientread", "clientwrite"};
  return std::find(kWaits.begin(), kWaits.end(), event) != kWaits.end()
             ? WalsenderActivity::waiting
             : WalsenderActivity::working;
}

StreamWatch::StreamWatch(Connection& control, const SourceConfig& source, CatalogWatch& catalog,
                         SlotWatch& slot, const NoteSink& note)
    : control_(control), source_(source), catalog_(catalog), slot_(slot), note_(note) {}

void StreamWatch::begin(int walsender_pid, std::string application_name, Now now) {
  end();
  walsender_pid_ = walsender_pid;
  application_name_ = std::move(application_name);
  next_ask_ = now.mono;
  next_open_ = now.mono;
}

void StreamWatch::end() {
  asking_ = Asking::nothing;
  lookup_.reset();
  lookup_rows_.reset();
  activity_ = WalsenderActivity::unknown;
  asked_at_ = answered_question_at_ = MonoTime{};
  next_look_.reset();
  looked_at_ = answered_look_at_ = MonoTime{};
  gone_answers_ = 0;
  shutdown_suspected_ = down_noted_ = fresh_connection_ = false;
}

Result<> StreamWatch::drive(Now now) {
  if (control_.state() == Connection::State::closed) {
    if (now.mono < next_open_) {
      return {};
    }
    next_open_ = now.mono + std::chrono::milliseconds(source_.watch_interval_ms);
    ++reconnects_;
    if (Result<> opened = control_.open(now); !opened) {
      return on_control_lost(opened.error(), now);
    }
  }
  bool was_idle = control_.state() == Connection::State::idle;
  if (Result<> driven = control_.drive(now); !driven) {
    return on_control_lost(driven.error(), now);
  }
  if (control_.state() != Connection::State::idle) {
    return {};
  }
  if (std::optional<Answer> answer = control_.take_answer()) {
    OUTRIDER_TRY(on_answer(std::move(*answer), now));
  }
  if (!was_idle && down_noted_) {
    down_noted_ = false;
    note_(SourceNote{LogLevel::info, "control connection is back", {}});
    if (next_look_) {
      next_look_ = now.mono;
    }
  }
  return ask(now);
}

// A lost control connection says nothing about the stream, unless the server goes down: then it
// waits for the walsender, which waits for our confirmation, and only leaving lets it finish.
Result<> StreamWatch::on_control_lost(const Error& error, Now now) {
  asking_ = Asking::nothing;
  slot_.lost();
  fresh_connection_ = true;
  if (error.code == "57P03" || shutdown_suspected_) {
    return fail(ErrorKind::transient, "the server is shutting down: " + error.message, error.hint,
                error.code);
  }
  if (error.code == "57P01" || error.code == "57P02") {
    // An administrator, or the server's end: the next connect tells.
    shutdown_suspected_ = true;
    next_open_ = now.mono;
    next_ask_ = now.mono;
  }
  if (!down_noted_) {
    down_noted_ = true;
    note_(SourceNote{LogLevel::warn,
                     "control connection lost, the stream goes on",
                     {{"error", describe(error)}}});
  }
  return {};
}

Result<> StreamWatch::on_answer(Answer answer, Now now) {
  Asking asked = std::exchange(asking_, Asking::nothing);
  shutdown_suspected_ = false;
  if (asked == Asking::catalog) {
    return on_catalog(answer);
  }
  if (asked == Asking::slot) {
    slot_.take(answer);
    return {};
  }
  if (answer.error) {
    return fail(classify_server_error("cannot ask the catalogue", *answer.error));
  }
  if (asked == Asking::lookup) {
    lookup_.reset();
    lookup_rows_ = std::move(answer.rows);
    return {};
  }
  return asked == Asking::state ? on_state(answer.rows, now) : Result<>();
}

Result<> StreamWatch::on_state(const QueryResult& rows, Now now) {
  answered_question_at_ = asked_at_;
  if (rows.rows.empty()) {
    return {};
  }
  std::string sync_state = rows.text(0, "sync_state");
  std::string names = rows.text(0, "names");
  if ((!sync_state.empty() && sync_state != "async") ||
      counts_as_synchronous(names, application_name_)) {
    release_waiting_commits(now);
    return fail(synchronous_error(application_name_, names));
  }
  const std::string timeline = rows.text(0, "timeline");
  std::from_chars(timeline.data(), timeline.data() + timeline.size(), timeline_, 16);
  activity_ = activity_of(rows.text(0, "exists") == "t", rows.text(0, "wait_event"));
  bool fresh = std::exchange(fresh_connection_, false);
  gone_answers_ = activity_ == WalsenderActivity::gone ? gone_answers_ + 1 : 0;
  if (gone_answers_ >= 2 || (gone_answers_ == 1 && fresh)) {
    return fail(ErrorKind::transient, "the walsender is gone from the server");
  }
  return {};
}

void StreamWatch::watch_catalog(Now now) { next_look_ = now.mono; }

// A look that fails leaves the rest as it is: the bounds of the next report are the wider for it.
Result<> StreamWatch::on_catalog(const Answer& answer) {
  answered_look_at_ = looked_at_;
  if (answer.error) {
    std::string trouble =
        describe(classify_server_error("cannot watch the catalogue", *answer.error));
    if (trouble != look_trouble_) {
      note_(SourceNote{LogLevel::warn, "cannot watch the catalogue", {{"error", trouble}}});
      look_trouble_ = std::move(trouble);
    }
    return {};
  }
  look_trouble_.clear();
  CatalogReport report = catalog_.take(answer.rows);
  switch (report.kind) {
    case CatalogReport::Kind::nothing:
      break;
    case CatalogReport::Kind::changed:
      note_(SourceNote{LogLevel::info, "the catalogue changed", {{"what", report.what}}});
      break;
    case CatalogReport::Kind::gap:
      note_(SourceNote{LogLevel::warn,
                       "rows may be missing",
                       {{"what", report.what}, {"rows", report.rows}, {"hint", report.hint}}});
      break;
    case CatalogReport::Kind::drift:
      return fail(ErrorKind::fatal, "the catalogue drifted: " + report.what + "; " + report.rows,
                  report.hint);
  }
  return {};
}

// Commits that wait for us are released when another standby reports next, which on a quiet server
// takes it up to its status interval (10 s by default). New WAL makes it report at once, so leave
// some behind when the walsender is gone; the statement goes on without its client.
void StreamWatch::release_waiting_commits(Now now) {
  const std::string sql =
      "DO $outrider$ BEGIN FOR i IN 1..100 LOOP "
      "EXIT WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_stat_replication WHERE pid = " +
      std::to_string(walsender_pid_) +
      "); PERFORM pg_catalog.pg_sleep(0.01); END LOOP; "
      "SET LOCAL synchronous_commit = local; "
      "PERFORM pg_catalog.pg_logical_emit_message(true, 'outrider.left', ''); END $outrider$";
  // Only a help: without it the commits go on later.
  (void)control_.send(sql, now, kAnswerTimeout);
}

std::string StreamWatch::state_sql() const {
  std::string pid = std::to_string(walsender_pid_);
  return "SELECT (SELECT sync_state FROM pg_catalog.pg_stat_replication WHERE pid = " + pid +
         " LIMIT 1) AS sync_state, "
         "pg_catalog.current_setting('synchronous_standby_names') AS names, "
         "EXISTS (SELECT 1 FROM pg_catalog.pg_stat_activity WHERE pid = " +
         pid +
         ") AS exists, "
         "(SELECT wait_event FROM pg_catalog.pg_stat_activity WHERE pid = " +
         pid +
         " LIMIT 1) AS wait_event, "
         // The first eight digits of a WAL file's name are its timeline.
         "CASE WHEN pg_catalog.pg_is_in_recovery() THEN '' ELSE pg_catalog.substr("
         "pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) END AS timeline";
}

Result<> StreamWatch::ask(Now now) {
  std::string sql;
  if (lookup_) {
    asking_ = Asking::lookup;
    sql = *lookup_;
  } else if (now.mono >= next_ask_) {
    asking_ = Asking::state;
    asked_at_ = now.mono;
    next_ask_ = now.mono + std::chrono::milliseconds(source_.watch_interval_ms);
    sql = state_sql();
  } else if (slot_.due(now.mono)) {
    asking_ = Asking::slot;
    sql = slot_.ask(control_.server_version(), now);
  } else if (next_look_ && now.mono >= *next_look_) {
    asking_ = Asking::catalog;
    looked_at_ = now.mono;
    next_look_ = now.mono + kCatalogTurns * std::chrono::milliseconds(source_.watch_interval_ms);
    sql = catalog_.statement();
  } else {
    return {};
  }
  if (Result<> sent = control_.send(sql, now, kAnswerTimeout); !sent) {
    return on_control_lost(sent.error(), now);
  }
  return {};
}

std::optional<QueryResult> StreamWatch::take_lookup() {
  return std::exchange(lookup_rows_, std::nullopt);
}

WalsenderActivity StreamWatch::activity_since(MonoTime asked) const {
  return answered_question_at_ >= asked ? activity_ : WalsenderActivity::unknown;
}

std::optional<MonoTime> StreamWatch::deadline() const {
  switch (control_.state()) {
    case Connection::State::closed:
      return next_open_;
    case Connection::State::idle: {
      const MonoTime next = std::min(next_ask_, slot_.deadline());
      return next_look_ ? std::min(next, *next_look_) : next;
    }
    default:
      return control_.deadline();
  }
}

}  // namespace outrider
