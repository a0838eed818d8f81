// ServerFacts: what the catalogue said, as plain data, and the statements that ask for it.
//
// Each statement is one read-only SELECT that a role without any grant but CONNECT may run on
// PostgreSQL 14 to 18; what differs between the versions is chosen by the version the first one
// returned. Names are qualified with pg_catalog, so that a search_path cannot redirect them. Pure,
// no state. Rules of what the facts mean are in preflight_judge.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "outrider/base/lsn.h"
#include "outrider/model/change.h"
#include "postgres/query_result.h"

namespace outrider {

struct SlotFacts {
  std::string plugin;  ///< Empty for a physical slot.
  std::string type;
  std::string database;
  bool temporary = false;
  bool active = false;
  int active_pid = 0;
  Lsn confirmed_flush_lsn;
  Lsn server_wal_end;               ///< When the slot was looked at.
  std::string wal_status;           ///< reserved, extended, unreserved, lost.
  std::string invalidation_reason;  ///< From 17 on; 16 says only that it conflicts.
  bool synced = false;              ///< Copied from a primary (17 and later).
};

struct PublicationFacts {
  bool all_tables = false;
  bool publishes_insert = false;
  bool publishes_update = false;
  bool publishes_delete = false;
  bool publishes_truncate = false;
  bool via_root = false;
};

/// How a publication lists one table.
struct PublishedTable {
  bool has_row_filter = false;
  bool columns_known = false;  ///< From 15 on.
  std::vector<std::string> columns;
};

struct PartitionFacts {
  QualifiedName name;
  char kind = 'r';
  char persistence = 'p';
};

struct TableFacts {
  std::string oid;
  QualifiedName name;
  char kind = 'r';         ///< pg_class.relkind.
  char persistence = 'p';  ///< pg_class.relpersistence.
  bool is_partition = false;
  bool may_alter = false;  ///< Our role is (a member of) the owner.
  std::string owner;
  std::vector<Column> columns;
  std::map<std::string, char> generated;  ///< Generated columns: 's' stored, 'v' virtual.
  std::vector<PartitionFacts> partitions;
};

struct ServerFacts {
  int version_num = 0;
  std::string wal_level;
  std::int64_t slots_max = 0;
  std::int64_t slots_used = 0;
  std::int64_t senders_max = 0;
  std::int64_t senders_used = 0;  ///< Without our own.
  bool in_recovery = false;
  std::string database;
  std::string encoding;
  std::string role;
  bool may_replicate = false;
  bool is_superuser = false;
  bool may_create_role = false;
  bool lends_replication = false;  ///< The role rds_replication exists, which gives REPLICATION.
  bool may_create_in_database = false;
  bool may_read_control = false;
  std::string system_identifier;  ///< Empty when our role may not read it.
  std::uint32_t timeline = 0;
  std::string synchronous_standby_names;
  std::optional<std::string> output_plugin_libraries;  ///< Nothing: absent, or hidden from us.
  std::int64_t wal_sender_timeout_ms = 0;
  std::int64_t max_slot_wal_keep_mb = -1;
  std::string idle_slot_timeout;  ///< Empty before 18; "0" when off.

  std::optional<SlotFacts> slot;
  std::optional<PublicationFacts> publication;
  std::map<QualifiedName, PublishedTable> published;
  std::vector<TableFacts> tables;  ///< Candidates: the wanted ones and near names.
};

std::string server_statement(const std::string& own_application_name);
std::string control_statement();
std::string slot_statement(int version_num, const std::string& slot);
std::string publication_statement(const std::string& publication);
std::string published_tables_statement(int version_num, const std::string& publication);
std::string tables_statement(const std::vector<QualifiedName>& wanted);
std::string columns_statement(const std::vector<std::string>& oids);
std::string partitions_statement(const std::vector<std::string>& oids);

void take_server(const QueryResult& rows, ServerFacts& facts);
void take_control(const QueryResult& rows, ServerFacts& facts);
void take_slot(const QueryResult& rows, ServerFacts& facts);
void take_publication(const QueryResult& rows, ServerFacts& facts);
void take_published_tables(const QueryResult& rows, ServerFacts& facts);
void take_tables(const QueryResult& rows, ServerFacts& facts);
void take_columns(const QueryResult& rows, ServerFacts& facts);
void take_partitions(const QueryResult& rows, ServerFacts& facts);

}  // namespace outrider
