// CatalogFacts: one look at what decides whether an outbox row reaches the stream.
//
// One SELECT, cheap and without a lock on any table but the catalogue's own (the functions and
// views that open relations are avoided), gives one row for each outbox table. It reads the WAL's
// end before the catalogue, so that whatever the look does not see was committed after that
// position, and before anything that follows it. Pure, no state. Works on PostgreSQL 14 to 18, on a
// standby too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "outrider/base/lsn.h"
#include "outrider/model/change.h"
#include "postgres/query_result.h"

namespace outrider {

/// Did transaction `a` get its number before `b`? As the server compares them: modulo 2^32, with
/// the frozen ones before all others.
bool xid_precedes(std::uint32_t a, std::uint32_t b);

struct CatalogPublication {
  std::string oid;  ///< Empty: there is none.
  std::uint32_t xmin = 0;
  bool all_tables = false;
  bool publishes_insert = false;
  bool via_root = false;
  std::string rest;  ///< What else its row holds and does not matter, to explain a new xmin.
};

struct CatalogTable {
  QualifiedName name;  ///< As configured.
  std::string oid;     ///< Empty: no table has that name.
  std::string owner;   ///< And who may use its row type: changes that touch type_xmin.
  char kind = 'r';
  char persistence = 'p';
  bool is_partition = false;
  std::uint32_t type_xmin = 0;  ///< Who last created, renamed, moved or gave away the table.
  std::string member_oid;       ///< In pg_publication_rel; empty: not a member by itself.
  std::uint32_t member_xmin = 0;
  std::string schema_member_oid;  ///< In pg_publication_namespace (15 and later).
  bool has_filter = false;
  std::string column_list;  ///< Empty: all columns.
  std::string leaves;       ///< Number of partitions and a digest of their OIDs.
  std::string bad_leaf;     ///< A partition whose rows are not in the WAL.
  /// The present name of the table that had this name at the last look; empty: it is gone.
  QualifiedName moved_to;
};

struct CatalogFacts {
  Lsn lsn;                       ///< End of the WAL, read before the catalogue.
  std::uint32_t oldest_xid = 0;  ///< All transactions before it had ended.
  std::uint32_t next_xid = 0;    ///< None from it on had begun.
  /// Nobody was changing any of these rows: a change not seen here was committed after `lsn`.
  bool settled = true;
  CatalogPublication publication;
  std::vector<CatalogTable> tables;
  std::optional<std::uint32_t> slot_catalog_xmin;  ///< Only if asked for.
  Lsn slot_restart_lsn;
};

struct CatalogQuestion {
  int version_num = 0;
  std::string publication;
  std::string slot;  ///< Empty: do not ask for the slot.
  std::vector<QualifiedName> tables;
  std::vector<std::string> known_oids;  ///< As many as tables, or none.
};

std::string catalog_statement(const CatalogQuestion& question);
CatalogFacts take_catalog(const QueryResult& rows);

}  // namespace outrider
