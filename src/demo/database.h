// Database: one blocking connection of the application's side, apart from the relay's.
//
// Statements here are short; a signal is noticed between them. Errors repeat the server's message
// but never the conninfo. Limits: a result is held whole.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "outrider/base/result.h"

struct pg_conn;

namespace outrider::demo {

using Rows = std::vector<std::vector<std::string>>;  ///< NULL is an empty text.

class Database {
 public:
  static Result<Database> connect(const std::string& conninfo);

  /// Run one or several statements in one round trip; rows of all that return some.
  Result<Rows> run(const std::string& sql);

  /// As run(), the first column of the first row; empty if there is none.
  Result<std::string> value(const std::string& sql);

  /// "15.20".
  std::string server_version() const;

 private:
  struct Close {
    void operator()(pg_conn* connection) const;
  };
  explicit Database(pg_conn* connection) : connection_(connection) {}

  std::unique_ptr<pg_conn, Close> connection_;
};

}  // namespace outrider::demo
