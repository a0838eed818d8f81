#include "app/init_command.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "outrider/config/secrets.h"
#include "postgres/connection.h"
#include "postgres/init_sql.h"

namespace outrider {
namespace {

constexpr std::chrono::seconds kStatementTimeout{60};

/// One connection used statement by statement, waiting for each.
class SqlSession {
 public:
  static Result<std::unique_ptr<SqlSession>> open(const std::string& conninfo) {
    std::unique_ptr<SqlSession> session(new SqlSession);
    OUTRIDER_TRY(session->loop_, EventLoop::create());
    ConnectionOptions options;
    options.dsn = [conninfo]() -> Result<std::string> { return conninfo; };
    options.application_name = "outrider_init";
    session->connection_ = std::make_unique<Connection>(*session->loop_, options);
    OUTRIDER_TRY(session->connection_->open(session->clock_.now()));
    OUTRIDER_TRY(session->wait_for(Connection::State::idle));
    return session;
  }

  Result<QueryResult> query(const std::string& sql) {
    OUTRIDER_TRY(connection_->send(sql, clock_.now(), kStatementTimeout));
    OUTRIDER_TRY(wait_for(Connection::State::idle));
    std::optional<Answer> answer = connection_->take_answer();
    if (!answer) {
      return fail(ErrorKind::transient, "the server gave no answer", "run the command again");
    }
    if (answer->error) {
      return fail(classify_server_error("the statement was refused", *answer->error));
    }
    return std::move(answer->rows);
  }

 private:
  SqlSession() = default;

  Result<> wait_for(Connection::State state) {
    while (connection_->state() != state) {
      loop_->wait(connection_->deadline());
      if (loop_->take_signals().stop > 0) {
        return fail(ErrorKind::transient, "interrupted", "run the command again");
      }
      OUTRIDER_TRY(connection_->drive(clock_.now()));
    }
    return {};
  }

  SystemClock clock_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Connection> connection_;
};

Result<PipelineConfig> choose_pipeline(const std::function<Result<LoadedConfig>()>& load,
                                       const InitFlags& flags) {
  if (!load) {
    return PipelineConfig{};
  }
  OUTRIDER_TRY(LoadedConfig loaded, load());
  for (PipelineConfig& pipeline : loaded.config.pipelines) {
    if (flags.pipeline.empty() ? loaded.config.pipelines.size() == 1
                               : pipeline.name == flags.pipeline) {
      return std::move(pipeline);
    }
  }
  std::string names;
  for (const PipelineConfig& pipeline : loaded.config.pipelines) {
    names += (names.empty() ? "" : ", ") + pipeline.name;
  }
  return fail(ErrorKind::configuration,
              flags.pipeline.empty() ? "the configuration has several pipelines"
                                     : "there is no pipeline \"" + flags.pipeline + "\"",
              "name one with --pipeline: " + names);
}

Result<> run_statements(SqlSession& session, const std::vector<InitStatement>& statements) {
  std::size_t number = 0;
  for (const InitStatement& statement : statements) {
    std::printf("[%zu/%zu] %s ... ", ++number, statements.size(), statement.purpose.c_str());
    std::fflush(stdout);
    auto done = session.query(statement.sql);
    std::printf("%s\n", done ? "done" : "failed");
    if (!done) {
      return fail(std::move(done).error());
    }
  }
  return {};
}

}  // namespace

Result<> init_command(const std::function<Result<LoadedConfig>()>& load, const InitFlags& flags) {
  OUTRIDER_TRY(PipelineConfig pipeline, choose_pipeline(load, flags));
  OUTRIDER_TRY(std::string conninfo,
               resolve_conninfo(flags.dsn.empty() ? pipeline.source.dsn : SecretText{flags.dsn}));
  InitOptions options;
  options.role = flags.role;
  std::unique_ptr<SqlSession> session;
  if (!conninfo.empty()) {
    OUTRIDER_TRY(session, SqlSession::open(conninfo));
    OUTRIDER_TRY(QueryResult facts,
                 session->query("SELECT pg_catalog.current_database() AS database, "
                                "pg_catalog.current_setting('output_plugin_libraries', true) "
                                "AS libraries"));
    options.database = facts.text(0, "database");
    const bool allowed = facts.text(0, "libraries").find("wal2json") != std::string::npos;
    options.plugin = allowed ? Plugin::wal2json : Plugin::pgoutput;
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
  OUTRIDER_TRY(auto statements, init_statements(pipeline, options));
  return run_statements(*session, statements);
}

}  // namespace outrider
