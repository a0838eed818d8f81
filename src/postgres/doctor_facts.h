// DoctorFacts: what `outrider doctor` asks PostgreSQL beyond preflight's questions, as plain data.
//
// Each statement is one read-only SELECT that a role without any grant but CONNECT may run on
// PostgreSQL 14 to 18, and takes no lock on a user's table. Pure, no state; the judgement is in
// src/app/doctor_*.cc. Units are in the names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "outrider/model/change.h"
#include "postgres/query_result.h"

namespace outrider {

/// How much an outbox table holds, partitions included, as the statistics say.
struct TableUse {
  QualifiedName name;
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  std::int64_t deleted = 0;  ///< Since the statistics began.
  bool partitioned = false;
};

struct DoctorFacts {
  std::string version;  ///< "15.20 (Debian …)".
  std::int64_t clock_ms = 0;
  bool tls = false;
  std::int64_t max_wal_size_mb = 0;
  std::int64_t wal_bytes = 0;    ///< Written in wal_seconds.
  std::int64_t wal_seconds = 0;  ///< 0: not known.
  std::int64_t physical_slots = 0;
  bool sees_all_settings = false;  ///< Superuser, or member of pg_read_all_settings.

  std::int64_t retained_bytes = 0;     ///< Of the slot.
  std::int64_t unconfirmed_bytes = 0;  ///< Of the slot.
  std::optional<std::int64_t> safe_wal_bytes;
  bool failover = false;
  std::string holder_application;  ///< Empty: another role's, or nobody.
  std::string holder_sync_state;

  std::vector<TableUse> tables;
};

std::string doctor_server_statement();
std::string doctor_slot_statement(int version_num, const std::string& slot);
std::string doctor_tables_statement(const std::vector<QualifiedName>& tables);

void take_doctor_server(const QueryResult& rows, DoctorFacts& facts);
void take_doctor_slot(const QueryResult& rows, DoctorFacts& facts);
void take_doctor_tables(const QueryResult& rows, DoctorFacts& facts);

/// The columns of the dead-letter table and of its view, by name.
std::string dead_letter_columns_statement();

struct DeadLetterColumns {
  std::vector<std::string> missing;  ///< From the table.
  bool has_view = false;
};
DeadLetterColumns read_dead_letter_columns(const QueryResult& rows);

/// What the table has to have (sql/dead_letters.sql).
const std::vector<std::string>& dead_letter_column_names();

}  // namespace outrider
