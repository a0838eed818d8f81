#include "postgres/init_sql.h"

#include <algorithm>
#include <set>

#include "outrider/route/outbox_layout.h"
#include "postgres/dead_letter_schema.h"
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
  return {
      InitPart::role,
      "role of the relay: may log in and replicate, nothing else (no password is set here)",
      do_block(body),
      "SELECT 1 FROM pg_catalog.pg_roles r WHERE r.rolname = " + quote_literal(role) +
          " AND r.rolcanlogin AND (r.rolreplication OR EXISTS (SELECT 1 FROM pg_catalog.pg_roles h "
          "WHERE h.rolname = 'rds_replication' AND pg_catalog.pg_has_role(r.oid, h.oid, 'USAGE')))",
  };
}

InitStatement grant_connect(const InitOptions& options) {
  return {
      InitPart::grant,
      "the role may connect to this database",
      "GRANT CONNECT ON DATABASE " + quote_identifier(options.database) + " TO " +
          quote_identifier(options.role),
      "SELECT 1 FROM pg_catalog.pg_database d, pg_catalog.aclexplode(d.datacl) a, "
      "pg_catalog.pg_roles r WHERE d.datname = " +
          quote_literal(options.database) + " AND r.rolname = " + quote_literal(options.role) +
          " AND a.grantee = r.oid AND a.privilege_type = 'CONNECT'",
  };
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
      statements.push_back({
          InitPart::schema,
          "schema " + quote_identifier(table.schema) + " of the outbox table",
          "CREATE SCHEMA IF NOT EXISTS " + quote_identifier(table.schema),
          "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = " + quote_literal(table.schema),
      });
    }
    statements.push_back({
        InitPart::table,
        "outbox table " + quote_table_name(table) + ", if it is missing",
        create_table_sql(table, pipeline.outbox.columns, pipeline.outbox.headers),
        "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
        "ON n.oid = c.relnamespace WHERE n.nspname = " +
            quote_literal(table.schema) + " AND c.relname = " + quote_literal(table.table),
    });
  }
}

void add_dead_letters(const std::string& role, std::vector<InitStatement>& statements) {
  statements.push_back({
      InitPart::schema,
      "schema outrider of the dead-letter table",
      "CREATE SCHEMA IF NOT EXISTS outrider",
      "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = 'outrider'",
  });
  statements.push_back({
      InitPart::dead_letters,
      "dead-letter table outrider.dead_letters and view outrider.outbox_dead_letters",
      dead_letter_objects_sql(),
      dead_letter_objects_present_sql(),
  });
  if (!role.empty()) {
    statements.push_back({
        InitPart::grant,
        "the role may write, read and delete dead letters",
        dead_letter_grants_sql(role),
        dead_letter_grants_present_sql(role),
    });
  }
}

// CREATE PUBLICATION for the first run, ADD TABLE for a table that joined the configuration since.
InitStatement create_publication(const SourceConfig& source,
                                 const std::vector<QualifiedName>& tables) {
  const std::string name = quote_literal(source.publication);
  std::string body = if_missing("SELECT FROM pg_catalog.pg_publication WHERE pubname = " + name,
                                create_publication_sql(source.publication, tables, false));
  std::string present = "SELECT 1 FROM pg_catalog.pg_publication WHERE pubname = " + name;
  for (const QualifiedName& table : tables) {
    const std::string member = "FROM pg_catalog.pg_publication_tables WHERE pubname = " + name +
                               " AND schemaname = " + quote_literal(table.schema) +
                               " AND tablename = " + quote_literal(table.table);
    body +=
        if_missing("SELECT " + member, "ALTER PUBLICATION " + quote_identifier(source.publication) +
                                           " ADD TABLE " + quote_table_name(table));
    present += " AND EXISTS (SELECT 1 " + member + ")";
  }
  return {InitPart::publication,
          "publication " + quote_identifier(source.publication) +
              ": inserts into the outbox, nothing else (read by pgoutput)",
          do_block(body), present};
}

