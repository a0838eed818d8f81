// Checks 30 to 51: the slot, its plugin, publication, outbox tables and the place of dead letters.
#include <algorithm>
#include <array>
#include <utility>

#include "app/doctor_check.h"
#include "app/doctor_input.h"
#include "app/pipeline.h"
#include "outrider/route/outbox_layout.h"
#include "postgres/dead_letter_facts.h"
#include "postgres/dead_letter_schema.h"
#include "postgres/sql_text.h"

namespace outrider {
namespace {

constexpr char kNoServer[] = "not looked at: the server was not reached (10)";
constexpr char kNoSlot[] = "there is no slot yet (30)";
constexpr int kHasFailover = 170000;
constexpr std::int64_t kManyRows = 100'000;

std::string slot_name(const DoctorInput& in) { return "slot \"" + in.pipeline.source.slot + "\""; }

std::string drop_sql(const DoctorInput& in) {
  return "SELECT pg_drop_replication_slot(" + quote_literal(in.pipeline.source.slot) + ")";
}

/// The tables that are there and can be read; a fault of one does not hide the others.
std::vector<OutboxTable> good_tables(const DoctorInput& in, std::vector<Error>* faults) {
  std::vector<OutboxTable> tables;
  for (const QualifiedName& name : in.wanted) {
    const std::vector<QualifiedName> one = {name};
    auto judged =
        check_tables({in.server, in.pipeline.source, in.pipeline.outbox, in.pipeline.route, one});
    if (judged) {
      tables.insert(tables.end(), judged->begin(), judged->end());
    } else if (faults != nullptr) {
      faults->push_back(judged.error());
    }
  }
  return tables;
}

/// The plugin of the slot, or the one a new slot would get; its fault if it cannot be used.
std::pair<StartPlan, std::optional<Error>> plugin_plan(const DoctorInput& in) {
  StartPlan plan;
  auto chosen = choose_plugin(in.known(), good_tables(in, nullptr), std::nullopt, plan);
  return {plan, chosen ? std::nullopt : std::optional(chosen.error())};
}

std::string create_sql(const DoctorInput& in, Plugin plugin) {
  const bool failover = in.more.failover;
  return "SELECT pg_create_logical_replication_slot(" + quote_literal(in.pipeline.source.slot) +
         ", " + quote_literal(to_string(plugin)) + (failover ? ", false, false, true)" : ")");
}

// Slot -----------------------------------------------------------------------------------------

Outcome slot_exists(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  if (in.server.slot) {
    return passed(slot_name(in) + ", confirmed up to " +
                  in.server.slot->confirmed_flush_lsn.to_string());
  }
  if (in.pipeline.source.create_slot) {
    return passed(slot_name(in) + " is not there and is made at the start");
  }
  return {Verdict::fail,
          slot_name(in) + " does not exist",
          {FixKind::sql, create_sql(in, plugin_plan(in).first.plugin),
           "a new slot sees only what is committed after it was made; if there was one before, see "
           "docs/OPERATIONS.md on a slot that is lost"}};
}

Outcome slot_fits(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  if (!in.server.slot) return skipped(kNoSlot);
  // The rules look at the health after the fit; this is about the first half.
  ServerFacts healthy = in.server;
  healthy.slot->wal_status = "reserved";
  healthy.slot->invalidation_reason.clear();
  healthy.slot->synced = healthy.slot->temporary = false;
  healthy.slot->active = true;
  const Case known{healthy, in.pipeline.source, in.pipeline.outbox, in.pipeline.route, in.wanted};
  if (auto judged = check_slot(known); !judged) return failed(judged.error());
  return passed("logical, plugin " + in.server.slot->plugin + ", database \"" +
                in.server.slot->database + "\"");
}

Outcome slot_free(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  if (!in.server.slot) return skipped(kNoSlot);
  const SlotFacts& slot = *in.server.slot;
  if (!slot.active) return passed("nobody reads it at the moment");
  const std::string holder = "process " + std::to_string(slot.active_pid);
  if (in.more.holder_application == walsender_application_name(in.pipeline.source.slot)) {
    return passed("held by a relay (" + holder + "); another one waits as its standby");
  }
  const std::string who = in.more.holder_application.empty()
                              ? "another role"
                              : "\"" + in.more.holder_application + "\"";
  return {Verdict::fail,
          slot_name(in) + " is in use by " + who + " (" + holder + "), which is no relay of it",
          {FixKind::sql, "SELECT pg_terminate_backend(" + std::to_string(slot.active_pid) + ")",
           "stop that reader for good, or it comes back; if it is meant to stay, choose another "
           "source.slot"}};
}

Outcome slot_health(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  if (!in.server.slot) return skipped(kNoSlot);
  const SlotFacts& slot = *in.server.slot;
  std::string told = "wal_status " + slot.wal_status + ", keeps " +
                     size_text(in.more.retained_bytes) + " of WAL, " +
                     size_text(in.more.unconfirmed_bytes) + " of it not confirmed";
  if (slot.wal_status == "lost" || !slot.invalidation_reason.empty()) {
    ServerFacts facts = in.server;
    facts.slot->synced = facts.slot->temporary = false;
    const Case known{facts, in.pipeline.source, in.pipeline.outbox, in.pipeline.route, in.wanted};
    Outcome outcome{Verdict::fail, slot_name(in) + " was invalidated by the server"};
    if (auto judged = check_slot(known); !judged) outcome.found = judged.error().message;
    const Plugin plugin = slot.plugin == "wal2json" ? Plugin::wal2json : Plugin::pgoutput;
    outcome.fix = {FixKind::sql, drop_sql(in) + "; " + create_sql(in, plugin),
                   "then send what was committed and not relayed again: docs/OPERATIONS.md, \"A "
                   "slot that is lost\""};
    return outcome;
  }
  if (slot.wal_status == "unreserved") {
    return {
        Verdict::warn,
        told + ": the slot is lost with the next checkpoint",
        {FixKind::sql, "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf()",
         "at once, and with room for it on the disk; then let the relay catch up"}};
  }
  if (in.more.safe_wal_bytes)
    told += ", lost after " + size_text(*in.more.safe_wal_bytes) + " more";
  return passed(told);
}

Outcome synced_copy(const StandbyFacts& standby, const DoctorInput& in) {
  const std::string there = slot_name(in) + " on standby \"" + standby.host + "\"";
  if (!standby.slot) {
    return {Verdict::fail,
            there + " is not there: a failover loses it",
            {FixKind::none,
             {},
             "on the standby set sync_replication_slots = on, hot_standby_feedback = on, "
             "primary_slot_name, and a dbname in primary_conninfo"}};
  }
  if (!standby.slot->synced) {
    return {Verdict::fail,
            there + " is a slot of its own and no copy of the primary's",
            {FixKind::none, {}, "on the standby drop it: " + drop_sql(in)}};
  }
  if (standby.slot->temporary) {
    return {Verdict::fail,
            there + " is synced but still temporary: a failover loses it",
            {FixKind::none,
             {},
             "wait until the slot on the primary has moved past the copy's position: write an "
             "event, let the relay confirm it, then run outrider doctor again"}};
  }
  if (standby.slot->wal_status == "lost" || !standby.slot->invalidation_reason.empty()) {
    return {
        Verdict::fail,
        there + " is invalidated",
        {FixKind::none, {}, "on the standby drop it, so that it is copied anew: " + drop_sql(in)}};
  }
  return passed(there + " is synced and not temporary");
}

Outcome failover_slot(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  if (in.server.version_num < kHasFailover) {
    return skipped("failover slots came with PostgreSQL 17");
  }
  if (!in.server.slot) return skipped(kNoSlot);
  if (in.server.in_recovery) {
    return in.server.slot->synced
               ? synced_copy({{}, in.server.version_num, "source.dsn", in.server.slot}, in)
               : skipped("the slot is a standby's own");
  }
  if (in.standby && !in.standby->unreachable && in.more.failover) {
    return synced_copy(*in.standby, in);
  }
  if (in.more.failover) {
    const std::string why =
        in.standby ? in.standby->unreachable->message : "source.dsn names no other host";
    return {Verdict::warn,
            slot_name(in) + " is a failover slot; its copy could not be looked at: " + why,
            {FixKind::none,
             {},
             "name primary and standby in source.dsn, with "
             "target_session_attrs=read-write"}};
  }
  if (in.more.physical_slots == 0 && !in.standby) {
    return skipped("no standby is known, and the slot is no failover slot");
  }
  return {Verdict::warn,
          slot_name(in) + " is no failover slot: the promotion of a standby loses it",
          {FixKind::shell,
           "psql -d 'dbname=" + in.server.database +
               " replication=database' -c 'ALTER_REPLICATION_SLOT " +
               quote_identifier(in.pipeline.source.slot) + " (FAILOVER true)'",
           "with the relay stopped, as a role with REPLICATION, at the primary"}};
}

Outcome plugin_usable(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  const auto [plan, fault] = plugin_plan(in);
  const std::string name = to_string(plan.plugin);
  if (fault) {
    Outcome outcome = failed(*fault);
    if (fault->code == "42501") outcome.fix.note.clear();
    return outcome;
  }
  if (plan.plugin == Plugin::wal2json && !in.server.output_plugin_libraries &&
      !in.more.sees_all_settings) {
    return {Verdict::warn,
            "the role cannot see whether output_plugin_libraries allows wal2json",
            {FixKind::sql, "GRANT pg_read_all_settings TO " + quote_identifier(in.server.role),
             "or run, as a superuser, SHOW output_plugin_libraries: it lists wal2json, or the "
             "server does not know the setting"}};
  }
  return passed(name + ": " + plan.plugin_reason);
}

// Outbox ---------------------------------------------------------------------------------------

Outcome outbox_tables(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  std::vector<Error> faults;
  const std::vector<OutboxTable> tables = good_tables(in, &faults);
  if (faults.empty() && !tables.empty()) {
    std::vector<std::string> names;
    for (const OutboxTable& table : tables) names.push_back(quote_table_name(table.facts->name));
    return passed(join(names, ", ") +
                  ": logged, and has the columns of an event, id and key among them (its replica "
                  "identity does not matter: only inserts are read)");
  }
  if (faults.empty()) {
    return {Verdict::fail,
            "no outbox table is configured",
            {FixKind::none, {}, "set outbox.tables to at least one table"}};
  }
  Outcome outcome = failed(faults.front());
  for (std::size_t i = 1; i < faults.size(); ++i) {
    outcome.found += "; " + faults[i].message;
    const std::string more = sql_of_hint(faults[i].hint);
    if (outcome.fix.kind == FixKind::sql && !more.empty()) outcome.fix.text += "; " + more;
  }
  return outcome;
}

Outcome publication(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  const auto [plan, fault] = plugin_plan(in);
  if (plan.plugin != Plugin::pgoutput) return skipped("wal2json reads no publication");
  const std::vector<OutboxTable> tables = good_tables(in, nullptr);
  if (tables.empty()) return skipped("not looked at: no outbox table is there (40)");
  StartPlan checked;
  if (auto judged = check_publication(in.known(), tables, checked); !judged) {
    return failed(judged.error());
  }
  const std::string name = "publication \"" + in.pipeline.source.publication + "\"";
  if (!in.server.publication) return passed(name + " is not there and is made at the start");
  if (!checked.warnings.empty()) {
    return {
        Verdict::warn, checked.warnings.front(), {FixKind::none, {}, "change it when it suits"}};
  }
  return passed(name + " publishes the inserts of every outbox table");
}

Outcome old_rows(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  std::string told;
  Outcome outcome;
  for (const TableUse& use : in.more.tables) {
    const std::string name = quote_table_name(use.name);
    told += (told.empty() ? "" : "; ") + name + " holds about " + std::to_string(use.rows) +
            " rows, " + size_text(use.bytes);
    if (use.rows < kManyRows || use.deleted > 0 || use.partitioned) continue;
    outcome.verdict = Verdict::warn;
    if (outcome.fix.kind == FixKind::sql) continue;
    outcome.fix = {FixKind::sql,
                   "DELETE FROM " + name + " WHERE created_at < now() - interval '7 days'",
                   "periodically; rows may go as soon as they are committed, the relay reads the "
                   "log. Keep as much as you want to be able to send again"};
  }
  if (told.empty()) return skipped("not looked at: no outbox table is there (40)");
  outcome.found = told;
  if (outcome.verdict == Verdict::warn) outcome.found += ": nothing was ever deleted";
  return outcome;
}

// Dead letters ---------------------------------------------------------------------------------

std::string letter_user(const DoctorInput& in) { return in.letters->facts.text(0, "role"); }

/// What makes the objects that are missing, grants included.
Fix install(const DoctorInput& in) {
  const bool own_dsn = !in.pipeline.dead_letters.dsn.empty();
  const std::string hint = dead_letter_install_hint(in.letters->facts, own_dsn);
  const std::size_t begin = hint.find("psql ");
  const std::size_t end = hint.find(" (or outrider init");
  return {FixKind::shell, hint.substr(begin, end == hint.npos ? end : end - begin),
          "as an administrator; the file comes with Outrider, and outrider init --apply does the "
          "same"};
}

Outcome letter_table(const DoctorInput& in) {
  const bool own_dsn = !in.pipeline.dead_letters.dsn.empty();
  const std::string where = "outrider.dead_letters";
  if (auto judged = judge_dead_letter_facts(in.letters->facts, own_dsn); !judged) {
    Outcome outcome = failed(judged.error());
    const std::string& code = judged.error().code;
    if (code == "42P01" || code == "3F000") {
      outcome.fix = install(in);
    } else if (code == "42501") {
      outcome.fix = {FixKind::sql, dead_letter_grants_sql(letter_user(in)), {}};
    }
    return outcome;
  }
  if (in.letters->version) {
    auto judged = judge_dead_letter_version(*in.letters->version, in.letters->facts, own_dsn);
    if (!judged) return failed(judged.error());
  }
  if (!in.letters->columns.missing.empty()) {
    return {Verdict::fail,
            where + " lacks columns: " + join(in.letters->columns.missing, ", "),
            {FixKind::none,
             {},
             "something else made or changed it: move it away, then make it with outrider init"}};
  }
  return passed(where + " in database \"" + in.letters->facts.text(0, "database") + "\", version " +
                std::to_string(kDeadLetterSchemaVersion) + ", with the grants of role \"" +
                letter_user(in) + "\"");
}

Outcome dead_letter_place(const DoctorInput& in) {
  if (!in.pipeline.dead_letters.topic.empty()) {
    return passed("topic \"" + in.pipeline.dead_letters.topic + "\", see 62 and 63");
  }
  if (!needs_dead_letter_table(in.pipeline.dead_letters)) {
    return skipped("dead_letters.on_poison is stop");
  }
  if (!in.letters) return skipped(kNoServer);
  if (in.letters->unreachable) {
    Outcome outcome = failed(*in.letters->unreachable);
    if (outcome.fix.note.empty()) outcome.fix.note = "check dead_letters.dsn";
    return outcome;
  }
  return letter_table(in);
}

Outcome dead_letter_view(const DoctorInput& in) {
  if (!needs_dead_letter_table(in.pipeline.dead_letters)) {
    return skipped("no dead-letter table is used");
  }
  if (!in.letters) return skipped(kNoServer);
  if (in.letters->unreachable || in.letters->facts.text(0, "has_table") != "t") {
    return skipped("not looked at: the dead-letter table is not there (50)");
  }
  if (in.letters->columns.has_view) return passed("outrider.outbox_dead_letters");
  return {
      Verdict::warn,
      "view outrider.outbox_dead_letters is not there: nobody can look at dead letters with SQL",
      install(in)};
}

constexpr char kSlot[] = "Replication slot";
constexpr char kOutbox[] = "Outbox";
constexpr char kLetters[] = "Dead letters";

constexpr std::array kSlotRows = {
    CheckRow{30, kSlot, "slot exists", slot_exists},
    CheckRow{31, kSlot, "slot fits", slot_fits},
    CheckRow{32, kSlot, "slot is free", slot_free},
    CheckRow{33, kSlot, "slot is healthy", slot_health},
    CheckRow{34, kSlot, "failover slot", failover_slot},
    CheckRow{35, kSlot, "output plugin", plugin_usable},
};

constexpr std::array kOutboxRows = {
    CheckRow{40, kOutbox, "outbox tables", outbox_tables},
    CheckRow{41, kOutbox, "publication", publication},
    CheckRow{42, kOutbox, "old rows are removed", old_rows},
    CheckRow{50, kLetters, "dead-letter place", dead_letter_place},
    CheckRow{51, kLetters, "dead-letter view", dead_letter_view},
};

}  // namespace

std::span<const CheckRow> slot_checks() { return kSlotRows; }
std::span<const CheckRow> outbox_checks() { return kOutboxRows; }

}  // namespace outrider
