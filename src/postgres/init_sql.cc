#include "postgres/init_sql.h"

#include <set>

#include "outrider/route/outbox_layout.h"
#include "postgres/preflight_judge.h"
#include "postgres/sql_text.h"

namespace outrider {

namespace {

/// DO with a dollar quote that the body does not contain.
std::string do_block(const std::string& body) {
  std::string tag = "$outrider$";
  while (body.find(tag) != std::string::npos) {
    tag.insert(tag.size() - 1, "_");
  }
  return "DO " + tag + "\nBEGIN\n" + body + "END\n" + tag;
}

std::string if_missing(const std::string& query, const std::string& statement) {
  return "  IF NOT EXISTS (" + query + ") THEN\n    " + statement + ";\n  END IF;\n";
}

std::string column_or(const std::string& mapped, const std::string& otherwise) {
  return quote_identifier(mapped.empty() ? otherwise : mapped);
}

InitStatement create_role(const std::string& role) {
  const std::string name = quote_identifier(role);
  std::string body =
      if_missing("SELECT FROM pg_catalog.pg_roles WHERE rolname = " + quote_literal(role),
                 "CREATE ROLE " + name + " LOGIN");
  // A hosted service may not give REPLICATION away, but a role that lends it.
  body +=
      "  IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'rds_replication') THEN\n"
      "    GRANT rds_replication TO " +
      name +
      ";\n"
      "  ELSIF NOT (SELECT rolreplication FROM pg_catalog.pg_roles WHERE rolname = " +
      quote_literal(role) + ") THEN\n    ALTER ROLE " + name + " REPLICATION;\n  END IF;\n";
  return {"role of the relay: may replicate and nothing else; give it a password with \\password",
          do_block(body), false};
}

std::string create_table_sql(const QualifiedName& table, const ColumnMapping& columns,
                             const std::vector<HeaderColumn>& headers) {
  std::string sql = "CREATE TABLE IF NOT EXISTS " + quote_table_name(table) + " (\n  " +
                    column_or(columns.id, "id") +
                    " uuid PRIMARY KEY DEFAULT gen_random_uuid(),\n  " +
                    column_or(columns.aggregate_type, "aggregate_type") + " text NOT NULL,\n  " +
                    column_or(columns.aggregate_id, "aggregate_id") + " text NOT NULL,\n  " +
                    column_or(columns.event_type, "event_type") + " text NOT NULL,\n  " +
                    column_or(columns.payload, "payload") + " jsonb,\n";
  std::set<std::string> taken = {columns.id,         columns.aggregate_type, columns.aggregate_id,
                                 columns.event_type, columns.payload,        "id",
                                 "aggregate_type",   "aggregate_id",         "event_type",
                                 "payload",          "created_at",           "attempts",
                                 "processed_at"};
  for (const HeaderColumn& header : headers) {
    if (taken.insert(header.column).second) {
      sql += "  " + quote_identifier(header.column) + " text,\n";
    }
  }
  return sql +
         "  created_at timestamptz NOT NULL DEFAULT now(),\n"
         "  attempts integer NOT NULL DEFAULT 0,\n"
         "  processed_at timestamptz\n)";
}

void add_tables(const PipelineConfig& pipeline, const std::vector<QualifiedName>& tables,
                std::vector<InitStatement>& statements) {
  for (const QualifiedName& table : tables) {
    if (table.schema != "public") {
      statements.push_back({"schema of the outbox table",
                            "CREATE SCHEMA IF NOT EXISTS " + quote_identifier(table.schema),
                            false});
    }
    statements.push_back({"outbox table, if it is missing",
                          create_table_sql(table, pipeline.outbox.columns, pipeline.outbox.headers),
                          false});
  }
}

// CREATE PUBLICATION for the first run, ADD TABLE for a table that joined the configuration since.
InitStatement create_publication(const SourceConfig& source,
                                 const std::vector<QualifiedName>& tables) {
  const std::string name = quote_literal(source.publication);
  std::string body = if_missing("SELECT FROM pg_catalog.pg_publication WHERE pubname = " + name,
                                create_publication_sql(source.publication, tables, false));
  for (const QualifiedName& table : tables) {
    body += if_missing("SELECT FROM pg_catalog.pg_publication_tables WHERE pubname = " + name +
                           " AND schemaname = " + quote_literal(table.schema) +
                           " AND tablename = " + quote_literal(table.table),
                       "ALTER PUBLICATION " + quote_identifier(source.publication) + " ADD TABLE " +
                           quote_table_name(table));
  }
  return {"publication: inserts into the outbox, nothing else (read by pgoutput)", do_block(body),
          false};
}

InitStatement create_slot(const SourceConfig& source, const InitOptions& options) {
  Plugin plugin = options.plugin;
  if (source.plugin != PluginChoice::automatic) {
    plugin = source.plugin == PluginChoice::wal2json ? Plugin::wal2json : Plugin::pgoutput;
  }
  const std::string name = quote_literal(source.slot);
  return {
      "slot: from here on the server keeps WAL until the relay has confirmed it",
      "SELECT pg_catalog.pg_create_logical_replication_slot(" + name + ", " +
          quote_literal(to_string(plugin)) +
          ")\nWHERE NOT EXISTS (SELECT FROM pg_catalog.pg_replication_slots WHERE slot_name = " +
          name + ")",
      true};
}

}  // namespace

Result<std::vector<InitStatement>> init_statements(const PipelineConfig& pipeline,
                                                   const InitOptions& options) {
  std::vector<QualifiedName> tables;
  for (const std::string& text : pipeline.outbox.tables) {
    OUTRIDER_TRY(QualifiedName name, parse_table_name(text));
    tables.push_back(std::move(name));
  }
  if (tables.empty()) {
    return fail(ErrorKind::configuration, "no outbox table is configured",
                "set outbox.tables to at least one table");
  }
  std::vector<InitStatement> statements;
  if (!options.role.empty()) {
    statements.push_back(create_role(options.role));
    if (!options.database.empty()) {
      statements.push_back({"the relay connects to this database",
                            "GRANT CONNECT ON DATABASE " + quote_identifier(options.database) +
                                " TO " + quote_identifier(options.role),
                            false});
    }
  }
  if (options.create_tables) {
    add_tables(pipeline, tables, statements);
  }
  statements.push_back(create_publication(pipeline.source, tables));
  if (options.create_slot) {
    statements.push_back(create_slot(pipeline.source, options));
  }
  return statements;
}

Result<std::string> init_sql(const PipelineConfig& pipeline, const InitOptions& options) {
  OUTRIDER_TRY(const std::vector<InitStatement> statements, init_statements(pipeline, options));
  std::string script =
      "-- Prepares a database for Outrider. Run it with psql as a superuser, or as the owner of\n"
      "-- the database with CREATEROLE and REPLICATION. Every statement can be run again.\n"
      "-- wal_level must be 'logical'.\n\\set ON_ERROR_STOP on\n";
  for (const InitStatement& statement : statements) {
    script += "\n-- " + statement.purpose + "\n" + statement.sql + ";\n";
  }
  return script;
}

}  // namespace outrider