InitStatement create_slot(const SourceConfig& source, const InitOptions& options) {
  Plugin plugin = options.plugin;
  if (source.plugin != PluginChoice::automatic) {
    plugin = source.plugin == PluginChoice::wal2json ? Plugin::wal2json : Plugin::pgoutput;
  }
  const std::string name = quote_literal(source.slot);
  // A slot of that name in another database is no slot of ours: the server then refuses (42710).
  const std::string there = "FROM pg_catalog.pg_replication_slots WHERE slot_name = " + name +
                            " AND database = pg_catalog.current_database()";
  return {InitPart::slot,
          "slot " + source.slot + ": from here on the server keeps WAL until the relay confirms it",
          "SELECT pg_catalog.pg_create_logical_replication_slot(" + name + ", " +
              quote_literal(to_string(plugin)) + ")\nWHERE NOT EXISTS (SELECT " + there + ")",
          "SELECT 1 " + there, true};
}

constexpr int kReplicationCanBeGiven = 160000;  ///< By others than superusers.

bool needs(const std::vector<InitStatement>& missing, InitPart part) {
  return std::any_of(missing.begin(), missing.end(),
                     [part](const InitStatement& each) { return each.part == part; });
}

}  // namespace

bool keeps_dead_letters_here(const PipelineConfig& pipeline) {
  return pipeline.dead_letters.topic.empty() && pipeline.dead_letters.dsn.empty();
}

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
      statements.push_back(grant_connect(options));
    }
  }
  if (options.create_tables) {
    add_tables(pipeline, tables, statements);
  }
  if (keeps_dead_letters_here(pipeline)) {
    add_dead_letters(options.role, statements);
  }
  statements.push_back(create_publication(pipeline.source, tables));
  if (options.create_slot) {
    statements.push_back(create_slot(pipeline.source, options));
  }
  return statements;
}

Result<> check_init(const ServerFacts& facts, const std::vector<InitStatement>& missing) {
  if (missing.empty()) {
    return {};
  }
  OUTRIDER_TRY(check_wal_level(facts));
  if (facts.is_superuser) {
    return {};
  }
  std::vector<std::string> lacks;
  if (needs(missing, InitPart::role)) {
    if (facts.version_num < kReplicationCanBeGiven && !facts.lends_replication) {
      lacks.emplace_back("SUPERUSER (to make a role with REPLICATION, before PostgreSQL 16)");
    } else if (!facts.may_create_role) {
      lacks.emplace_back("CREATEROLE");
    }
  }
  if (needs(missing, InitPart::slot) && !facts.may_replicate) {
    lacks.emplace_back("REPLICATION");
  }
  if ((needs(missing, InitPart::publication) || needs(missing, InitPart::schema)) &&
      !facts.may_create_in_database) {
    lacks.push_back("CREATE on database \"" + facts.database + "\"");
  }
  if (lacks.empty()) {
    return {};
  }
  return fail(ErrorKind::configuration,
              "role \"" + facts.role + "\" may not do this, it lacks " + join(lacks, " and "), {},
              "42501");
}

Result<std::string> init_sql(const PipelineConfig& pipeline, const InitOptions& options) {
  OUTRIDER_TRY(const std::vector<InitStatement> statements, init_statements(pipeline, options));
  std::string script =
      "-- Prepares a database for Outrider. Run it with psql as a superuser, or (PostgreSQL 16 "
      "and\n"
      "-- later) as the owner of the database with CREATEROLE and REPLICATION. Every statement "
      "can\n"
      "-- be run again.\n";
  if (options.wal_level.empty() || options.wal_level == "logical") {
    script += "-- wal_level must be 'logical'.\n";
  } else {
    script += "-- wal_level is '" + options.wal_level +
              "' on this server and must be 'logical' first: run ALTER SYSTEM SET wal_level =\n"
              "-- 'logical' and restart PostgreSQL.\n";
  }
  if (!pipeline.dead_letters.dsn.empty() && pipeline.dead_letters.topic.empty()) {
    script +=
        "-- The dead-letter table belongs into the database of dead_letters.dsn: there, run "
        "psql -f\n-- sql/dead_letters.sql.\n";
  }
  script += "\\set ON_ERROR_STOP on\n";
  for (const InitStatement& statement : statements) {
    script += "\n-- " + statement.purpose + "\n" + statement.sql + ";\n";
  }
  return script;
}

}  // namespace outrider
