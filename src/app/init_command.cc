#include "app/init_command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "app/sql_session.h"
#include "outrider/config/secrets.h"
#include "postgres/dead_letter_facts.h"
#include "postgres/init_sql.h"
#include "postgres/preflight_judge.h"
#include "postgres/schema_upgrade.h"
#include "postgres/server_facts.h"
#include "postgres/sql_text.h"

namespace outrider {
namespace {

constexpr char kName[] = "outrider_init";

std::string quoted_yaml(const std::string& text) {
  std::string out = "'";
  for (char c : text) {
    out += c == '\'' ? "''" : std::string(1, c);
  }
  return out + "'";
}

/// --slot, --publication and --table are --set in short, so that they are judged like it.
std::vector<std::string> sets_of(const InitFlags& flags) {
  const std::string pipeline = "pipelines." + (flags.pipeline.empty() ? "0" : flags.pipeline);
  std::vector<std::string> sets;
  if (!flags.slot.empty()) {
    sets.push_back(pipeline + ".source.slot=" + flags.slot);
  }
  if (!flags.publication.empty()) {
    sets.push_back(pipeline + ".source.publication=" + flags.publication);
  }
  std::string tables;
  for (const std::string& table : flags.tables) {
    tables += (tables.empty() ? "" : ", ") + quoted_yaml(table);
  }
  if (!tables.empty()) {
    sets.push_back(pipeline + ".outbox.tables=[" + tables + "]");
  }
  return sets;
}

/// Who may not do it is mostly the relay's own role, out of the configuration.
Error with_administrator_hint(Error error, const InitFlags& flags) {
  if (error.kind != ErrorKind::configuration) {
    return error;
  }
  const std::string who =
      "a superuser, or from PostgreSQL 16 on the owner of the database with CREATEROLE and "
      "REPLICATION";
  if (flags.dsn.empty()) {
    error.hint =
        "source.dsn is the relay's connection and init needs an administrator's: give it as --dsn "
        "'host=… dbname=… user=postgres' (" +
        who + ")";
  } else {
    error.hint = "connect with --dsn as " + who;
  }
  return error;
}

bool is_permission(const Error& error) { return error.code == "42501"; }

struct Step {
  InitStatement statement;
  bool is_there = false;
};

Result<std::vector<Step>> look(SqlSession& session, std::vector<InitStatement> statements) {
  std::vector<Step> steps;
  for (InitStatement& statement : statements) {
    OUTRIDER_TRY(QueryResult rows, session.query(statement.present));
    steps.push_back({std::move(statement), !rows.rows.empty()});
  }
  return steps;
}

Result<> run_steps(SqlSession& session, const std::vector<Step>& steps, const InitFlags& flags) {
  std::size_t number = 0;
  for (const Step& step : steps) {
    std::printf("[%zu/%zu] %s ... ", ++number, steps.size(), step.statement.purpose.c_str());
    std::fflush(stdout);
    if (step.is_there) {
      std::printf("already there\n");
      continue;
    }
    auto done = session.query(step.statement.sql);
    std::printf("%s\n", done ? "done" : "failed");
    std::fflush(stdout);
    if (done) {
      continue;
    }
    Error error = std::move(done).error();
    if (step.statement.part == InitPart::slot && error.code == "42710") {
      error.kind = ErrorKind::configuration;
      error.hint = "it belongs to another database of the server: choose another name (--slot)";
    }
    return fail(is_permission(error) && step.statement.part != InitPart::slot
                    ? with_administrator_hint(std::move(error), flags)
                    : std::move(error));
  }
  return {};
}

void print_next_steps(const PipelineConfig& pipeline, const InitFlags& flags) {
  const SourceConfig defaults;
  std::string settings;
  if (pipeline.source.slot != defaults.slot) {
    settings += ", source.slot: " + pipeline.source.slot;
  }
  if (pipeline.source.publication != defaults.publication) {
    settings += ", source.publication: " + pipeline.source.publication;
  }
  std::printf("\nNext:\n");
  if (!flags.role.empty()) {
    std::printf("  - give the role a password, if it has none yet, in psql: \\password %s\n",
                flags.role.c_str());
  }
  std::printf("  - in the configuration: source.dsn with %s%s\n",
              flags.role.empty() ? "the relay's role" : ("user " + flags.role).c_str(),
              settings.c_str());
  if (!pipeline.dead_letters.dsn.empty() && pipeline.dead_letters.topic.empty()) {
    std::printf("  - in the database of dead_letters.dsn: psql -f sql/dead_letters.sql%s%s\n",
                flags.role.empty() ? "" : " -v role=", flags.role.c_str());
  }
  std::printf("  - outrider check-config -c FILE, then outrider run -c FILE\n");
}

Result<> check_plugin(const PipelineConfig& pipeline, const ServerFacts& facts, bool allowed) {
  if (pipeline.source.plugin != PluginChoice::wal2json || !facts.output_plugin_libraries ||
      allowed) {
    return {};
  }
  return fail(ErrorKind::configuration,
              "output plugin \"wal2json\" is not allowed by output_plugin_libraries (" +
                  *facts.output_plugin_libraries + ")",
              "run " + allow_plugin_sql(facts.output_plugin_libraries, "wal2json") +
                  ", or set source.plugin: pgoutput");
}

Result<> apply(SqlSession& session, const PipelineConfig& pipeline, const InitOptions& options,
               const ServerFacts& facts, const InitFlags& flags) {
  OUTRIDER_TRY(std::vector<InitStatement> statements, init_statements(pipeline, options));
  OUTRIDER_TRY(const std::vector<Step> steps, look(session, std::move(statements)));
  std::vector<InitStatement> missing;
  for (const Step& step : steps) {
    if (!step.is_there) {
      missing.push_back(step.statement);
    }
  }
  if (auto able = check_init(facts, missing); !able) {
    return fail(is_permission(able.error())
                    ? with_administrator_hint(std::move(able).error(), flags)
                    : std::move(able).error());
  }
  if (!missing.empty() && missing.back().part == InitPart::slot) {
    OUTRIDER_TRY(check_plugin(pipeline, facts, options.plugin == Plugin::wal2json));
  }
  auto done = run_steps(session, steps, flags);
  if (!done && pipeline.source.plugin == PluginChoice::automatic &&
      is_plugin_unavailable(done.error().code, done.error().message, options.plugin) &&
      options.plugin == Plugin::wal2json) {
    std::printf(
        "the server allows wal2json and does not have it: the slot is made with pgoutput\n");
    InitOptions instead = options;
    instead.plugin = Plugin::pgoutput;
    return apply(session, pipeline, instead, facts, flags);
  }
  OUTRIDER_TRY(std::move(done));
  print_next_steps(pipeline, flags);
  return {};
}

/// The version of schema outrider; nothing: there is none.
Result<std::optional<int>> schema_version(SqlSession& session) {
  OUTRIDER_TRY(const QueryResult there, session.query(schema_present_sql()));
  if (there.text(0, "has_table") != "t") return std::optional<int>();
  if (there.text(0, "has_version") != "t") return std::optional<int>(0);
  OUTRIDER_TRY(const QueryResult rows, session.query(schema_version_sql()));
  OUTRIDER_TRY(const int version,
               parse_schema_version(rows.rows.empty() ? std::nullopt : rows.rows.front().front()));
  return std::optional<int>(version);
}

Result<> upgrade(SqlSession& session, const ServerFacts& facts, const InitFlags& flags) {
  const std::string where = "schema outrider of database \"" + facts.database + "\"";
  OUTRIDER_TRY(const std::optional<int> version, schema_version(session));
  if (!version) {
    return fail(ErrorKind::configuration,
                "there is nothing to upgrade: " + where + " has no dead-letter table",
                "make it with outrider init --apply, or name the database of dead_letters.dsn with "
                "--dsn");
  }
  OUTRIDER_TRY(const std::string sql, schema_upgrade_sql(*version));
  if (sql.empty()) {
    std::printf("nothing to do: %s has version %d, which is this release's\n", where.c_str(),
                *version);
    return {};
  }
  if (!flags.apply) {
    std::printf("-- %s: from version %d to %d\n\\set ON_ERROR_STOP on\nBEGIN;\n%sCOMMIT;\n",
                where.c_str(), *version, kDeadLetterSchemaVersion, sql.c_str());
    return {};
  }
  // Statements that are sent together are one transaction (manual, "Simple Query").
  if (auto done = session.query(sql); !done) {
    return fail(is_permission(done.error())
                    ? with_administrator_hint(std::move(done).error(), flags)
                    : std::move(done).error());
  }
  std::printf("%s is upgraded from version %d to %d\n", where.c_str(), *version,
              kDeadLetterSchemaVersion);
  return {};
}

}  // namespace

Result<PipelineConfig> choose_pipeline(LoadRequest request, const InitFlags& flags) {
  for (std::string& set : sets_of(flags)) {
    request.sets.push_back(std::move(set));
  }
  request.complete = false;
  OUTRIDER_TRY(LoadedConfig loaded, load_config(request));
  std::vector<PipelineConfig>& pipelines = loaded.config.pipelines;
  if (pipelines.empty() && flags.pipeline.empty()) {
    return PipelineConfig{};
  }
  std::string names;
  for (PipelineConfig& pipeline : pipelines) {
    if (flags.pipeline.empty() ? pipelines.size() == 1 : pipeline.name == flags.pipeline) {
      return std::move(pipeline);
    }
    names += (names.empty() ? "" : ", ") + pipeline.name;
  }
  return fail(
      ErrorKind::configuration,
      flags.pipeline.empty() ? "the configuration has several pipelines"
                             : "there is no pipeline \"" + flags.pipeline + "\"",
      names.empty() ? "give a configuration with -c" : "name one with --pipeline: " + names);
}

Result<> init_command(const LoadRequest& request, const InitFlags& flags) {
  OUTRIDER_TRY(PipelineConfig pipeline, choose_pipeline(request, flags));
  OUTRIDER_TRY(std::string conninfo,
               resolve_conninfo(flags.dsn.empty() ? pipeline.source.dsn : SecretText{flags.dsn}));
  InitOptions options;
  options.role = flags.role;
  std::unique_ptr<SqlSession> session;
  ServerFacts facts;
  if (!conninfo.empty()) {
    auto opened = SqlSession::open(conninfo, {.application_name = kName});
    if (!opened) {
      return fail(flags.dsn.empty() ? with_administrator_hint(std::move(opened).error(), flags)
                                    : std::move(opened).error());
    }
    session = std::move(*opened);
    OUTRIDER_TRY(const QueryResult rows, session->query(server_statement(kName)));
    take_server(rows, facts);
    options.database = facts.database;
    options.wal_level = facts.wal_level;
    // A row that is hidden from the role, or a server without the setting: not known.
    const auto libraries = split_setting_list(facts.output_plugin_libraries.value_or(""));
    const bool allowed =
        std::find(libraries.begin(), libraries.end(), "wal2json") != libraries.end();
    options.plugin = allowed ? Plugin::wal2json : Plugin::pgoutput;
  }
  if (flags.upgrade) {
    if (session) return upgrade(*session, facts, flags);
    return fail(ErrorKind::configuration, "--upgrade needs a database to connect to",
                "give --dsn, or -c with a file whose pipeline has source.dsn");
  }
  if (!flags.apply) {
    OUTRIDER_TRY(std::string script, init_sql(pipeline, options));
    std::fputs(script.c_str(), stdout);
    return {};
  }
  if (!session) {
    return fail(ErrorKind::configuration, "--apply needs a database to connect to",
                "give --dsn, or -c with a file whose pipeline has source.dsn");
  }
  return apply(*session, pipeline, options, facts, flags);
}

}  // namespace outrider
