// FakeCatalog: answers preflight's statements from a few fields, as a healthy server would.
//
// Tests change one field and look at the verdict. The rows are hand-made; that the statements
// themselves run on a real server is shown by the integration tests.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "postgres/preflight.h"
#include "postgres/query_result.h"

namespace outrider {

using Row = std::map<std::string, std::optional<std::string>>;

inline QueryResult rows_of(const std::vector<Row>& rows) {
  QueryResult result;
  for (const Row& row : rows) {
    std::vector<std::optional<std::string>> values;
    result.columns.clear();
    for (const auto& [name, value] : row) {
      result.columns.push_back(name);
      values.push_back(value);
    }
    result.rows.push_back(std::move(values));
  }
  return result;
}

struct FakeColumn {
  std::string name;
  std::uint32_t type_oid = kTextOid;
  std::string generated = {};
};

struct FakeTable {
  std::string oid = "16400";
  std::string schema = "public";
  std::string name = "outbox";
  std::string kind = "r";
  std::string persistence = "p";
  bool is_partition = false;
  bool may_alter = true;
  std::vector<FakeColumn> columns = {{"id", kUuidOid},
                                     {"aggregatetype", kTextOid},
                                     {"aggregateid", kTextOid},
                                     {"type", kTextOid},
                                     {"payload", kJsonbOid}};
};

struct FakeCatalog {
  Row server = {{"version_num", "150020"},
                {"wal_level", "logical"},
                {"slots_max", "10"},
                {"slots_used", "1"},
                {"senders_max", "10"},
                {"senders_used", "1"},
                {"in_recovery", "f"},
                {"database", "app"},
                {"encoding", "UTF8"},
                {"role", "relay"},
                {"may_replicate", "t"},
                {"is_superuser", "f"},
                {"may_create_role", "f"},
                {"lends_replication", "f"},
                {"may_create_in_database", "t"},
                {"may_read_control", "t"},
                {"synchronous_standby_names", ""},
                {"output_plugin_libraries", std::nullopt},
                {"wal_sender_timeout_ms", "60000"},
                {"max_slot_wal_keep_mb", "4096"},
                {"idle_slot_timeout", std::nullopt}};
  std::optional<Row> slot;
  std::optional<Row> publication;
  std::vector<Row> published;
  std::vector<FakeTable> tables = {FakeTable{}};
  std::vector<Row> partitions;
  std::vector<std::string> asked;

  void have_slot(const std::string& plugin) {
    slot = Row{{"plugin", plugin},
               {"slot_type", "logical"},
               {"database", "app"},
               {"temporary", "f"},
               {"active", "f"},
               {"active_pid", std::nullopt},
               {"confirmed_flush_lsn", "0/1A2B3C4D"},
               {"server_wal_end", "0/1A2B4000"},
               {"wal_status", "reserved"},
               {"invalidation_reason", std::nullopt},
               {"synced", "f"}};
  }

  void have_publication() {
    publication = Row{{"puballtables", "f"}, {"pubinsert", "t"},   {"pubupdate", "f"},
                      {"pubdelete", "f"},    {"pubtruncate", "f"}, {"pubviaroot", "t"}};
    published.clear();
    for (const FakeTable& table : tables) {
      for (const FakeColumn& column : table.columns) {
        published.push_back({{"schemaname", table.schema},
                             {"tablename", table.name},
                             {"has_row_filter", "f"},
                             {"column_name", column.name}});
      }
    }
  }

  void add_partition(const std::string& name, const std::string& kind = "r",
                     const std::string& persistence = "p", const std::string& schema = "public") {
    partitions.push_back({{"root", tables.front().oid},
                          {"nspname", schema},
                          {"relname", name},
                          {"relkind", kind},
                          {"relpersistence", persistence}});
  }

  QueryResult answer(const std::string& statement) {
    asked.push_back(statement);
    const auto about = [&](std::string_view word) {
      return statement.find(word) != std::string::npos;
    };
    if (about("server_version_num")) {
      return rows_of({server});
    }
    if (about("pg_control_system")) {
      return rows_of({{{"system_identifier", "7714043951656354439"}, {"timeline", "3"}}});
    }
    if (about("pg_publication_tables")) {
      return rows_of(published);
    }
    if (about("pg_partition_tree")) {
      return rows_of(partitions);
    }
    if (about("pg_publication")) {
      return rows_of(publication ? std::vector<Row>{*publication} : std::vector<Row>{});
    }
    if (about("pg_replication_slots")) {
      return rows_of(slot ? std::vector<Row>{*slot} : std::vector<Row>{});
    }
    return about("pg_attribute") ? column_rows() : table_rows();
  }

 private:
  QueryResult table_rows() const {
    std::vector<Row> rows;
    for (const FakeTable& table : tables) {
      rows.push_back({{"oid", table.oid},
                      {"nspname", table.schema},
                      {"relname", table.name},
                      {"relkind", table.kind},
                      {"relpersistence", table.persistence},
                      {"relispartition", table.is_partition ? "t" : "f"},
                      {"owner", "shop"},
                      {"may_alter", table.may_alter ? "t" : "f"}});
    }
    return rows_of(rows);
  }

  QueryResult column_rows() const {
    std::vector<Row> rows;
    for (const FakeTable& table : tables) {
      for (const FakeColumn& column : table.columns) {
        rows.push_back({{"attrelid", table.oid},
                        {"attname", column.name},
                        {"atttypid", std::to_string(column.type_oid)},
                        {"attgenerated", column.generated}});
      }
    }
    return rows_of(rows);
  }
};

struct FakeSetup {
  SourceConfig source;
  OutboxConfig outbox;
  RouteConfig route;
  FakeCatalog catalog;

  FakeSetup() {
    source.slot = "orders";
    source.publication = "orders_pub";
    source.create_slot = true;
    source.create_publication = true;
  }

  Result<StartPlan> judge(std::optional<Plugin> instead = std::nullopt) {
    Preflight preflight(source, outbox, route);
    while (const std::optional<std::string> statement = preflight.next_statement()) {
      preflight.take(catalog.answer(*statement));
    }
    return preflight.judge(instead);
  }
};

}  // namespace outrider
