#include "postgres/partition_map.h"

#include <algorithm>

#include "outrider/route/outbox_layout.h"
#include "postgres/sql_text.h"

namespace outrider {
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
  for (const auto& [name, columns] : plan.event_columns) {
    tables_[name] = columns;
  }
  for (const auto& [leaf, root] : plan.partition_roots) {
    auto table = tables_.try_emplace(root).first;
    leaves_[leaf] = &table->first;
  }
}

// With several tables of the same columns any of them will do: they are mapped alike.
const QualifiedName* PartitionMap::lookalike(const Relation& relation) const {
  const auto has = [&relation](const std::string& name) {
    return std::any_of(relation.columns.begin(), relation.columns.end(),
                       [&name](const Column& column) { return column.name == name; });
  };
  for (const auto& [name, columns] : tables_) {
    if (std::all_of(columns.begin(), columns.end(), has)) {
      return &name;
    }
  }
  return nullptr;
}

PartitionMap::Place PartitionMap::remember(const Relation& relation, Place place) {
  if (by_layout_.size() >= kLayoutsMax) {
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
  const QualifiedName* root = lookalike(relation);
  if (former_.contains(relation.name)) {
    if (root == nullptr) {
      return fail(ErrorKind::fatal,
                  "former partition " + quote_table_name(relation.name) +
                      " lacks columns that every event of the outbox tables has",
                  "take it out of source.former_partitions if its rows are no events");
    }
    leaves_[relation.name] = root;
    return remember(relation, Place{Kind::leaf, root});
  }
  return root == nullptr ? remember(relation, Place{Kind::foreign, nullptr}) : Place{};
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
  const QualifiedName* root = lookalike(relation);
  if (root == nullptr) {
    return remember(relation, Place{Kind::foreign, nullptr});
  }
  const std::string name = quote_table_name(relation.name);
  const bool is_gone = rows.rows.empty();
  return fail(ErrorKind::fatal,
              "the transaction at " + commit_lsn.to_string() + " has rows of table " + name +
                  " that may be events: it has the columns of " + quote_table_name(*root) +
                  (is_gone ? " and is gone from the catalogue" : " and is no partition of it"),
              "if it was a partition, add " + name +
                  " to source.former_partitions, if it never was (the outbox of another service), "
                  "to source.foreign_tables, and start the relay again; nothing was skipped");
}

}  // namespace outrider
