// Checks 1 to 22: the configuration, the PostgreSQL server and its settings.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "app/doctor_check.h"
#include "app/doctor_input.h"
#include "outrider/route/outbox_layout.h"
#include "postgres/sql_text.h"

namespace outrider {
namespace {

constexpr char kNoServer[] = "not looked at: the server was not reached (10)";
constexpr std::int64_t kClockToleranceMs = 2'000;
constexpr std::int64_t kKeepSmallMb = 1'024;
constexpr std::int64_t kKeepAdvisedGb = 10;
constexpr std::int64_t kSenderTimeoutLongMs = 300'000;
constexpr int kHasIdleTimeout = 180000;

Outcome from(const Result<>& judged, std::string found) {
  return judged ? passed(std::move(found)) : failed(judged.error());
}

// Configuration --------------------------------------------------------------------------------

Outcome configuration(const DoctorInput& in) {
  if (in.config_problems.empty()) {
    return passed("understood, secrets included");
  }
  Outcome outcome{Verdict::fail, {}};
  for (const Error& problem : in.config_problems) {
    outcome.found += (outcome.found.empty() ? "" : "; ") + problem.message;
    if (outcome.fix.note.empty()) {
      outcome.fix.note = problem.hint;
    }
  }
  return outcome;
}

Outcome commands(const DoctorInput& in) {
  if (!in.control_socket.empty()) {
    return passed("control.socket is " + in.control_socket);
  }
  return {Verdict::warn,
          "control.socket is not set: nobody can ask a running relay, pause it or send dead "
          "letters again",
          {FixKind::config, "control.socket: /run/outrider/" + in.pipeline.name + ".sock",
           "the folder has to exist and to belong to the relay's user"}};
}

Outcome endpoint(const DoctorInput& in) {
  if (!in.http_listen.empty()) {
    return passed("http.listen is " + in.http_listen);
  }
  return {Verdict::warn,
          "http.listen is empty: no health probes, no metrics, hence no alerts on backlog, age and "
          "dead letters",
          {FixKind::config, "http.listen: 127.0.0.1:9640", {}}};
}

Outcome row_faults(const DoctorInput& in) {
  switch (in.pipeline.dead_letters.on_poison) {
    case OnPoison::dead_letter:
      return passed("a row at fault becomes a dead letter, the others go on");
    case OnPoison::park_key:
      return passed("a row at fault parks its key, the others go on");
    case OnPoison::stop:
      break;
  }
  return {
      Verdict::warn,
      "dead_letters.on_poison is stop: one row at fault ends the relay for all the others",
      {FixKind::config, "pipelines." + in.pipeline.name + ".dead_letters.on_poison: dead_letter",
       "keep stop only if no row may ever be passed over"}};
}

// Server ---------------------------------------------------------------------------------------

std::string value_of(const DoctorInput& in, const char* name, const char* otherwise) {
  const auto at = in.connection.find(name);
  return at == in.connection.end() || at->second.empty() ? otherwise : at->second;
}

std::string first_of(const std::string& list) { return list.substr(0, list.find(',')); }

std::string where(const DoctorInput& in) {
  return first_of(value_of(in, "host", "localhost")) + ":" + first_of(value_of(in, "port", "5432"));
}

/// What the server shows as its certificate, into the file that has the wrong one.
Fix fetch_certificate(const DoctorInput& in) {
  const std::string file = value_of(in, "sslrootcert", "~/.postgresql/root.crt");
  return {FixKind::shell,
          "openssl s_client -starttls postgres -connect " + where(in) +
              " </dev/null 2>/dev/null | openssl x509 -out " + file,
          "right for a self-signed certificate only, and only after its administrator has "
          "confirmed the fingerprint (openssl x509 -noout -sha256 -fingerprint -in " +
              file +
              "); where a CA signed it, put the certificate of that CA into the file instead"};
}

Outcome reachable(const DoctorInput& in) {
  if (!in.server_fault) {
    return passed("PostgreSQL " + in.more.version + " at " + where(in) + ", database \"" +
                  in.server.database + "\", role \"" + in.server.role + "\", " +
                  (in.more.tls ? "TLS" : "without TLS"));
  }
  Outcome outcome = failed(*in.server_fault);
  if (in.server_fault->message.find("certificate verify failed") != std::string::npos) {
    outcome.fix = fetch_certificate(in);
  } else if (outcome.fix.note.empty()) {
    outcome.fix.note = "check host and port in source.dsn, that the server runs, and the network";
  }
  return outcome;
}

Outcome version(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  const int major = in.server.version_num / 10000;
  if (major < 14) {
    return {Verdict::fail,
            "PostgreSQL " + std::to_string(major) + " is too old",
            {FixKind::none, {}, "use PostgreSQL 14 or later"}};
  }
  if (major > 18) {
    return {Verdict::warn,
            "PostgreSQL " + std::to_string(major) + " is newer than what Outrider was tested with",
            {FixKind::none, {}, "try it with a database of your own first"}};
  }
  return passed("PostgreSQL " + std::to_string(major));
}

Outcome wal_level(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  Outcome outcome = from(check_wal_level(in.server), "logical");
  if (outcome.verdict == Verdict::fail) {
    outcome.fix.note = "restart PostgreSQL afterwards";
  }
  return outcome;
}

Outcome role(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  const std::string name = "role \"" + in.server.role + "\"";
  if (!in.server.may_replicate) {
    Fix fix{FixKind::sql, "ALTER ROLE " + quote_identifier(in.server.role) + " REPLICATION", {}};
    if (in.server.lends_replication) {
      fix.text = "GRANT rds_replication TO " + quote_identifier(in.server.role);
    }
    return {Verdict::fail, name + " lacks the REPLICATION attribute", std::move(fix)};
  }
  if (in.server.is_superuser) {
    return {Verdict::warn,
            name + " is a superuser: the relay needs LOGIN and REPLICATION, nothing else",
            {FixKind::none, {}, "make a role with outrider init, and name it in source.dsn"}};
  }
  return passed(name + " may log in and replicate");
}

Outcome walsender(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  if (!in.walsender_asked) return skipped("not looked at: the role may not replicate (13)");
  if (!in.walsender_fault) return passed("opened, and closed again");
  Outcome outcome = failed(*in.walsender_fault);
  if (outcome.fix.note.empty() && outcome.fix.text.empty()) {
    outcome.fix.note = "see what pg_hba.conf says of this database, this role and this machine";
  }
  return outcome;
}

Outcome senders(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  const std::int64_t most = in.server.senders_max;
  const std::string used = std::to_string(in.server.senders_used) + " of " + std::to_string(most) +
                           " walsenders are in use";
  if (in.server.senders_used < most) return passed(used);
  return {Verdict::fail,
          used + " (max_wal_senders)",
          {FixKind::sql, "ALTER SYSTEM SET max_wal_senders = " + std::to_string(most + 4),
           "restart PostgreSQL afterwards"}};
}

Outcome slots(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  const std::int64_t most = in.server.slots_max;
  const std::string used = std::to_string(in.server.slots_used) + " of " + std::to_string(most) +
                           " replication slots are in use";
  if (in.server.slot || in.server.slots_used < most) return passed(used);
  return {Verdict::fail,
          used + " (max_replication_slots)",
          {FixKind::sql, "ALTER SYSTEM SET max_replication_slots = " + std::to_string(most + 4),
           "restart PostgreSQL afterwards, or drop a slot that nobody needs"}};
}

Outcome synchronous(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  const std::string& names = in.server.synchronous_standby_names;
  const std::string& state = in.more.holder_sync_state;
  if (auto judged = check_synchronous(in.known()); !judged) return failed(judged.error());
  if (state == "sync" || state == "quorum" || state == "potential") {
    return failed(synchronous_error(in.more.holder_application, names));
  }
  return passed(names.empty() ? "synchronous_standby_names is empty"
                              : "synchronous_standby_names does not count the relay" +
                                    (state.empty() ? "" : ", sync_state is " + state));
}

Outcome database(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  if (in.server.encoding == "SQL_ASCII") {
    return {Verdict::fail,
            "database \"" + in.server.database +
                "\" has encoding SQL_ASCII, its text may be of any encoding",
            {FixKind::none,
             {},
             "move the outbox to a database made with ENCODING 'UTF8' TEMPLATE template0"}};
  }
  if (in.server.in_recovery) {
    if (in.server.version_num < 160000) {
      return {Verdict::fail,
              "the server is a standby, PostgreSQL before 16 cannot decode there",
              {FixKind::none,
               {},
               "point source.dsn at the primary: list all hosts, with "
               "target_session_attrs=read-write"}};
    }
    return {Verdict::warn,
            "the server is a standby: the slot is lost when it conflicts with recovery",
            {FixKind::none, {}, "set hot_standby_feedback = on and primary_slot_name there"}};
  }
  return passed("encoding " + in.server.encoding + ", a primary");
}

Outcome clock_difference(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  const std::int64_t ahead = in.clock_ahead_ms;
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "the server's clock is %.1f s %s this machine's",
                static_cast<double>(std::abs(ahead)) / 1000, ahead >= 0 ? "ahead of" : "behind");
  if (std::abs(ahead) <= kClockToleranceMs) return passed(text.data());
  return {Verdict::warn,
          std::string(text.data()) + ": ages, latencies and record times are wrong by that much",
          {FixKind::shell, "timedatectl set-ntp true", "on both machines"}};
}

// Settings -------------------------------------------------------------------------------------

/// "at 12 MB an hour, the average so far, that lasts 3.5 hours"; empty if nothing is known.
std::string lasting(const DoctorInput& in, std::int64_t keep_bytes) {
  constexpr std::int64_t kKnownSeconds = 600;
  if (in.more.wal_seconds < kKnownSeconds || in.more.wal_bytes <= 0) return {};
  const double hourly =
      static_cast<double>(in.more.wal_bytes) * 3600 / static_cast<double>(in.more.wal_seconds);
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "; at %s an hour, the average so far, that is %.1f hours",
                size_text(std::llround(hourly)).c_str(), static_cast<double>(keep_bytes) / hourly);
  return text.data();
}

