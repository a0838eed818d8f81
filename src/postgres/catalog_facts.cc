#include "postgres/catalog_facts.h"

#include <charconv>
#include <cstddef>
#include <string_view>

#include "postgres/sql_text.h"

namespace outrider {
namespace {

/// The first number that is no special transaction (server source: transam.h).
constexpr std::uint32_t kFirstNormalXid = 3;

/// Of a 32-bit xid, or of a 64-bit one with its epoch cut off.
std::uint32_t xid_of(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return static_cast<std::uint32_t>(value);
}

char letter(const QueryResult& rows, std::size_t row, std::string_view name) {
  const std::string text = rows.text(row, name);
  return text.empty() ? '\0' : text.front();
}

/// Is one of these transactions, which have marked a row they change or delete, not yet over?
bool any_unfinished(std::string_view xmaxes, std::uint32_t oldest_xid) {
  while (!xmaxes.empty()) {
    const std::size_t comma = xmaxes.find(',');
    const std::uint32_t xmax = xid_of(xmaxes.substr(0, comma));
    if (xmax != 0 && !xid_precedes(xmax, oldest_xid)) {
      return true;
    }
    xmaxes = comma == std::string_view::npos ? std::string_view() : xmaxes.substr(comma + 1);
  }
  return false;
}

std::string tables_values(const CatalogQuestion& question) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < question.tables.size(); ++i) {
    const QualifiedName& name = question.tables[i];
    std::string oid = i < question.known_oids.size() ? question.known_oids[i] : std::string();
    if (oid.empty()) {
      oid = "0";
    }
    items.push_back("(" + std::to_string(i) + ", " + quote_literal(name.schema) + ", " +
                    quote_literal(name.table) + ", " + oid + "::pg_catalog.oid)");
  }
  return join(items, ", ");
}

/// pg_partition_tree() would lock each partition.
constexpr const char* kLeaves =
    "LEFT JOIN LATERAL (WITH RECURSIVE tree(relid) AS ("
    "SELECT i.inhrelid FROM pg_catalog.pg_inherits i WHERE c.relkind = 'p' AND i.inhparent = c.oid"
    " UNION ALL SELECT i.inhrelid FROM tree JOIN pg_catalog.pg_inherits i"
    " ON i.inhparent = tree.relid) "
    "SELECT pg_catalog.count(*) || ' (' || pg_catalog.left(pg_catalog.md5("
    "pg_catalog.string_agg(lc.oid::text, ',' ORDER BY lc.oid)), 8) || ')' AS leaves, "
    "pg_catalog.min(pg_catalog.quote_ident(ln.nspname) || '.' || "
    "pg_catalog.quote_ident(lc.relname)) FILTER (WHERE lc.relkind = 'f' OR"
    " lc.relpersistence <> 'p') AS bad_leaf "
    "FROM tree JOIN pg_catalog.pg_class lc ON lc.oid = tree.relid "
    "JOIN pg_catalog.pg_namespace ln ON ln.oid = lc.relnamespace) l ON true ";

// Filters, column lists and schemas as members came with 15, a choice of generated columns with 18.
std::string facts_columns(int version_num) {
  const bool since_15 = version_num >= 150000;
  return std::string(
             "SELECT t.schema_name, t.table_name, c.oid, "
             "pg_catalog.concat_ws(' ', c.relowner, ty.typacl) AS owner, c.relkind, "
             "c.relpersistence, "
             "c.relispartition, ty.xmin AS type_xmin, p.oid AS publication, "
             "p.xmin AS publication_xmin, p.puballtables, p.pubinsert, p.pubviaroot, "
             "pg_catalog.concat_ws(',', p.pubowner, p.pubupdate, p.pubdelete, p.pubtruncate") +
         (version_num >= 180000 ? ", p.pubgencols" : "") +
         ") AS publication_rest, pr.oid AS member, pr.xmin AS member_xmin, " +
         (since_15 ? "pn.oid AS schema_member, pr.prqual IS NOT NULL AS has_filter, "
                     "(SELECT pg_catalog.string_agg(a.attname::text, ', ' ORDER BY a.attnum)"
                     " FROM pg_catalog.pg_attribute a WHERE a.attrelid = c.oid"
                     " AND a.attnum = ANY (pr.prattrs::pg_catalog.int2[])) AS column_list, "
                   : "NULL AS schema_member, false AS has_filter, NULL AS column_list, ") +
         "l.leaves, l.bad_leaf, "
         "kn.nspname AS moved_schema, k.relname AS moved_table, "
         "pg_catalog.concat_ws(',', c.xmax, ty.xmax, n.xmax, p.xmax, pr.xmax" +
         (since_15 ? ", pn.xmax" : "") + ") AS xmaxes ";
}

}  // namespace

