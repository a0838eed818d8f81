#include "postgres/server_facts.h"

#include <charconv>
#include <string_view>

#include "postgres/sql_text.h"

namespace outrider {

namespace {

bool flag(const QueryResult& rows, std::size_t row, std::string_view name) {
  return rows.text(row, name) == "t";
}

template <typename T = std::int64_t>
T number(const QueryResult& rows, std::size_t row, std::string_view name, T otherwise = 0) {
  const std::string text = rows.text(row, name);
  T value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

char letter(const QueryResult& rows, std::size_t row, std::string_view name) {
  const std::string text = rows.text(row, name);
  return text.empty() ? '\0' : text.front();
}

std::string setting(std::string_view name) {
  return "(SELECT setting FROM pg_catalog.pg_settings WHERE name = " + quote_literal(name) + ")";
}

TableFacts* find_by_oid(ServerFacts& facts, const std::string& oid) {
  for (TableFacts& table : facts.tables) {
    if (table.oid == oid) {
      return &table;
    }
  }
  return nullptr;
}

}  // namespace

// output_plugin_libraries is shown to members of pg_read_all_settings only, and current_setting()
// would fail for the others; pg_settings just hides the row. rds_replication stands in for the
// REPLICATION attribute where a hosted service does not give that away.
std::string server_statement(const std::string& own_application_name) {
  return "SELECT pg_catalog.current_setting('server_version_num') AS version_num, " +
         setting("wal_level") + " AS wal_level, " + setting("max_replication_slots") +
         " AS slots_max, "
         "(SELECT pg_catalog.count(*) FROM pg_catalog.pg_replication_slots) AS slots_used, " +
         setting("max_wal_senders") +
         " AS senders_max, "
         "(SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_replication"
         " WHERE application_name IS DISTINCT FROM " +
         quote_literal(own_application_name) +
         ") AS senders_used, "
         "pg_catalog.pg_is_in_recovery() AS in_recovery, "
         "pg_catalog.current_database() AS database, " +
         setting("server_encoding") +
         " AS encoding, r.rolname AS role, "
         "(r.rolsuper OR r.rolreplication OR EXISTS (SELECT 1 FROM pg_catalog.pg_roles h"
         " WHERE h.rolname = 'rds_replication' AND pg_catalog.pg_has_role(r.oid, h.oid, 'USAGE')))"
         " AS may_replicate, "
         "r.rolsuper AS is_superuser, r.rolcreaterole AS may_create_role, "
         "EXISTS (SELECT 1 FROM pg_catalog.pg_roles h WHERE h.rolname = 'rds_replication')"
         " AS lends_replication, "
         "pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE')"
         " AS may_create_in_database, "
         "pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')"
         " AND pg_catalog.has_function_privilege('pg_catalog.pg_control_checkpoint()', 'EXECUTE')"
         " AS may_read_control, " +
         setting("synchronous_standby_names") + " AS synchronous_standby_names, " +
         setting("output_plugin_libraries") + " AS output_plugin_libraries, " +
         setting("wal_sender_timeout") + " AS wal_sender_timeout_ms, " +
         setting("max_slot_wal_keep_size") + " AS max_slot_wal_keep_mb, " +
         setting("idle_replication_slot_timeout") +
         " AS idle_slot_timeout "
         "FROM pg_catalog.pg_roles r WHERE r.rolname = current_user";
}

void take_server(const QueryResult& rows, ServerFacts& facts) {
  if (rows.rows.empty()) {
    return;
  }
  facts.version_num = number<int>(rows, 0, "version_num");
  facts.wal_level = rows.text(0, "wal_level");
  facts.slots_max = number(rows, 0, "slots_max");
  facts.slots_used = number(rows, 0, "slots_used");
  facts.senders_max = number(rows, 0, "senders_max");
  facts.senders_used = number(rows, 0, "senders_used");
  facts.in_recovery = flag(rows, 0, "in_recovery");
  facts.database = rows.text(0, "database");
  facts.encoding = rows.text(0, "encoding");
  facts.role = rows.text(0, "role");
  facts.may_replicate = flag(rows, 0, "may_replicate");
  facts.is_superuser = flag(rows, 0, "is_superuser");
  facts.may_create_role = flag(rows, 0, "may_create_role");
  facts.lends_replication = flag(rows, 0, "lends_replication");
  facts.may_create_in_database = flag(rows, 0, "may_create_in_database");
  facts.may_read_control = flag(rows, 0, "may_read_control");
  facts.synchronous_standby_names = rows.text(0, "synchronous_standby_names");
  facts.output_plugin_libraries = rows.value(0, "output_plugin_libraries");
  facts.wal_sender_timeout_ms = number(rows, 0, "wal_sender_timeout_ms");
  facts.max_slot_wal_keep_mb = number<std::int64_t>(rows, 0, "max_slot_wal_keep_mb", -1);
  facts.idle_slot_timeout = rows.text(0, "idle_slot_timeout");
}

// The control file's timeline is the last checkpoint's, which lags after a promotion; the name of
// the WAL file being written has the present one.
std::string control_statement() {
  return "SELECT s.system_identifier, CASE WHEN pg_catalog.pg_is_in_recovery()"
         " THEN c.timeline_id::text ELSE (('x' || pg_catalog.substr(pg_catalog.pg_walfile_name("
         "pg_catalog.pg_current_wal_insert_lsn()), 1, 8))::bit(32)::bigint)::text END AS timeline "
         "FROM pg_catalog.pg_control_system() s, pg_catalog.pg_control_checkpoint() c";
}

void take_control(const QueryResult& rows, ServerFacts& facts) {
  if (!rows.rows.empty()) {
    facts.system_identifier = rows.text(0, "system_identifier");
    facts.timeline = number<std::uint32_t>(rows, 0, "timeline");
  }
}

std::string slot_statement(int version_num, const std::string& slot) {
  std::string invalidation = "NULL::text";
  if (version_num >= 170000) {
    invalidation = "invalidation_reason";
  } else if (version_num >= 160000) {
    invalidation = "CASE WHEN conflicting THEN 'conflict with recovery' END";
  }
  return "SELECT plugin, slot_type, database, temporary, active, active_pid, confirmed_flush_lsn, "
         "wal_status, " +
         std::string(kWalEndSql) + " AS server_wal_end, " + invalidation +
         " AS invalidation_reason, " + (version_num >= 170000 ? "synced" : "false") +
         " AS synced FROM pg_catalog.pg_replication_slots WHERE slot_name = " + quote_literal(slot);
}

void take_slot(const QueryResult& rows, ServerFacts& facts) {
  facts.slot.reset();
  if (rows.rows.empty()) {
    return;
  }
  SlotFacts slot;
  slot.plugin = rows.text(0, "plugin");
  slot.type = rows.text(0, "slot_type");
  slot.database = rows.text(0, "database");
  slot.temporary = flag(rows, 0, "temporary");
  slot.active = flag(rows, 0, "active");
  slot.active_pid = number<int>(rows, 0, "active_pid");
  slot.confirmed_flush_lsn = Lsn::parse(rows.text(0, "confirmed_flush_lsn")).value_or(Lsn());
  slot.server_wal_end = Lsn::parse(rows.text(0, "server_wal_end")).value_or(Lsn());
  slot.wal_status = rows.text(0, "wal_status");
  slot.invalidation_reason = rows.text(0, "invalidation_reason");
  slot.synced = flag(rows, 0, "synced");
  facts.slot = slot;
}

std::string publication_statement(const std::string& publication) {
  return "SELECT puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot "
         "FROM pg_catalog.pg_publication WHERE pubname = " +
         quote_literal(publication);
}

void take_publication(const QueryResult& rows, ServerFacts& facts) {
  facts.publication.reset();
  if (rows.rows.empty()) {
    return;
  }
  facts.publication = PublicationFacts{
      .all_tables = flag(rows, 0, "puballtables"),
      .publishes_insert = flag(rows, 0, "pubinsert"),
      .publishes_update = flag(rows, 0, "pubupdate"),
      .publishes_delete = flag(rows, 0, "pubdelete"),
      .publishes_truncate = flag(rows, 0, "pubtruncate"),
      .via_root = flag(rows, 0, "pubviaroot"),
  };
}

// One row a column, so that no array text has to be parsed. The view has already weighed table,
// schema and all-tables members against each other.
std::string published_tables_statement(int version_num, const std::string& publication) {
  const std::string where = " WHERE t.pubname = " + quote_literal(publication);
  if (version_num >= 150000) {
    return "SELECT t.schemaname, t.tablename, t.rowfilter IS NOT NULL AS has_row_filter, "
           "a.column_name FROM pg_catalog.pg_publication_tables t "
           "LEFT JOIN LATERAL pg_catalog.unnest(t.attnames) AS a(column_name) ON true" +
           where;
  }
  return "SELECT t.schemaname, t.tablename, false AS has_row_filter, NULL AS column_name "
         "FROM pg_catalog.pg_publication_tables t" +
         where;
}

void take_published_tables(const QueryResult& rows, ServerFacts& facts) {
  facts.published.clear();
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    PublishedTable& table =
        facts.published[{rows.text(row, "schemaname"), rows.text(row, "tablename")}];
    table.has_row_filter = flag(rows, row, "has_row_filter");
    if (const auto& column = rows.value(row, "column_name")) {
      table.columns_known = true;
      table.columns.push_back(*column);
    }
  }
}

// Near names serve the hint when a table is missing: other case, other schema, or "outbox" in it.
std::string tables_statement(const std::vector<QualifiedName>& wanted) {
  std::vector<std::string> exact;
  std::vector<std::string> near;
  for (const QualifiedName& name : wanted) {
    exact.push_back("(n.nspname = " + quote_literal(name.schema) +
                    " AND c.relname = " + quote_literal(name.table) + ")");
    near.push_back("pg_catalog.lower(c.relname) = pg_catalog.lower(" + quote_literal(name.table) +
                   ")");
  }
  const std::string is_exact = "(" + join(exact, " OR ") + ")";
  return "SELECT c.oid, n.nspname, c.relname, c.relkind, c.relpersistence, c.relispartition, "
         "pg_catalog.pg_get_userbyid(c.relowner) AS owner, "
         "pg_catalog.pg_has_role(c.relowner, 'USAGE') AS may_alter "
         "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
         "WHERE " +
         is_exact +
         " OR (c.relkind IN ('r', 'p') AND NOT c.relispartition"
         " AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND (" +
         join(near, " OR ") +
         " OR c.relname ILIKE '%outbox%')) "
         "ORDER BY " +
         is_exact + " DESC, n.nspname, c.relname LIMIT " + std::to_string(wanted.size() + 20);
}

void take_tables(const QueryResult& rows, ServerFacts& facts) {
  facts.tables.clear();
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    TableFacts table;
    table.oid = rows.text(row, "oid");
    table.name = {rows.text(row, "nspname"), rows.text(row, "relname")};
    table.kind = letter(rows, row, "relkind");
    table.persistence = letter(rows, row, "relpersistence");
    table.is_partition = flag(rows, row, "relispartition");
    table.owner = rows.text(row, "owner");
    table.may_alter = flag(rows, row, "may_alter");
    facts.tables.push_back(table);
  }
}

