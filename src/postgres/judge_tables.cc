// Rules for the outbox tables, and for what each plugin can carry of them.
#include <algorithm>

#include "postgres/preflight_judge.h"
#include "postgres/sql_text.h"

namespace outrider {

namespace {

const TableFacts* find_table(const ServerFacts& facts, const QualifiedName& name) {
  for (const TableFacts& table : facts.tables) {
    if (table.name == name) {
      return &table;
    }
  }
  return nullptr;
}

Error missing_table(const Case& known, const QualifiedName& name) {
  std::vector<std::string> near;
  for (const TableFacts& table : known.facts.tables) {
    const bool is_wanted =
        std::find(known.wanted.begin(), known.wanted.end(), table.name) != known.wanted.end();
    if (!is_wanted && near.size() < 5) {
      near.push_back(quote_table_name(table.name));
    }
  }
  const std::string create = "create it with outrider init or sql/outbox_table.sql";
  return {ErrorKind::configuration,
          "outbox table " + quote_table_name(name) + " does not exist in database \"" +
              known.facts.database + "\"",
          near.empty() ? create
                       : "set outbox.tables to one that exists (" + join(near, ", ") +
                             "; names with capitals need double quotes), or " + create,
          {}};
}

const char* kind_word(char kind) {
  switch (kind) {
    case 'v':
      return "a view";
    case 'm':
      return "a materialised view";
    case 'f':
      return "a foreign table";
    default:
      return "not a table";
  }
}

Error unlogged(const QualifiedName& name, char persistence) {
  const std::string table = quote_table_name(name);
  if (persistence == 't') {
    return {ErrorKind::configuration,
            "outbox table " + table + " is temporary, its rows are never written to the WAL",
            "use a permanent table",
            {}};
  }
  return {ErrorKind::configuration,
          "outbox table " + table + " is unlogged, its rows are never written to the WAL",
          "run ALTER TABLE " + table + " SET LOGGED (rows that are in it already are not relayed)",
          {}};
}

Result<> check_storage(const TableFacts& table) {
  const std::string name = quote_table_name(table.name);
  if (table.kind != 'r' && table.kind != 'p') {
    return fail(ErrorKind::configuration, name + " is " + kind_word(table.kind),
                "set outbox.tables to the table that the application inserts into");
  }
  if (table.is_partition) {
    return fail(ErrorKind::configuration, "outbox table " + name + " is a partition",
                "set outbox.tables to the partitioned table it belongs to");
  }
  if (table.kind == 'r' && table.persistence != 'p') {
    return fail(unlogged(table.name, table.persistence));
  }
  for (const PartitionFacts& partition : table.partitions) {
    if (partition.kind == 'f') {
      return fail(
          ErrorKind::configuration,
          "partition " + quote_table_name(partition.name) + " of outbox table " + name +
              " is a foreign table, its rows are not in this server's WAL",
          "run ALTER TABLE " + name + " DETACH PARTITION " + quote_table_name(partition.name));
    }
    if (partition.kind == 'r' && partition.persistence != 'p') {
      return fail(unlogged(partition.name, partition.persistence));
    }
  }
  return {};
}

std::vector<Column> used_columns(const TableFacts& table, const OutboxLayout& layout) {
  std::vector<std::size_t> indexes = {layout.id, layout.aggregate_id, layout.payload};
  for (const auto& index : {layout.event_type, layout.aggregate_type, layout.route_by}) {
    if (index) {
      indexes.push_back(*index);
    }
  }
  indexes.insert(indexes.end(), layout.headers.begin(), layout.headers.end());
  std::sort(indexes.begin(), indexes.end());
  indexes.erase(std::unique(indexes.begin(), indexes.end()), indexes.end());
  std::vector<Column> columns;
  for (const std::size_t index : indexes) {
    columns.push_back(table.columns.at(index));
  }
  return columns;
}

std::vector<std::string> event_columns(const TableFacts& table, const OutboxLayout& layout) {
  std::vector<std::string> names = {table.columns.at(layout.id).name,
                                    table.columns.at(layout.aggregate_id).name,
                                    table.columns.at(layout.payload).name};
  if (layout.event_type) {
    names.push_back(table.columns.at(*layout.event_type).name);
  }
  return names;
}

Result<OutboxTable> check_table(const Case& known, const QualifiedName& name) {
  const TableFacts* table = find_table(known.facts, name);
  if (table == nullptr) {
    return fail(missing_table(known, name));
  }
  OUTRIDER_TRY(check_storage(*table));
  Result<OutboxLayout> layout = find_outbox_layout(table->columns, known.outbox, known.route);
  if (!layout) {
    Error error = layout.error();
    error.message = "outbox table " + quote_table_name(name) + ": " + error.message;
    return fail(std::move(error));
  }
  OutboxTable outbox{table, used_columns(*table, *layout), event_columns(*table, *layout)};
  for (const Column& column : outbox.used_columns) {
    const auto generated = table->generated.find(column.name);
    if (generated != table->generated.end() && generated->second == 'v') {
      return fail(ErrorKind::configuration,
                  "column \"" + column.name + "\" of outbox table " + quote_table_name(name) +
                      " is a virtual generated column, which is not in the WAL",
                  "make it an ordinary column that the application or a trigger fills");
    }
  }
  return outbox;
}

bool is_inexact_in_wal2json(std::uint32_t type_oid) {
  return type_oid == kFloat4Oid || type_oid == kFloat8Oid || type_oid == kNumericOid;
}

/// What to set so that the other plugin is used, given what there is.
std::string change_plugin(const Case& known, const char* plugin) {
  if (!known.facts.slot) {
    return std::string("set source.plugin: ") + plugin;
  }
  return std::string(
             "make a new slot with the other plugin (another source.slot and "
             "source.plugin: ") +
         plugin + ")";
}

std::optional<Error> wal2json_obstacle(const Case& known, const std::vector<OutboxTable>& tables) {
  if (known.facts.encoding != "UTF8") {
    return Error{ErrorKind::configuration,
                 "database \"" + known.facts.database + "\" has encoding " + known.facts.encoding +
                     ", which wal2json sends unconverted",
                 change_plugin(known, "pgoutput"),
                 {}};
  }
  for (const OutboxTable& table : tables) {
    for (const Column& column : table.used_columns) {
      if (is_inexact_in_wal2json(column.type_oid)) {
        return Error{ErrorKind::configuration,
                     "column \"" + column.name + "\" of outbox table " +
                         quote_table_name(table.facts->name) +
                         " is a float or numeric column, whose NaN and Infinity wal2json sends as "
                         "null",
                     change_plugin(known, "pgoutput") + ", or store the value as text",
                     {}};
      }
    }
  }
  return std::nullopt;
}

// From 18 on a publication may carry stored generated columns; check_publication looks at that.
std::optional<Error> pgoutput_obstacle(const Case& known, const std::vector<OutboxTable>& tables) {
  if (known.facts.version_num >= 180000) {
    return std::nullopt;
  }
  for (const OutboxTable& table : tables) {
    for (const Column& column : table.used_columns) {
      if (table.facts->generated.count(column.name) > 0) {
        return Error{ErrorKind::configuration,
                     "column \"" + column.name + "\" of outbox table " +
                         quote_table_name(table.facts->name) +
                         " is a generated column, which pgoutput leaves out before PostgreSQL 18",
                     change_plugin(known, "wal2json") +
                         ", or make it an ordinary column that the application or a trigger fills",
                     {}};
      }
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<OutboxTable>> check_tables(const Case& known) {
  std::vector<OutboxTable> tables;
  for (const QualifiedName& name : known.wanted) {
    OUTRIDER_TRY(OutboxTable table, check_table(known, name));
    tables.push_back(std::move(table));
  }
  if (tables.empty()) {
    return fail(ErrorKind::configuration, "no outbox table is configured",
                "set outbox.tables to at least one table");
  }
  return tables;
}

std::optional<Error> plugin_obstacle(const Case& known, const std::vector<OutboxTable>& tables,
                                     Plugin plugin) {
  return plugin == Plugin::wal2json ? wal2json_obstacle(known, tables)
                                    : pgoutput_obstacle(known, tables);
}

}  // namespace outrider
