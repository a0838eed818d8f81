// SqlSession: one database connection used statement by statement, waiting for each.
//
// For commands of their own (init, doctor, teardown), not part of the relay's loop. Owns its loop
// and connection. Blocks, at most kStatementTimeout a statement; SIGINT and SIGTERM end the wait.
// Errors: those of the connection and of the server, with the SQLSTATE.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/loop/event_loop.h"
#include "postgres/connection.h"

namespace outrider {

inline constexpr std::chrono::seconds kStatementTimeout{60};

class SqlSession {
 public:
  struct Options {
    std::string application_name;
    bool replication = false;  ///< As a walsender, which takes replication commands too.
    std::string dsn_name = "source.dsn";
  };

  static Result<std::unique_ptr<SqlSession>> open(const std::string& conninfo,
                                                  const Options& options);

  Result<QueryResult> query(const std::string& sql);

  /// Where the connection leads.
  std::string host() const { return connection_->host(); }

 private:
  SqlSession() = default;

  Result<> wait_for(Connection::State state);

  SystemClock clock_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace outrider