std::string columns_statement(const std::vector<std::string>& oids) {
  return "SELECT attrelid, attname, atttypid, attgenerated FROM pg_catalog.pg_attribute "
         "WHERE attrelid IN (" +
         join(oids, ", ") + ") AND attnum > 0 AND NOT attisdropped ORDER BY attrelid, attnum";
}

void take_columns(const QueryResult& rows, ServerFacts& facts) {
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    TableFacts* table = find_by_oid(facts, rows.text(row, "attrelid"));
    if (table == nullptr) {
      continue;
    }
    const std::string name = rows.text(row, "attname");
    table->columns.push_back({name, number<std::uint32_t>(rows, row, "atttypid")});
    if (const char generated = letter(rows, row, "attgenerated"); generated != '\0') {
      table->generated[name] = generated;
    }
  }
}

std::string partitions_statement(const std::vector<std::string>& oids) {
  std::vector<std::string> trees;
  for (const std::string& oid : oids) {
    trees.push_back("SELECT " + oid + " AS root, n.nspname, c.relname, c.relkind, " +
                    "c.relpersistence FROM pg_catalog.pg_partition_tree(" + oid +
                    ") t JOIN pg_catalog.pg_class c ON c.oid = t.relid "
                    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE t.level > 0");
  }
  return join(trees, " UNION ALL ");
}

void take_partitions(const QueryResult& rows, ServerFacts& facts) {
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    if (TableFacts* table = find_by_oid(facts, rows.text(row, "root"))) {
      table->partitions.push_back({{rows.text(row, "nspname"), rows.text(row, "relname")},
                                   letter(rows, row, "relkind"),
                                   letter(rows, row, "relpersistence")});
    }
  }
}

}  // namespace outrider
