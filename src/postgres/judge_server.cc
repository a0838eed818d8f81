// Server-wide rules: version, settings, role, slot, capacity.
#include "postgres/preflight_judge.h"
#include "postgres/sql_text.h"

namespace outrider {

namespace {

constexpr int kOldestServer = 140000;
constexpr int kDecodesOnStandby = 160000;

std::string drop_slot_sql(const std::string& slot) {
  return "SELECT pg_drop_replication_slot(" + quote_literal(slot) + ")";
}

Result<> check_slot_fit(const SlotFacts& slot, const Case& known) {
  const std::string name = "replication slot \"" + known.source.slot + "\"";
  const std::string drop = drop_slot_sql(known.source.slot);
  if (slot.type != "logical") {
    return fail(ErrorKind::configuration, name + " is physical, a logical one is needed",
                "choose another source.slot, or remove it if no standby uses it: " + drop);
  }
  if (slot.database != known.facts.database) {
    return fail(ErrorKind::configuration,
                name + " belongs to database \"" + slot.database + "\", not to \"" +
                    known.facts.database + "\"",
                "correct the database in source.dsn or choose another source.slot (slot names are "
                "shared by all databases of a server)");
  }
  if (slot.plugin != "wal2json" && slot.plugin != "pgoutput") {
    return fail(ErrorKind::configuration,
                name + " was made with output plugin \"" + slot.plugin +
                    "\", not with wal2json or pgoutput",
                "choose another source.slot, or remove it if nobody uses it: " + drop);
  }
  const bool wants_other =
      (known.source.plugin == PluginChoice::wal2json && slot.plugin != "wal2json") ||
      (known.source.plugin == PluginChoice::pgoutput && slot.plugin != "pgoutput");
  if (wants_other) {
    const char* wanted = known.source.plugin == PluginChoice::wal2json ? "wal2json" : "pgoutput";
    return fail(ErrorKind::configuration,
                name + " was made with output plugin \"" + slot.plugin + "\", source.plugin is \"" +
                    wanted + "\"",
                "set source.plugin: " + slot.plugin +
                    ", or choose another source.slot for the other plugin (events not yet relayed "
                    "through this slot stay behind in it)");
  }
  return {};
}

/// What keeps a new slot from the same end. The reasons are the server's since 17 (manual,
/// "pg_replication_slots"); of 16 only the conflict is known.
std::string prevention(const std::string& reason) {
  if (reason == "idle_timeout") {
    return "raise idle_replication_slot_timeout above the longest stop of the relay (0: no limit)";
  }
  if (reason == "rows_removed" || reason == "conflict with recovery") {
    return "set hot_standby_feedback = on and primary_slot_name on the standby";
  }
  if (reason == "wal_level_insufficient") {
    return "keep wal_level = 'logical' on the primary";
  }
  return "raise max_slot_wal_keep_size";
}

Result<> check_slot_health(const SlotFacts& slot, const Case& known) {
  const std::string name = "replication slot \"" + known.source.slot + "\"";
  if (slot.wal_status == "lost" || !slot.invalidation_reason.empty()) {
    const std::string why =
        slot.invalidation_reason.empty() ? "wal_status lost" : slot.invalidation_reason;
    return fail(ErrorKind::fatal,
                name + " was invalidated by the server (" + why + "); rows committed between " +
                    slot.confirmed_flush_lsn.to_string() + " and " +
                    slot.server_wal_end.to_string() + " may be missing in Kafka",
                "look into the table for events that were not relayed, then make the slot anew: " +
                    drop_slot_sql(known.source.slot) + ", and so that it does not happen again " +
                    prevention(why),
                "55000");
  }
  if (slot.synced && known.facts.in_recovery) {
    return fail(ErrorKind::transient,
                name + " on this standby is a synchronised copy, usable only after promotion",
                "point source.dsn at the primary (target_session_attrs=read-write)");
  }
  if (slot.temporary) {
    return fail(ErrorKind::transient,
                name + " exists as a temporary slot of another session (process " +
                    std::to_string(slot.active_pid) + ")",
                "wait until that session ends, or choose another source.slot");
  }
  if (!slot.confirmed_flush_lsn.is_valid() && !slot.active) {
    return fail(ErrorKind::fatal, name + " was never completed",
                "remove it and let it be made again: " + drop_slot_sql(known.source.slot));
  }
  return {};
}

}  // namespace

Result<> check_wal_level(const ServerFacts& facts) {
  if (facts.wal_level == "logical") {
    return {};
  }
  return fail(ErrorKind::configuration,
              "wal_level is \"" + facts.wal_level + "\", logical decoding needs \"logical\"",
              "run ALTER SYSTEM SET wal_level = 'logical' and restart PostgreSQL");
}

Result<> check_server(const Case& known) {
  const ServerFacts& facts = known.facts;
  if (facts.version_num < kOldestServer) {
    return fail(ErrorKind::configuration,
                "PostgreSQL " + std::to_string(facts.version_num / 10000) + " is too old",
                "use PostgreSQL 14 or later");
  }
  OUTRIDER_TRY(check_wal_level(facts));
  if (facts.in_recovery && facts.version_num < kDecodesOnStandby) {
    return fail(ErrorKind::transient,
                "server is in recovery (a standby), PostgreSQL before 16 cannot decode there",
                "point source.dsn at the primary (several hosts with "
                "target_session_attrs=read-write), or promote this server");
  }
  if (!facts.may_replicate) {
    return fail(ErrorKind::configuration,
                "role \"" + facts.role + "\" lacks the REPLICATION attribute",
                "run ALTER ROLE " + quote_identifier(facts.role) + " REPLICATION");
  }
  if (facts.encoding == "SQL_ASCII") {
    return fail(ErrorKind::configuration,
                "database \"" + facts.database +
                    "\" has encoding SQL_ASCII, its text may be of any encoding",
                "move the outbox to a database made with ENCODING 'UTF8' TEMPLATE template0");
  }
  return {};
}

Result<> check_synchronous(const Case& known) {
  const std::string name = walsender_application_name(known.source.slot);
  const std::string& names = known.facts.synchronous_standby_names;
  if (!counts_as_synchronous(names, name)) {
    return {};
  }
  return fail(synchronous_error(name, names));
}

Error synchronous_error(const std::string& application_name, const std::string& setting) {
  return Error{ErrorKind::configuration,
               "synchronous_standby_names = '" + setting + "' counts the relay (application_name " +
                   application_name +
                   ") as a synchronous standby: an outage of Kafka would hang every commit",
               "name the real standbys only, ALTER SYSTEM SET synchronous_standby_names = "
               "'FIRST 1 (standby_1, standby_2)'; SELECT pg_reload_conf() (an empty list if there "
               "are none), and start the relay again",
               {}};
}

Result<> check_slot(const Case& known) {
  if (known.facts.slot) {
    OUTRIDER_TRY(check_slot_fit(*known.facts.slot, known));
    return check_slot_health(*known.facts.slot, known);
  }
  if (!known.source.create_slot) {
    const char* plugin = known.source.plugin == PluginChoice::wal2json ? "wal2json" : "pgoutput";
    return fail(ErrorKind::configuration,
                "replication slot \"" + known.source.slot + "\" does not exist",
                "set source.create_slot: true, run outrider init, or run SELECT "
                "pg_create_logical_replication_slot(" +
                    quote_literal(known.source.slot) + ", '" + plugin +
                    "'); a new slot sees only what is committed after it was made");
  }
  return {};
}

Result<> check_capacity(const Case& known) {
  const ServerFacts& facts = known.facts;
  if (!facts.slot && facts.slots_used >= facts.slots_max) {
    return fail(ErrorKind::configuration,
                "all " + std::to_string(facts.slots_max) +
                    " replication slots are in use (max_replication_slots)",
                "drop one that nobody needs (SELECT slot_name, active FROM pg_replication_slots), "
                "or run ALTER SYSTEM SET max_replication_slots = " +
                    std::to_string(facts.slots_max + 4) + " and restart PostgreSQL",
                "53400");
  }
  if (facts.senders_used >= facts.senders_max) {
    return fail(
        ErrorKind::transient,
        "all " + std::to_string(facts.senders_max) + " walsenders are in use (max_wal_senders)",
        "wait for one to become free, or run ALTER SYSTEM SET max_wal_senders = " +
            std::to_string(facts.senders_max + 4) + " and restart PostgreSQL",
        "53300");
  }
  return {};
}

void add_warnings(const Case& known, StartPlan& plan) {
  const ServerFacts& facts = known.facts;
  if (facts.max_slot_wal_keep_mb < 0) {
    plan.warnings.push_back(
        "max_slot_wal_keep_size is unlimited: while the relay is down its slot keeps WAL until the "
        "disk is full; set a limit above the longest outage you want to survive");
  }
  if (facts.slot && facts.slot->wal_status == "unreserved") {
    plan.warnings.push_back("replication slot \"" + known.source.slot +
                            "\" is about to be invalidated: its WAL is beyond "
                            "max_slot_wal_keep_size and goes with the next checkpoint");
  }
  if (!facts.idle_slot_timeout.empty() && facts.idle_slot_timeout != "0") {
    plan.warnings.push_back(
        "idle_replication_slot_timeout is set: a relay that is stopped for longer loses its slot");
  }
  plan.wal_sender_timeout_ms = known.source.wal_sender_timeout_ms != 0
                                   ? known.source.wal_sender_timeout_ms
                                   : facts.wal_sender_timeout_ms;
  if (known.source.wal_sender_timeout_ms == 0) {
    if (facts.wal_sender_timeout_ms == 0) {
      plan.warnings.push_back(
          "wal_sender_timeout is 0: the server never notices that a relay is gone without goodbye "
          "and keeps the slot busy; set source.wal_sender_timeout_ms");
    }
  } else if (facts.wal_sender_timeout_ms > 0 &&
             facts.wal_sender_timeout_ms < known.source.wal_sender_timeout_ms) {
    plan.warnings.push_back("wal_sender_timeout of the server (" +
                            std::to_string(facts.wal_sender_timeout_ms) +
                            " ms) is shorter than source.wal_sender_timeout_ms (" +
                            std::to_string(known.source.wal_sender_timeout_ms) +
                            " ms), which the relay's session uses instead");
  }
  if (facts.in_recovery) {
    plan.warnings.push_back(
        "server is a standby: the slot is lost to the relay when it conflicts "
        "with recovery, and nothing can be created there but slots");
  }
}

}  // namespace outrider
