// Commands of the replication connection, what is asked about it, and the name our walsender
// carries.
#include "postgres/preflight.h"
#include "postgres/sql_text.h"

namespace outrider {

namespace {

constexpr std::size_t kNameBytesMax = 63;  // NAMEDATALEN - 1: the server cuts what is longer.
constexpr int kOptionListServer = 150000;

}  // namespace

std::string start_replication_sql(const std::string& slot, Lsn from, const StartPlan& plan) {
  std::string sql =
      "START_REPLICATION SLOT " + quote_always(slot) + " LOGICAL " + from.to_string() + " (";
  bool first = true;
  for (const auto& [name, value] : plan.plugin_options) {
    sql += (first ? "" : ", ") + quote_always(name) + " " + quote_replication_literal(value);
    first = false;
  }
  return sql + ")";
}

std::string create_slot_sql(const std::string& slot, const StartPlan& plan, bool temporary) {
  return "CREATE_REPLICATION_SLOT " + quote_always(slot) + (temporary ? " TEMPORARY" : "") +
         " LOGICAL " + quote_always(to_string(plan.plugin)) +
         (plan.server_version_num >= kOptionListServer ? " (SNAPSHOT 'nothing')"
                                                       : " NOEXPORT_SNAPSHOT");
}

std::string blockers_sql(int pid) {
  return "SELECT a.pid, a.usename, a.application_name, a.state, a.xact_start "
         "FROM pg_catalog.pg_stat_activity a WHERE a.pid = ANY (pg_catalog.pg_blocking_pids(" +
         std::to_string(pid) + "))";
}

std::string holder_sql(const std::string& slot, std::int64_t evict_after_ms) {
  std::string columns = "s.active, s.active_pid";
  std::string from = "pg_catalog.pg_replication_slots s";
  if (evict_after_ms != 0) {
    columns += ", h.silent_ms, CASE WHEN h.silent_ms >= " + std::to_string(evict_after_ms) +
               " THEN pg_catalog.pg_terminate_backend(s.active_pid) END AS evicted";
    from +=
        " LEFT JOIN (SELECT r.pid, (EXTRACT(EPOCH FROM pg_catalog.clock_timestamp() - "
        "r.reply_time) * 1000)::bigint AS silent_ms FROM pg_catalog.pg_stat_replication r) h "
        "ON h.pid = s.active_pid";
  }
  return "SELECT " + columns + " FROM " + from + " WHERE s.slot_name = " + quote_literal(slot);
}

std::string walsender_application_name(const std::string& slot) {
  return ("outrider_" + slot).substr(0, kNameBytesMax);
}

}  // namespace outrider
