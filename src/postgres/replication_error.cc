// What CREATE_REPLICATION_SLOT and START_REPLICATION refuse, and what to do about it.
//
// The SQLSTATE alone does not tell: one code stands for several causes (42704 for a missing slot
// and a missing publication, 58P01 for a missing library and removed WAL, 55000 for most of the
// rest), so the message is looked at too, by words that survive translation where there are any.
#include <string_view>

#include "postgres/preflight.h"
#include "postgres/preflight_judge.h"
#include "postgres/sql_text.h"
#include "postgres/sqlstate.h"

namespace outrider {

namespace {

struct Refusal {
  const std::string& sqlstate;
  const std::string& message;
  const std::string& server_hint;
  const SourceConfig& source;
  const StartPlan& plan;

  bool says(std::string_view word) const { return message.find(word) != std::string::npos; }
  /// "publi" covers the word in the server's translations.
  bool names_publication() const { return says("publi") || says("Publi"); }
  std::string slot() const { return "replication slot \"" + source.slot + "\""; }
  std::string quoted_plugin() const {
    return std::string("output plugin \"") + to_string(plan.plugin) + "\"";
  }
  std::string recreate_slot_hint() const {
    return "remove it (SELECT pg_drop_replication_slot(" + quote_literal(source.slot) +
           ")) and let it be made again; events it has not relayed must be looked for in the table";
  }
  /// Our words first, the server's behind them.
  Error error(ErrorKind kind, const std::string& what, std::string hint) const {
    return {kind, what + ": " + message, std::move(hint), sqlstate};
  }
};

bool names_plugin_list(const std::string& message, const std::string& server_hint) {
  return message.find("output plugin") != std::string::npos ||
         message.find("output_plugin_libraries") != std::string::npos ||
         server_hint.find("output_plugin_libraries") != std::string::npos;
}

Error explain_permission(const Refusal& refusal) {
  if (!names_plugin_list(refusal.message, refusal.server_hint)) {
    return refusal.error(ErrorKind::configuration, "no permission to use " + refusal.slot(),
                         "give the role the REPLICATION attribute: ALTER ROLE … REPLICATION");
  }
  std::string hint = "run " + allow_plugin_sql(refusal.plan.output_plugin_libraries,
                                               to_string(refusal.plan.plugin));
  if (!refusal.plan.output_plugin_libraries) {
    hint += ", with the names that SHOW output_plugin_libraries lists kept in it";
  }
  if (refusal.plan.create_slot && refusal.plan.plugin == Plugin::wal2json) {
    hint += "; or set source.plugin: pgoutput";
  }
  return refusal.error(ErrorKind::configuration, refusal.quoted_plugin() + " is not allowed", hint);
}

Error explain_missing_object(const Refusal& refusal) {
  if (refusal.names_publication()) {
    // Preflight has just seen or made it, and the server decodes with the catalogue of the past.
    return refusal.error(
        ErrorKind::fatal,
        "publication \"" + refusal.source.publication +
            "\" was missing when rows were written that " + refusal.slot() +
            " still has to send; that it exists now does not help, PostgreSQL "
            "decodes with the catalogue of that time",
        "find those rows in the table and move the slot behind them: see docs/OPERATIONS.md on a "
        "publication that was dropped");
  }
  return refusal.error(ErrorKind::fatal, refusal.slot() + " is gone",
                       "find out who dropped it, then make it anew (outrider init, or "
                       "source.create_slot: true); events committed in between must be looked for "
                       "in the table");
}

Error explain_state(const Refusal& refusal) {
  if (refusal.says("wal_level")) {
    return refusal.error(ErrorKind::configuration, "logical decoding is off",
                         "run ALTER SYSTEM SET wal_level = 'logical' and restart PostgreSQL");
  }
  if (refusal.says("physical")) {
    return refusal.error(ErrorKind::configuration, refusal.slot() + " is not a logical one",
                         "choose another source.slot");
  }
  if (refusal.says("not created in this database")) {
    return refusal.error(ErrorKind::configuration, refusal.slot() + " is of another database",
                         "correct the database in source.dsn or choose another source.slot");
  }
  if (refusal.says("recovery") || refusal.says("standby")) {
    return refusal.error(ErrorKind::transient, "server is a standby",
                         "point source.dsn at the primary (target_session_attrs=read-write)");
  }
  return refusal.error(ErrorKind::fatal, refusal.slot() + " can no longer be used",
                       refusal.recreate_slot_hint());
}

Error explain_missing_file(const Refusal& refusal) {
  if (is_plugin_unavailable(refusal.sqlstate, refusal.message, refusal.plan.plugin)) {
    return refusal.error(ErrorKind::configuration, refusal.quoted_plugin() + " is not installed",
                         "install the server package (postgresql-<major>-wal2json), or set "
                         "source.plugin: pgoutput");
  }
  return refusal.error(ErrorKind::fatal, "WAL that " + refusal.slot() + " needs is gone",
                       refusal.recreate_slot_hint());
}

Error explain_limit(const Refusal& refusal) {
  if (refusal.sqlstate == "53400") {
    return refusal.error(ErrorKind::configuration, "all replication slots are in use",
                         "drop an unused one, or raise max_replication_slots and restart "
                         "PostgreSQL");
  }
  return refusal.error(ErrorKind::transient, "all walsenders or connections are in use",
                       "wait, or raise max_wal_senders (max_connections) and restart PostgreSQL");
}

Error explain_other(const Refusal& refusal) {
  return classify_server_error("cannot start " + refusal.slot(),
                               {refusal.sqlstate, refusal.message, {}, refusal.server_hint});
}

}  // namespace

bool is_plugin_unavailable(const std::string& sqlstate, const std::string& message, Plugin plugin) {
  if (sqlstate == "42501") {
    return message.find("output plugin") != std::string::npos ||
           message.find(std::string("\"") + to_string(plugin) + "\"") != std::string::npos;
  }
  // A library that is not there; removed WAL has the same code and other words.
  return sqlstate == "58P01" && message.find(to_string(plugin)) != std::string::npos;
}

Error explain_replication_error(const std::string& sqlstate, const std::string& message,
                                const std::string& server_hint, const SourceConfig& source,
                                const StartPlan& plan) {
  const Refusal refusal{sqlstate, message, server_hint, source, plan};
  if (sqlstate == "42501") {
    return explain_permission(refusal);
  }
  if (sqlstate == "42704") {
    return explain_missing_object(refusal);
  }
  if (sqlstate == "42710") {
    return refusal.error(ErrorKind::transient, refusal.slot() + " was just made by another",
                         "nothing to do, the relay looks again");
  }
  if (sqlstate == "53400" || sqlstate == "53300") {
    return explain_limit(refusal);
  }
  if (sqlstate == "55000") {
    return explain_state(refusal);
  }
  if (sqlstate == "55006") {
    return refusal.error(ErrorKind::transient, refusal.slot() + " is held by another process",
                         "nothing to do if that is the active relay: this one takes over when the "
                         "slot is free");
  }
  if (sqlstate == "55P03") {
    return refusal.error(
        ErrorKind::transient, "an open transaction kept " + refusal.slot() + " from being made",
        "end it: SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL "
        "ORDER BY xact_start");
  }
  if (sqlstate == "58P01") {
    return explain_missing_file(refusal);
  }
  return explain_other(refusal);
}

Error explain_stream_error(Error error, const SourceConfig& source, const StartPlan& plan) {
  const std::string server_hint;
  const Refusal refusal{error.code, error.message, server_hint, source, plan};
  if (error.code == "42704" && plan.plugin == Plugin::pgoutput && refusal.names_publication()) {
    return explain_missing_object(refusal);
  }
  return error;
}

}  // namespace outrider