bool xid_precedes(std::uint32_t a, std::uint32_t b) {
  if (a < kFirstNormalXid || b < kFirstNormalXid) {
    return a < b;
  }
  return static_cast<std::int32_t>(a - b) < 0;
}

// OFFSET 0 keeps the planner from merging the parts; the reference to w in the second makes it run
// after the first. A filter or list is compared as it is stored: printing it would lock the table.
std::string catalog_statement(const CatalogQuestion& question) {
  const bool since_15 = question.version_num >= 150000;
  std::string slot = "NULL AS catalog_xmin, NULL AS restart_lsn";
  if (!question.slot.empty()) {
    const std::string from =
        " FROM pg_catalog.pg_replication_slots WHERE slot_name = " + quote_literal(question.slot) +
        ") AS ";
    slot =
        "(SELECT catalog_xmin" + from + "catalog_xmin, (SELECT restart_lsn" + from + "restart_lsn";
  }
  return "SELECT w.lsn, w.oldest_xid, w.next_xid, " + slot +
         ", f.* FROM (SELECT CASE WHEN pg_catalog.pg_is_in_recovery()"
         " THEN pg_catalog.pg_last_wal_replay_lsn()"
         " ELSE pg_catalog.pg_current_wal_insert_lsn() END AS lsn, "
         "pg_catalog.pg_snapshot_xmin(s) AS oldest_xid, pg_catalog.pg_snapshot_xmax(s) AS next_xid "
         "FROM pg_catalog.pg_current_snapshot() s OFFSET 0) w CROSS JOIN LATERAL (" +
         facts_columns(question.version_num) + "FROM (VALUES " + tables_values(question) +
         ") AS t(number, schema_name, table_name, known_oid) "
         "LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = t.schema_name "
         "LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = t.table_name "
         "LEFT JOIN pg_catalog.pg_type ty ON ty.oid = c.reltype "
         "LEFT JOIN pg_catalog.pg_publication p ON p.pubname = " +
         quote_literal(question.publication) +
         " LEFT JOIN pg_catalog.pg_publication_rel pr ON pr.prpubid = p.oid AND pr.prrelid = c.oid "
         "LEFT JOIN pg_catalog.pg_class k ON k.oid = t.known_oid "
         "LEFT JOIN pg_catalog.pg_namespace kn ON kn.oid = k.relnamespace " +
         (since_15 ? "LEFT JOIN pg_catalog.pg_publication_namespace pn ON pn.pnpubid = p.oid"
                     " AND pn.pnnspid = c.relnamespace "
                   : "") +
         kLeaves + "WHERE w.lsn IS NOT NULL ORDER BY t.number OFFSET 0) f";
}

CatalogFacts take_catalog(const QueryResult& rows) {
  CatalogFacts facts;
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    const auto flag = [&](std::string_view name) { return rows.text(row, name) == "t"; };
    const auto xid = [&](std::string_view name) { return xid_of(rows.text(row, name)); };
    facts.lsn = Lsn::parse(rows.text(row, "lsn")).value_or(Lsn());
    facts.oldest_xid = xid("oldest_xid");
    facts.next_xid = xid("next_xid");
    if (rows.value(row, "catalog_xmin")) {
      facts.slot_catalog_xmin = xid("catalog_xmin");
    }
    facts.slot_restart_lsn = Lsn::parse(rows.text(row, "restart_lsn")).value_or(Lsn());
    facts.settled = facts.settled && !any_unfinished(rows.text(row, "xmaxes"), facts.oldest_xid);
    facts.publication = CatalogPublication{
        .oid = rows.text(row, "publication"),
        .xmin = xid("publication_xmin"),
        .all_tables = flag("puballtables"),
        .publishes_insert = flag("pubinsert"),
        .via_root = flag("pubviaroot"),
        .rest = rows.text(row, "publication_rest"),
    };
    facts.tables.push_back(CatalogTable{
        .name = {rows.text(row, "schema_name"), rows.text(row, "table_name")},
        .oid = rows.text(row, "oid"),
        .owner = rows.text(row, "owner"),
        .kind = letter(rows, row, "relkind"),
        .persistence = letter(rows, row, "relpersistence"),
        .is_partition = flag("relispartition"),
        .type_xmin = xid("type_xmin"),
        .member_oid = rows.text(row, "member"),
        .member_xmin = xid("member_xmin"),
        .schema_member_oid = rows.text(row, "schema_member"),
        .has_filter = flag("has_filter"),
        .column_list = rows.text(row, "column_list"),
        .leaves = rows.text(row, "leaves"),
        .bad_leaf = rows.text(row, "bad_leaf"),
        .moved_to = {rows.text(row, "moved_schema"), rows.text(row, "moved_table")},
    });
  }
  return facts;
}

}  // namespace outrider
