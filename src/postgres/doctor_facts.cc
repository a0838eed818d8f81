#include "postgres/doctor_facts.h"

#include <set>
#include <string_view>

#include "postgres/sql_text.h"

namespace outrider {
namespace {

constexpr int kHasFailover = 170000;

}  // namespace

std::string doctor_server_statement() {
  return "SELECT pg_catalog.current_setting('server_version') AS version, "
         "(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint AS clock_ms, "
         "coalesce((SELECT ssl FROM pg_catalog.pg_stat_ssl WHERE pid = "
         "pg_catalog.pg_backend_pid()), false) AS tls, "
         "(SELECT setting FROM pg_catalog.pg_settings WHERE name = 'max_wal_size') "
         "AS max_wal_size_mb, w.wal_bytes::bigint AS wal_bytes, "
         "extract(epoch FROM pg_catalog.now() - w.stats_reset)::bigint AS wal_seconds, "
         "(SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots "
         "WHERE slot_type = 'physical') AS physical_slots, "
         "pg_catalog.pg_has_role(CURRENT_USER, 'pg_read_all_settings', 'USAGE') "
         "AS sees_all_settings FROM pg_catalog.pg_stat_wal w";
}

void take_doctor_server(const QueryResult& rows, DoctorFacts& facts) {
  if (rows.rows.empty()) {
    return;
  }
  facts.version = rows.text(0, "version");
  facts.clock_ms = rows.number(0, "clock_ms").value_or(0);
  facts.tls = rows.text(0, "tls") == "t";
  facts.max_wal_size_mb = rows.number(0, "max_wal_size_mb").value_or(0);
  facts.wal_bytes = rows.number(0, "wal_bytes").value_or(0);
  facts.wal_seconds = rows.number(0, "wal_seconds").value_or(0);
  facts.physical_slots = rows.number(0, "physical_slots").value_or(0);
  facts.sees_all_settings = rows.text(0, "sees_all_settings") == "t";
}

// The name of another role's session is hidden from a plain role (manual, "pg_stat_activity").
std::string doctor_slot_statement(int version_num, const std::string& slot) {
  const std::string end = kWalEndSql;
  return "SELECT pg_catalog.pg_wal_lsn_diff(" + end +
         ", s.restart_lsn)::bigint AS retained_bytes, pg_catalog.pg_wal_lsn_diff(" + end +
         ", s.confirmed_flush_lsn)::bigint AS unconfirmed_bytes, "
         "s.safe_wal_size AS safe_wal_bytes, " +
         (version_num >= kHasFailover ? "s.failover" : "false") +
         " AS failover, r.application_name AS holder, r.sync_state "
         "FROM pg_catalog.pg_replication_slots s "
         "LEFT JOIN pg_catalog.pg_stat_replication r ON r.pid = s.active_pid "
         "WHERE s.slot_name = " +
         quote_literal(slot);
}

void take_doctor_slot(const QueryResult& rows, DoctorFacts& facts) {
  if (rows.rows.empty()) {
    return;
  }
  facts.retained_bytes = rows.number(0, "retained_bytes").value_or(0);
  facts.unconfirmed_bytes = rows.number(0, "unconfirmed_bytes").value_or(0);
  facts.safe_wal_bytes = rows.number(0, "safe_wal_bytes");
  facts.failover = rows.text(0, "failover") == "t";
  facts.holder_application = rows.text(0, "holder");
  facts.holder_sync_state = rows.text(0, "sync_state");
}

// Pages as the last vacuum or analyze counted them: the functions that measure a table lock it.
std::string doctor_tables_statement(const std::vector<QualifiedName>& tables) {
  std::vector<std::string> wanted;
  for (const QualifiedName& table : tables) {
    wanted.push_back("(n.nspname = " + quote_literal(table.schema) +
                     " AND c.relname = " + quote_literal(table.table) + ")");
  }
  return "SELECT n.nspname, c.relname, c.relkind = 'p' AS partitioned, u.rows, u.bytes, u.deleted "
         "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
         "CROSS JOIN LATERAL (SELECT pg_catalog.sum(coalesce(s.n_live_tup, 0))::bigint AS rows, "
         "pg_catalog.sum(l.relpages::bigint * 8192)::bigint AS bytes, "
         "pg_catalog.sum(coalesce(s.n_tup_del, 0))::bigint AS deleted "
         "FROM (SELECT c.oid AS relid UNION SELECT t.relid::oid FROM "
         "pg_catalog.pg_partition_tree(c.oid) t) x JOIN pg_catalog.pg_class l ON l.oid = x.relid "
         "LEFT JOIN pg_catalog.pg_stat_all_tables s ON s.relid = x.relid) u "
         "WHERE c.relkind IN ('r', 'p') AND (" +
         join(wanted, " OR ") + ") ORDER BY 1, 2";
}

void take_doctor_tables(const QueryResult& rows, DoctorFacts& facts) {
  facts.tables.clear();
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    TableUse use;
    use.name = {rows.text(row, "nspname"), rows.text(row, "relname")};
    use.partitioned = rows.text(row, "partitioned") == "t";
    use.rows = rows.number(row, "rows").value_or(0);
    use.bytes = rows.number(row, "bytes").value_or(0);
    use.deleted = rows.number(row, "deleted").value_or(0);
    facts.tables.push_back(std::move(use));
  }
}

std::string dead_letter_columns_statement() {
  return "SELECT c.relname, a.attname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
         "ON n.oid = c.relnamespace JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid "
         "WHERE n.nspname = 'outrider' AND c.relname IN ('dead_letters', 'outbox_dead_letters') "
         "AND a.attnum > 0 AND NOT a.attisdropped";
}

DeadLetterColumns read_dead_letter_columns(const QueryResult& rows) {
  DeadLetterColumns found;
  std::set<std::string> there;
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    if (rows.text(row, "relname") == "dead_letters") {
      there.insert(rows.text(row, "attname"));
    } else {
      found.has_view = true;
    }
  }
  for (const std::string& name : dead_letter_column_names()) {
    if (there.count(name) == 0) {
      found.missing.push_back(name);
    }
  }
  return found;
}

const std::vector<std::string>& dead_letter_column_names() {
  static const std::vector<std::string> names = {
      "number",       "system_id",     "slot",          "commit_lsn",   "index_in_transaction",
      "commit_time",  "xid",           "table_name",    "event_id",     "event_type",
      "aggregate_id", "mapped",        "topic",         "partition",    "key",
      "payload",      "header_names",  "header_values", "timestamp_ms", "raw_row",
      "bytes",        "reason",        "code",          "message",      "parked_key",
      "attempts",     "first_failure", "last_failure",  "retry_after",  "last_outcome"};
  return names;
}

}  // namespace outrider
