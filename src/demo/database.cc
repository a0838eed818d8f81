#include "demo/database.h"

#include <libpq-fe.h>

#include <array>

namespace outrider::demo {
namespace {

struct Clear {
  void operator()(PGresult* result) const { PQclear(result); }
};
using ResultHandle = std::unique_ptr<PGresult, Clear>;

std::string first_line(const char* text) {
  std::string line = text == nullptr ? "" : text;
  line.resize(std::min(line.size(), line.find('\n')));
  return line;
}

void append_rows(const PGresult* result, Rows& rows) {
  for (int row = 0; row < PQntuples(result); ++row) {
    std::vector<std::string>& fields = rows.emplace_back();
    for (int column = 0; column < PQnfields(result); ++column) {
      fields.emplace_back(PQgetvalue(result, row, column),
                          static_cast<std::size_t>(PQgetlength(result, row, column)));
    }
  }
}

Error statement_error(const PGresult* result) {
  const char* code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  return Error{
      ErrorKind::fatal,
      "the database said: " + first_line(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)), "",
      code == nullptr ? "" : code};
}

}  // namespace

void Database::Close::operator()(pg_conn* connection) const { PQfinish(connection); }

Result<Database> Database::connect(const std::string& conninfo) {
  // What stands after dbname wins over the conninfo in it, what stands before gives way.
  const std::array<const char*, 4> names = {"connect_timeout", "fallback_application_name",
                                            "dbname", nullptr};
  const std::array<const char*, 4> values = {"10", "outrider demo", conninfo.c_str(), nullptr};
  Database database(PQconnectdbParams(names.data(), values.data(), 1));
  pg_conn* connection = database.connection_.get();
  if (connection == nullptr || PQstatus(connection) != CONNECTION_OK) {
    return fail(ErrorKind::configuration,
                "cannot connect to the database: " + first_line(PQerrorMessage(connection)));
  }
  PQsetNoticeProcessor(
      connection, [](void*, const char*) {}, nullptr);
  return database;
}

Result<Rows> Database::run(const std::string& sql) {
  pg_conn* connection = connection_.get();
  if (PQsendQuery(connection, sql.c_str()) == 0) {
    return fail(ErrorKind::transient, "the database: " + first_line(PQerrorMessage(connection)));
  }
  Rows rows;
  Result<> outcome;
  while (const ResultHandle result{PQgetResult(connection)}) {
    switch (PQresultStatus(result.get())) {
      case PGRES_TUPLES_OK:
        append_rows(result.get(), rows);
        break;
      case PGRES_COMMAND_OK:
      case PGRES_EMPTY_QUERY:
        break;
      default:
        if (outcome) outcome = fail(statement_error(result.get()));
    }
  }
  if (!outcome) return fail(outcome.error());
  return rows;
}

Result<std::string> Database::value(const std::string& sql) {
  OUTRIDER_TRY(Rows rows, run(sql));
  return rows.empty() || rows[0].empty() ? std::string() : rows[0][0];
}

std::string Database::server_version() const {
  const char* text = PQparameterStatus(connection_.get(), "server_version");
  const std::string whole = text == nullptr ? "" : text;
  return whole.substr(0, whole.find(' '));
}

}  // namespace outrider::demo
