// Rules for the publication (pgoutput only): it must carry every insert, whole and under the
// outbox table's own name.
#include <algorithm>

#include "postgres/preflight_judge.h"
#include "postgres/sql_text.h"

namespace outrider {

namespace {

std::string publication_name(const Case& known) {
  return "publication \"" + known.source.publication + "\"";
}

std::string alter(const Case& known) {
  return "ALTER PUBLICATION " + quote_identifier(known.source.publication);
}

bool uses_generated(const std::vector<OutboxTable>& tables) {
  return std::any_of(tables.begin(), tables.end(), [](const OutboxTable& table) {
    return std::any_of(
        table.used_columns.begin(), table.used_columns.end(),
        [&](const Column& column) { return table.facts->generated.count(column.name) > 0; });
  });
}

std::string creation(const Case& known, const std::vector<OutboxTable>& tables) {
  std::vector<QualifiedName> names;
  for (const OutboxTable& table : tables) {
    names.push_back(table.facts->name);
  }
  return create_publication_sql(known.source.publication, names, uses_generated(tables));
}

/// For a slot that is older than the publication will be.
std::string past_rows_warning(const Case& known) {
  if (!known.facts.slot) {
    return {};
  }
  return "; mind that rows written while it was missing cannot be read through the slot \"" +
         known.source.slot +
         "\", not even afterwards: see docs/OPERATIONS.md on a publication that was dropped";
}

/// What the slot has not passed yet and was written as the publication is now.
std::string passed_rows_warning(const Case& known) {
  if (!known.facts.slot) {
    return {};
  }
  return "; rows written meanwhile never arrive: those from " +
         known.facts.slot->confirmed_flush_lsn.to_string() +
         " on may be missing (docs/OPERATIONS.md, \"Rows that never arrived\")";
}

Result<> plan_creation(const Case& known, const std::vector<OutboxTable>& tables, StartPlan& plan) {
  const std::string sql = creation(known, tables);
  const std::string missing = publication_name(known) + " does not exist";
  const std::string warning = past_rows_warning(known);
  if (!known.source.create_publication) {
    return fail(ErrorKind::configuration, missing + " (pgoutput needs it)",
                "set source.create_publication: true, run outrider init, or run as the table's "
                "owner: " +
                    sql + warning);
  }
  if (known.facts.in_recovery) {
    return fail(ErrorKind::configuration, missing + " and cannot be created on a standby",
                "run on the primary: " + sql + warning);
  }
  if (!known.facts.may_create_in_database) {
    return fail(ErrorKind::configuration,
                missing + ", and role \"" + known.facts.role +
                    "\" may not create it in database \"" + known.facts.database + "\"",
                "run as a role that may (owner of the table, with CREATE on the database): " + sql +
                    warning);
  }
  for (const OutboxTable& table : tables) {
    if (!table.facts->may_alter) {
      return fail(ErrorKind::configuration,
                  missing + ", and role \"" + known.facts.role + "\" does not own " +
                      quote_table_name(table.facts->name),
                  "run as the owner \"" + table.facts->owner + "\": " + sql + warning);
    }
  }
  if (known.facts.slot) {
    plan.warnings.push_back(
        publication_name(known) + " is made after the slot \"" + known.source.slot +
        "\": the server cannot decode with it what was written before, and then says that the "
        "publication does not exist");
  }
  plan.statements.push_back(sql);
  return {};
}

Result<> check_publishes(const Case& known, const std::vector<OutboxTable>& tables) {
  const PublicationFacts& publication = *known.facts.publication;
  if (!publication.publishes_insert) {
    std::vector<std::string> kinds = {"insert"};
    for (const auto& [published, kind] : {std::pair(publication.publishes_update, "update"),
                                          std::pair(publication.publishes_delete, "delete"),
                                          std::pair(publication.publishes_truncate, "truncate")}) {
      if (published) {
        kinds.emplace_back(kind);
      }
    }
    return fail(ErrorKind::configuration, publication_name(known) + " does not publish inserts",
                "run " + alter(known) + " SET (publish = '" + join(kinds, ", ") + "')" +
                    passed_rows_warning(known));
  }
  for (const OutboxTable& table : tables) {
    if (table.facts->kind == 'p' && !publication.via_root) {
      return fail(ErrorKind::configuration,
                  publication_name(known) + " publishes the partitions of " +
                      quote_table_name(table.facts->name) + " under their own names",
                  "run " + alter(known) + " SET (publish_via_partition_root = true)");
    }
  }
  return {};
}

Result<> check_membership(const Case& known, const std::vector<OutboxTable>& tables) {
  std::vector<std::string> missing;
  for (const OutboxTable& table : tables) {
    if (known.facts.published.count(table.facts->name) == 0) {
      missing.push_back(quote_table_name(table.facts->name));
    }
  }
  if (missing.empty()) {
    return {};
  }
  return fail(
      ErrorKind::configuration,
      publication_name(known) + " lacks " + join(missing, " and ") +
          ", whose rows would be passed over",
      "run " + alter(known) + " ADD TABLE " + join(missing, ", ") + passed_rows_warning(known));
}

std::string add_again(const Case& known, const std::string& table) {
  return "run in one transaction, so that no row falls between: BEGIN; " + alter(known) +
         " DROP TABLE " + table + "; " + alter(known) + " ADD TABLE " + table + "; COMMIT";
}

Result<> check_columns(const Case& known, const OutboxTable& table, const PublishedTable& published,
                       StartPlan& plan) {
  const auto is_published = [&](const std::string& name) {
    return std::find(published.columns.begin(), published.columns.end(), name) !=
           published.columns.end();
  };
  const std::string name = quote_table_name(table.facts->name);
  for (const Column& column : table.used_columns) {
    if (is_published(column.name)) {
      continue;
    }
    const std::string what = "column \"" + column.name + "\" of " + name;
    if (table.facts->generated.count(column.name) > 0) {
      return fail(ErrorKind::configuration,
                  publication_name(known) + " leaves out the generated " + what,
                  "run " + alter(known) + " SET (publish_generated_columns = stored)");
    }
    return fail(ErrorKind::configuration,
                publication_name(known) + " has a column list without " + what,
                add_again(known, name));
  }
  for (const Column& column : table.facts->columns) {
    if (!is_published(column.name) && table.facts->generated.count(column.name) == 0) {
      plan.warnings.push_back(publication_name(known) + " has a column list for " + name +
                              ": it has to be extended before another column can be used");
      break;
    }
  }
  return {};
}

}  // namespace

std::string create_publication_sql(const std::string& publication,
                                   const std::vector<QualifiedName>& tables,
                                   bool generated_columns) {
  std::vector<std::string> names;
  for (const QualifiedName& table : tables) {
    names.push_back(quote_table_name(table));
  }
  return "CREATE PUBLICATION " + quote_identifier(publication) + " FOR TABLE " + join(names, ", ") +
         " WITH (publish = 'insert', publish_via_partition_root = true" +
         (generated_columns ? ", publish_generated_columns = stored" : "") + ")";
}

Result<> check_publication(const Case& known, const std::vector<OutboxTable>& tables,
                           StartPlan& plan) {
  if (!known.facts.publication) {
    return plan_creation(known, tables, plan);
  }
  OUTRIDER_TRY(check_publishes(known, tables));
  OUTRIDER_TRY(check_membership(known, tables));
  for (const OutboxTable& table : tables) {
    const PublishedTable& published = known.facts.published.at(table.facts->name);
    const std::string name = quote_table_name(table.facts->name);
    if (published.has_row_filter) {
      return fail(ErrorKind::configuration,
                  publication_name(known) + " has a row filter for " + name +
                      ", the rows it hides would be passed over",
                  add_again(known, name) + passed_rows_warning(known));
    }
    if (published.columns_known) {
      OUTRIDER_TRY(check_columns(known, table, published, plan));
    }
  }
  if (known.facts.publication->all_tables) {
    plan.warnings.push_back(publication_name(known) +
                            " is FOR ALL TABLES: the server sends every insert of the database and "
                            "the relay throws the others away");
  }
  return {};
}

}  // namespace outrider
