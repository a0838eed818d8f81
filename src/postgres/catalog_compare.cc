#include "postgres/catalog_compare.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "outrider/route/outbox_layout.h"

namespace outrider {
namespace {

using Weight = CatalogFinding::Weight;
using Findings = std::vector<CatalogFinding>;

/// One table (or the publication) under the rules.
struct Look {
  const CatalogFacts& facts;
  const CatalogTable& table;
  const CatalogRules& rules;

  bool is_pgoutput() const { return rules.plugin == Plugin::pgoutput; }
  std::string name() const { return quote_table_name(table.name); }
  std::string title() const { return "outbox table " + name(); }
  std::string publication() const { return "publication \"" + rules.publication + "\""; }
  std::string alter() const {
    return "ALTER PUBLICATION " + quote_identifier(rules.publication) + " ";
  }
  CatalogFinding finding(Weight weight, std::string what, std::string repair = {}) const {
    return {weight, std::move(what), std::move(repair), {table.name}};
  }
};

std::string publication_title(const CatalogRules& rules) {
  return "publication \"" + rules.publication + "\"";
}

std::string change(const std::string& from, const std::string& to) {
  return " (" + from + " -> " + to + ")";
}

/// By the publication or by its schema, so that a row filter of its own does not count.
bool covered_whole(const CatalogFacts& facts, const CatalogTable& table) {
  return facts.publication.all_tables || !table.schema_member_oid.empty();
}

bool is_member(const CatalogFacts& facts, const CatalogTable& table) {
  return covered_whole(facts, table) || !table.member_oid.empty();
}

/// The publication covers whatever has this name, then as now.
bool stayed_covered(const CatalogFacts& good, const CatalogTable& before, const CatalogFacts& seen,
                    const CatalogTable& after) {
  if (good.publication.oid != seen.publication.oid) {
    return false;
  }
  return seen.publication.all_tables ||
         (!after.schema_member_oid.empty() && before.schema_member_oid == after.schema_member_oid);
}

/// The transaction that made the table a member also created it or gave it its name, so that no row
/// can have been written under this name outside the publication.
bool joined_at_birth(const CatalogTable& table) {
  return !table.member_oid.empty() && table.member_xmin == table.type_xmin;
}

Findings publication_flaws(const CatalogFacts& seen, const CatalogRules& rules) {
  Findings found;
  const std::string title = publication_title(rules);
  if (seen.publication.oid.empty()) {
    found.push_back({Weight::drift,
                     title + " does not exist any more",
                     "see docs/OPERATIONS.md, \"A publication that was dropped\"",
                     {}});
  } else if (!seen.publication.publishes_insert) {
    found.push_back(
        {Weight::drift,
         title + " does not publish inserts any more",
         "ALTER PUBLICATION " + quote_identifier(rules.publication) + " SET (publish = 'insert')",
         {}});
  }
  return found;
}

/// Gives a renamed or moved table its name back.
std::string take_back(const QualifiedName& now, const QualifiedName& wanted) {
  std::string sql;
  if (now.table != wanted.table) {
    sql = "ALTER TABLE " + quote_table_name(now) + " RENAME TO " + quote_identifier(wanted.table);
  }
  if (now.schema != wanted.schema) {
    sql +=
        (sql.empty() ? "" : "; ") + ("ALTER TABLE " + quote_table_name({now.schema, wanted.table}) +
                                     " SET SCHEMA " + quote_identifier(wanted.schema));
  }
  return sql;
}

std::optional<CatalogFinding> storage_flaw(const Look& look) {
  const CatalogTable& table = look.table;
  if (table.oid.empty()) {
    if (table.moved_to.table.empty()) {
      return look.finding(Weight::drift, look.title() + " does not exist any more",
                          "create it and add it to the publication in one transaction");
    }
    return look.finding(Weight::drift,
                        look.title() + " has another name now" +
                            change(look.name(), quote_table_name(table.moved_to)),
                        take_back(table.moved_to, table.name));
  }
  if (table.kind != 'r' && table.kind != 'p') {
    return look.finding(Weight::drift,
                        look.title() + " is no table any more (relkind " + table.kind + ")",
                        "put a table in its place");
  }
  if (table.is_partition) {
    return look.finding(Weight::drift, look.title() + " became a partition of another table",
                        "detach it");
  }
  if (table.kind == 'r' && table.persistence != 'p') {
    return look.finding(Weight::drift, look.title() + " became unlogged",
                        "ALTER TABLE " + look.name() + " SET LOGGED");
  }
  if (!table.bad_leaf.empty()) {
    return look.finding(Weight::drift,
                        look.title() + " has the partition " + table.bad_leaf +
                            ", whose rows are not in the WAL (foreign or unlogged)",
                        "ALTER TABLE " + look.name() + " DETACH PARTITION " + table.bad_leaf);
  }
  return std::nullopt;
}

std::optional<CatalogFinding> membership_flaw(const Look& look) {
  if (look.facts.publication.oid.empty() || !look.is_pgoutput()) {
    return std::nullopt;
  }
  if (!is_member(look.facts, look.table)) {
    return look.finding(Weight::drift, look.title() + " is not in " + look.publication(),
                        look.alter() + "ADD TABLE " + look.name());
  }
  if (look.table.has_filter && !covered_whole(look.facts, look.table)) {
    return look.finding(Weight::drift,
                        look.publication() + " has a row filter for " + look.name() + " now",
                        "BEGIN; " + look.alter() + "DROP TABLE " + look.name() + "; " +
                            look.alter() + "ADD TABLE " + look.name() + "; COMMIT");
  }
  if (look.table.kind == 'p' && !look.facts.publication.via_root) {
    return look.finding(Weight::drift,
                        look.publication() + " publishes the partitions of " + look.name() +
                            " under their own names now",
                        look.alter() + "SET (publish_via_partition_root = true)");
  }
  return std::nullopt;
}

std::optional<CatalogFinding> table_flaw(const Look& look) {
  std::optional<CatalogFinding> flaw = storage_flaw(look);
  return flaw ? flaw : membership_flaw(look);
}

// An ALTER PUBLICATION that only sets what was set before looks like one that was undone.
Findings publication_changes(const CatalogFacts& good, const CatalogFacts& seen,
                             const CatalogRules& rules) {
  const CatalogPublication& before = good.publication;
  const CatalogPublication& after = seen.publication;
  const std::string title = publication_title(rules);
  if (before.oid != after.oid) {
    return {{Weight::drift,
             title + " was dropped and made again" + change(before.oid, after.oid),
             "",
             {}}};
  }
  if (before.xmin == after.xmin) {
    return {};
  }
  if (before.rest != after.rest || before.via_root != after.via_root) {
    return {{Weight::harmless, title + " was altered in what does not matter here", "", {}}};
  }
  return {{Weight::gap, title + " was altered and is as it was", "", {}}};
}

CatalogFinding replaced(const Look& look, const CatalogTable& before, bool covered) {
  const std::string what =
      look.title() + " was replaced by another table" + change(before.oid, look.table.oid);
  if (!look.is_pgoutput() || covered || joined_at_birth(look.table)) {
    return look.finding(Weight::harmless, what + ", and no row was missed");
  }
  return look.finding(Weight::drift,
                      what + ", which came into " + look.publication() + " only afterwards");
}

std::string membership_text(const CatalogTable& table) {
  const std::string oid = table.member_oid.empty() ? table.schema_member_oid : table.member_oid;
  return oid + (table.column_list.empty() ? "" : " with columns " + table.column_list);
}

Findings table_changes(const Look& look, const CatalogTable& before, const CatalogFacts& good) {
  const CatalogTable& after = look.table;
  const bool covered = stayed_covered(good, before, look.facts, after);
  if (before.oid != after.oid) {
    return {replaced(look, before, covered)};
  }
  Findings found;
  const bool same_member = !before.member_oid.empty() && before.member_oid == after.member_oid &&
                           before.member_xmin == after.member_xmin;
  if (look.is_pgoutput() && !covered && !same_member) {
    found.push_back(
        look.finding(Weight::drift, look.title() + " was taken out of " + look.publication() +
                                        " and added again" +
                                        change(membership_text(before), membership_text(after))));
  }
  if (before.type_xmin != after.type_xmin && before.owner == after.owner) {
    found.push_back(
        look.finding(Weight::drift, look.title() + " had another name or schema for a while"));
  } else if (before.owner != after.owner) {
    found.push_back(look.finding(Weight::harmless, look.title() + " has another owner"));
  }
  if (before.leaves != after.leaves) {
    found.push_back(look.finding(
        Weight::harmless,
        "partitions of " + look.title() + " have changed" + change(before.leaves, after.leaves)));
  }
  return found;
}

void append(Findings& all, Findings more) {
  for (CatalogFinding& finding : more) {
    all.push_back(std::move(finding));
  }
}

std::string by_transaction(std::uint32_t xid) {
  return " by transaction " + std::to_string(xid) + ", which the slot has still to pass";
}

}  // namespace

Findings find_flaws(const CatalogFacts& seen, const CatalogRules& rules) {
  Findings found;
  if (rules.plugin == Plugin::pgoutput) {
    found = publication_flaws(seen, rules);
  }
  for (const CatalogTable& table : seen.tables) {
    if (auto flaw = table_flaw(Look{seen, table, rules})) {
      found.push_back(std::move(*flaw));
    }
  }
  return found;
}

Findings find_drift(const CatalogFacts& good, const CatalogFacts& seen, const CatalogRules& rules) {
  Findings found;
  if (rules.plugin == Plugin::pgoutput) {
    found = publication_flaws(seen, rules);
    if (found.empty()) {
      append(found, publication_changes(good, seen, rules));
    }
  }
  for (std::size_t i = 0; i < seen.tables.size() && i < good.tables.size(); ++i) {
    const Look look{seen, seen.tables[i], rules};
    if (auto flaw = table_flaw(look)) {
      const std::string& before = good.tables[i].oid;
      if (!look.table.oid.empty() && before != look.table.oid) {
        flaw->what = look.title() + " was replaced by another table" +
                     change(before, look.table.oid) + ", and " + flaw->what;
      }
      found.push_back(std::move(*flaw));
    } else if (!seen.publication.oid.empty() || rules.plugin == Plugin::wal2json) {
      append(found, table_changes(look, good.tables[i], good));
    }
  }
  return found;
}

Findings find_remade(const CatalogFacts& seen, const CatalogRules& rules) {
  Findings found;
  if (!seen.slot_catalog_xmin) {
    return found;
  }
  // A number at or behind next_xid is an old one: rows frozen long ago keep theirs.
  const auto since = [&](std::uint32_t xid) {
    return xid != 0 && !xid_precedes(xid, *seen.slot_catalog_xmin) &&
           xid_precedes(xid, seen.next_xid);
  };
  if (rules.plugin == Plugin::pgoutput && since(seen.publication.xmin)) {
    found.push_back(
        {Weight::gap,
         publication_title(rules) + " was made or altered" + by_transaction(seen.publication.xmin),
         "",
         {}});
  }
  for (const CatalogTable& table : seen.tables) {
    const Look look{seen, table, rules};
    if (look.is_pgoutput() && (covered_whole(seen, table) || joined_at_birth(table))) {
      continue;
    }
    if (look.is_pgoutput() && since(table.member_xmin)) {
      found.push_back(look.finding(Weight::gap, look.title() + " was added to " +
                                                    look.publication() +
                                                    by_transaction(table.member_xmin)));
    } else if (since(table.type_xmin)) {
      found.push_back(look.finding(
          Weight::gap, look.title() + " was created, renamed, moved or given to another owner" +
                           by_transaction(table.type_xmin)));
    }
  }
  return found;
}

}  // namespace outrider