Outcome keep_size(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  const std::int64_t keep = in.server.max_slot_wal_keep_mb;
  const std::int64_t advised_mb = std::max(kKeepAdvisedGb * 1'024, 4 * in.more.max_wal_size_mb);
  const Fix fix{FixKind::sql,
                "ALTER SYSTEM SET max_slot_wal_keep_size = '" + std::to_string(advised_mb / 1'024) +
                    "GB'; SELECT pg_reload_conf()",
                "choose a limit above the WAL of the longest outage you want to survive, and with "
                "room for it on the disk"};
  if (keep < 0) {
    return {Verdict::warn,
            "max_slot_wal_keep_size is unlimited: no outage loses the slot, but one that is long "
            "enough fills the disk and stops the database",
            fix};
  }
  const std::string size = size_text(keep * 1'024 * 1'024);
  const std::string told = "max_slot_wal_keep_size is " + size + lasting(in, keep * 1'024 * 1'024);
  if (keep < std::max(kKeepSmallMb, in.more.max_wal_size_mb)) {
    return {Verdict::warn,
            told +
                ": small; the disk is safe, but an outage that writes more than that loses the "
                "slot and the events in it",
            fix};
  }
  return passed(told);
}

Outcome idle_timeout(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  if (in.server.version_num < kHasIdleTimeout) {
    return skipped("idle_replication_slot_timeout came with PostgreSQL 18");
  }
  if (in.server.idle_slot_timeout.empty() || in.server.idle_slot_timeout == "0") {
    return passed("idle_replication_slot_timeout is off");
  }
  return {Verdict::warn,
          "idle_replication_slot_timeout is " + in.server.idle_slot_timeout +
              ": a relay that is stopped for longer loses its slot",
          {FixKind::sql,
           "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT "
           "pg_reload_conf()",
           {}}};
}

Outcome sender_timeout(const DoctorInput& in) {
  if (!in.has_server()) return skipped(kNoServer);
  const std::int64_t own = in.pipeline.source.wal_sender_timeout_ms;
  const std::int64_t timeout = own > 0 ? own : in.server.wal_sender_timeout_ms;
  const std::string told = "a relay that is gone without goodbye is noticed after " +
                           std::to_string(timeout / 1'000) + " s (" +
                           (own > 0 ? "source.wal_sender_timeout_ms" : "wal_sender_timeout") + ")";
  const Fix fix{FixKind::config,
                "pipelines." + in.pipeline.name + ".source.wal_sender_timeout_ms: 30000",
                {}};
  if (timeout == 0) {
    return {Verdict::warn,
            "wal_sender_timeout is 0: the server never notices that a relay is gone without "
            "goodbye, and a standby never gets the slot",
            fix};
  }
  if (timeout > kSenderTimeoutLongMs) {
    return {Verdict::warn, told + ": so long a standby waits for the slot", fix};
  }
  return passed(told);
}

constexpr char kConfiguration[] = "Configuration";
constexpr char kServer[] = "PostgreSQL server";
constexpr char kSettings[] = "PostgreSQL settings";

constexpr std::array kConfigurationRows = {
    CheckRow{1, kConfiguration, "configuration", configuration},
    CheckRow{2, kConfiguration, "commands to the relay", commands},
    CheckRow{3, kConfiguration, "health and metrics", endpoint},
    CheckRow{4, kConfiguration, "rows at fault", row_faults},
};

constexpr std::array kServerRows = {
    CheckRow{10, kServer, "server reachable", reachable},
    CheckRow{11, kServer, "server version", version},
    CheckRow{12, kServer, "wal_level", wal_level},
    CheckRow{13, kServer, "role", role},
    CheckRow{14, kServer, "replication connection", walsender},
    CheckRow{15, kServer, "room for a walsender", senders},
    CheckRow{16, kServer, "room for a slot", slots},
    CheckRow{17, kServer, "not a synchronous standby", synchronous},
    CheckRow{18, kServer, "database", database},
    CheckRow{19, kServer, "clock", clock_difference},
    CheckRow{20, kSettings, "max_slot_wal_keep_size", keep_size},
    CheckRow{21, kSettings, "idle slot timeout", idle_timeout},
    CheckRow{22, kSettings, "wal_sender_timeout", sender_timeout},
};

}  // namespace

std::span<const CheckRow> configuration_checks() { return kConfigurationRows; }
std::span<const CheckRow> server_checks() { return kServerRows; }

}  // namespace outrider
