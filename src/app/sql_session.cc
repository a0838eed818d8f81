#include "app/sql_session.h"

#include <optional>
#include <utility>

namespace outrider {

Result<std::unique_ptr<SqlSession>> SqlSession::open(const std::string& conninfo,
                                                     const Options& options) {
  std::unique_ptr<SqlSession> session(new SqlSession);
  OUTRIDER_TRY(session->loop_, EventLoop::create());
  ConnectionOptions how;
  how.dsn = [conninfo]() -> Result<std::string> { return conninfo; };
  how.application_name = options.application_name;
  how.replication = options.replication;
  how.dsn_name = options.dsn_name;
  session->connection_ = std::make_unique<Connection>(*session->loop_, how);
  OUTRIDER_TRY(session->connection_->open(session->clock_.now()));
  OUTRIDER_TRY(session->wait_for(Connection::State::idle));
  return session;
}

Result<QueryResult> SqlSession::query(const std::string& sql) {
  if (connection_->state() != Connection::State::idle) {
    return fail(ErrorKind::transient, "the connection to PostgreSQL was lost",
                "run the command again");
  }
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

Result<> SqlSession::wait_for(Connection::State state) {
  while (connection_->state() != state) {
    loop_->wait(connection_->deadline());
    if (loop_->take_signals().stop > 0) {
      return fail(ErrorKind::transient, "interrupted", "run the command again");
    }
    OUTRIDER_TRY(connection_->drive(clock_.now()));
  }
  return {};
}

}  // namespace outrider
