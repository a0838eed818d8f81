#include "postgres/partition_map.h"

#include <algorithm>

#include "outrider/route/outbox_layout.h"
#include "postgres/sql_text.h"

namespace outrider {
namespace {

/// ATTACH PARTITION takes columns in any order.
std::vector<Column> sorted(std::vector<Column> columns) {
  std::sort(columns.begin(), columns.end(), [](const Column& a, const Column& b) {
    return a.name != b.name ? a.name < b.name : a.type_oid < b.type_oid;
  });
  return columns;
}

}  // namespace

Result<PartitionMap> PartitionMap::create(const std::vector<std::string>& former_partitions) {
  PartitionMap map;
  for (const std::string& text : former_partitions) {
    OUTRIDER_TRY(QualifiedName name, parse_table_name(text));
    map.former_.insert(std::move(name));
  }
  return map;
}

void PartitionMap::begin(const StartPlan& plan) {
  by_layout_.clear();
  for (const auto& [name, columns] : plan.table_columns) {
    tables_[name] = sorted(columns);
  }
  for (const auto& [leaf, root] : plan.partition_roots) {
    auto table = tables_.try_emplace(root).first;
    leaves_[leaf] = &table->first;
  }
}

std::vector<const QualifiedName*> PartitionMap::lookalikes(const Relation& relation) const {
  std::vector<const QualifiedName*> found;
  std::vector<Column> columns = sorted(relation.columns);
  for (const auto& [name, table_columns] : tables_) {
    if (table_columns == columns) {
      found.push_back(&name);
    }
  }
  return found;
}

PartitionMap::Place PartitionMap::remember(const Relation& relation, Place place) {
  if (by_layout_.size() >= kForeignLayoutsMax) {
    by_layout_.clear();
  }
  by_layout_[relation.layout_id] = place;
  return place;
}

Result<PartitionMap::Place> PartitionMap::place(const Relation& relation) {
  if (auto known = by_layout_.find(relation.layout_id); known != by_layout_.end()) {
    return known->second;
  }
  if (tables_.contains(relation.name)) {
    return remember(relation, Place{Kind::own, nullptr});
  }
  if (auto leaf = leaves_.find(relation.name); leaf != leaves_.end()) {
    return remember(relation, Place{Kind::leaf, leaf->second});
  }
  if (!former_.contains(relation.name)) {
    return Place{};
  }
  std::vector<const QualifiedName*> roots = lookalikes(relation);
  if (roots.size() != 1) {
    return fail(ErrorKind::fatal,
                "former partition " + quote_table_name(relation.name) + " has the columns of " +
                    (roots.empty() ? "no outbox table" : "several outbox tables"),
                "take it out of source.former_partitions if its rows are no events, or attach it "
                "to its table again");
  }
  leaves_[relation.name] = roots.front();
  return remember(relation, Place{Kind::leaf, roots.front()});
}

// One row for each ancestor of a partition, itself first; one row of nulls for a table that is no
// partition; none when the catalogue does not know the name.
std::string PartitionMap::lookup_sql(const QualifiedName& name) {
  return "SELECT an.nspname AS ancestor_schema, ac.relname AS ancestor_table "
         "FROM pg_catalog.pg_class c "
         "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
         "LEFT JOIN LATERAL pg_catalog.pg_partition_ancestors(c.oid) a(relid) ON true "
         "LEFT JOIN pg_catalog.pg_class ac ON ac.oid = a.relid "
         "LEFT JOIN pg_catalog.pg_namespace an ON an.oid = ac.relnamespace "
         "WHERE n.nspname = " +
         quote_literal(name.schema) + " AND c.relname = " + quote_literal(name.table);
}

Result<PartitionMap::Place> PartitionMap::learn(const Relation& relation, const QueryResult& rows,
                                                Lsn commit_lsn) {
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    auto table = tables_.find(
        QualifiedName{rows.text(row, "ancestor_schema"), rows.text(row, "ancestor_table")});
    if (table != tables_.end()) {
      leaves_[relation.name] = &table->first;
      return remember(relation, Place{Kind::leaf, &table->first});
    }
  }
  std::vector<const QualifiedName*> roots = lookalikes(relation);
  if (roots.empty()) {
    return remember(relation, Place{Kind::foreign, nullptr});
  }
  std::string name = quote_table_name(relation.name);
  return fail(ErrorKind::fatal,
              "rows of table " + name + " in the transaction at " + commit_lsn.to_string() +
                  " may be events: it has the columns of " + quote_table_name(*roots.front()) +
                  " but is no partition of it" +
                  (rows.rows.empty() ? " (it is gone from the catalogue)" : ""),
              "if it was a partition, list \"" + name +
                  "\" in source.former_partitions and start again; if it never was, give it "
                  "other columns or move it to a schema of its own");
}

}  // namespace outrider
