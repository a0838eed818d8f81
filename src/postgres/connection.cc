#include "postgres/connection.h"

#include <libpq-fe.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <map>
#include <utility>
#include <vector>

#include "outrider/base/check.h"
#include "postgres/conninfo.h"

namespace outrider {
namespace {

using ResultPtr = std::unique_ptr<PGresult, decltype(&PQclear)>;

constexpr int kTlsReadsMax = 8;

std::string field(const PGresult* result, int code) {
  const char* text = PQresultErrorField(result, code);
  return text == nullptr ? std::string() : std::string(text);
}

void copy_rows(const PGresult* result, QueryResult& rows) {
  rows = QueryResult{};
  int columns = PQnfields(result);
  for (int column = 0; column < columns; ++column) {
    rows.columns.emplace_back(PQfname(result, column));
  }
  for (int row = 0; row < PQntuples(result); ++row) {
    auto& out = rows.rows.emplace_back();
    for (int column = 0; column < columns; ++column) {
      if (PQgetisnull(result, row, column) != 0) {
        out.emplace_back(std::nullopt);
      } else {
        out.emplace_back(std::string(PQgetvalue(result, row, column),
                                     static_cast<std::size_t>(PQgetlength(result, row, column))));
      }
    }
  }
}

std::size_t bytes_waiting(int fd) {
  int waiting = 0;
  return ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0 ? static_cast<std::size_t>(waiting) : 0;
}

}  // namespace

ServerError server_error_of(const pg_result* result) {
  ServerError error;
  error.sqlstate = field(result, PG_DIAG_SQLSTATE);
  error.message = field(result, PG_DIAG_MESSAGE_PRIMARY);
  error.detail = field(result, PG_DIAG_MESSAGE_DETAIL);
  error.hint = field(result, PG_DIAG_MESSAGE_HINT);
  if (error.message.empty()) {
    error.message = PQresultErrorMessage(result);
  }
  return error;
}

// As SELECT, not SET: one statement is all that a walsender before 15 takes, and a setting that
// this version does not have drops out of the join instead of failing.
std::string pin_settings_sql(const ConnectionOptions& options) {
  std::vector<std::pair<const char*, std::string>> settings = {
      {"datestyle", "ISO, MDY"},
      {"intervalstyle", "postgres"},
      {"timezone", "UTC"},
      {"extra_float_digits", "3"},  // Shortest exact since 12; before that enough to round-trip.
      {"bytea_output", "hex"},
      {"lc_monetary", "C"},
      {"quote_all_identifiers", "off"},  // Changes how regclass and its kin are printed.
      {"search_path", "pg_catalog"},     // So does this.
      {"standard_conforming_strings", "on"},
      {"client_min_messages", "warning"},
      {"statement_timeout", "0"},
      {"transaction_timeout", "0"},
      {"idle_in_transaction_session_timeout", "0"},
      {"idle_session_timeout", "0"},
      {"lock_timeout", std::to_string(options.lock_timeout.count())},
      // A backend that waits for a lock notices that its client is gone, so that a slot half made
      // by a killed relay does not come to life later.
      {"client_connection_check_interval", "1000"},
  };
  if (options.replication && options.wal_sender_timeout.count() > 0) {
    settings.emplace_back("wal_sender_timeout", std::to_string(options.wal_sender_timeout.count()));
  }
  if (options.durable_writes) {
    settings.emplace_back("synchronous_commit", "on");
  }
  std::string sql = "SELECT pg_catalog.set_config(s.name, v.value, false) FROM (VALUES ";
  for (const auto& [name, value] : settings) {
    sql += (name == settings.front().first ? "('" : ", ('") + std::string(name) + "', '" + value +
           "')";
  }
  sql +=
      ") AS v(name, value) JOIN pg_catalog.pg_settings s "
      "ON pg_catalog.lower(s.name) = v.name WHERE s.context = 'user'";
  return sql;
}

Connection::Connection(EventLoop& loop, ConnectionOptions options)
    : loop_(loop), options_(std::move(options)) {}

Connection::~Connection() { close(); }

void Connection::close() {
  watch_.reset();
  if (conn_ != nullptr) {
    PQfinish(conn_);
    conn_ = nullptr;
  }
  state_ = State::closed;
  pinning_ = polled_once_ = copy_both_seen_ = false;
  deadline_.reset();
  answer_.reset();
  pending_ = Answer{};
}

Result<> Connection::open(Now now) {
  OUTRIDER_CHECK(state_ == State::closed, "a connection is opened once");
  fatal_notice_.reset();
  OUTRIDER_TRY(std::string dsn, options_.dsn());
  OUTRIDER_TRY(auto values, connection_parameters(dsn, options_, host_rotation_));
  std::vector<const char*> keywords;
  std::vector<const char*> texts;
  for (const auto& [keyword, text] : values) {
    keywords.push_back(keyword.c_str());
    texts.push_back(text.c_str());
  }
  keywords.push_back(nullptr);
  texts.push_back(nullptr);
  conn_ = PQconnectStartParams(keywords.data(), texts.data(), 0);
  if (conn_ == nullptr) {
    return fail(ErrorKind::transient, "cannot connect to PostgreSQL: out of memory");
  }
  PQsetErrorVerbosity(conn_, PQERRORS_VERBOSE);  // The only way to see a refusal's SQLSTATE.
  PQsetNoticeReceiver(conn_, &Connection::keep_notice, this);
  if (PQstatus(conn_) == CONNECTION_BAD) {
    Error error = classify_connect_failure(PQerrorMessage(conn_), false);
    close();
    return fail(std::move(error));
  }
  state_ = State::connecting;
  deadline_ = now.mono + options_.connect_timeout;
  rewatch(false, true);
  return {};
}

/// libpq hands a FATAL that nobody asked for ("terminating connection…") over as a notice.
void Connection::keep_notice(void* self, const pg_result* notice) {
  std::string severity = field(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
  if (severity == "FATAL" || severity == "PANIC") {
    static_cast<Connection*>(self)->fatal_notice_ = server_error_of(notice);
  }
}

void Connection::rewatch(bool readable, bool writable) {
  watch_.reset();
  int fd = PQsocket(conn_);
  if (fd >= 0) {
    watch_ = loop_.watch(fd, readable, writable);
  }
}

void Connection::set_interest(bool readable, bool writable) {
  if (watch_ != nullptr) {
    watch_->set_interest(readable, writable);
  }
}

Result<> Connection::drive(Now now) {
  switch (state_) {
    case State::connecting:
      return conn_ != nullptr && pinning_ ? drive_query(now) : drive_connecting(now);
    case State::querying:
      return drive_query(now);
    case State::idle:
      return drive_idle();
    case State::closed:
    case State::copy_both:
      return {};
  }
  return {};
}

Result<> Connection::drive_connecting(Now now) {
  bool ready = watch_ == nullptr || watch_->readable() || watch_->writable();
  if (ready) {
    return poll_connect(now);
  }
  if (now.mono < *deadline_) {
    return {};
  }
  if (PQstatus(conn_) == CONNECTION_STARTED) {
    // This address does not answer. Ending its socket makes libpq go to the next one.
    (void)shutdown(PQsocket(conn_), SHUT_RDWR);
    deadline_ = now.mono + options_.connect_timeout;
    return poll_connect(now);
  }
  ++host_rotation_;
  std::string where = host();
  close();
  return fail(ErrorKind::transient, "cannot connect to PostgreSQL: no answer from \"" + where +
                                        "\" within " +
                                        std::to_string(options_.connect_timeout.count()) + " ms");
}

Result<> Connection::poll_connect(Now now) {
  std::string before = std::string(PQhost(conn_)) + ":" + PQport(conn_);
  watch_.reset();  // libpq may close the socket and open another under the same number.
  PostgresPollingStatusType status = PQconnectPoll(conn_);
  switch (status) {
    case PGRES_POLLING_READING:
    case PGRES_POLLING_WRITING:
      if (before != std::string(PQhost(conn_)) + ":" + PQport(conn_)) {
        deadline_ = now.mono + options_.connect_timeout;
      }
      rewatch(status == PGRES_POLLING_READING, status == PGRES_POLLING_WRITING);
      return {};
    case PGRES_POLLING_OK:
      return on_connected(now);
    default: {
      Error error =
          classify_connect_failure(PQerrorMessage(conn_), PQconnectionNeedsPassword(conn_) != 0);
      close();
      return fail(std::move(error));
    }
  }
}

Result<> Connection::on_connected(Now now) {
  PQsetErrorVerbosity(conn_, PQERRORS_DEFAULT);
  rewatch(true, false);
  if (PQsetnonblocking(conn_, 1) != 0) {
    return fail(lost("cannot connect to PostgreSQL"));
  }
  pinning_ = true;
  return begin_statement(pin_settings_sql(options_), now, options_.connect_timeout);
}

Result<> Connection::begin_statement(const std::string& sql, Now now,
                                     std::chrono::milliseconds timeout) {
  pending_ = Answer{};
  copy_both_seen_ = false;
  return after_send(PQsendQuery(conn_, sql.c_str()) != 0, now, timeout);
}

Result<> Connection::after_send(bool sent, Now now, std::chrono::milliseconds timeout) {
  if (!sent) {
    return fail(lost("cannot send a statement"));
  }
  deadline_ = timeout.count() > 0 ? std::optional<MonoTime>(now.mono + timeout) : std::nullopt;
  int flushed = PQflush(conn_);
  if (flushed < 0) {
    return fail(lost("cannot send a statement"));
  }
  set_interest(true, flushed > 0);
  return {};
}

Result<> Connection::send(const std::string& sql, Now now, std::chrono::milliseconds timeout) {
  OUTRIDER_CHECK(state_ == State::idle, "one statement at a time");
  answer_.reset();
  state_ = State::querying;
  return begin_statement(sql, now, timeout);
}

Result<> Connection::send(const std::string& sql, const std::vector<SqlParameter>& parameters,
                          Now now, std::chrono::milliseconds timeout) {
  OUTRIDER_CHECK(state_ == State::idle, "one statement at a time");
  constexpr int kBinary = 1;
  std::vector<Oid> types;
  std::vector<const char*> values;
  std::vector<int> lengths;
  for (const SqlParameter& parameter : parameters) {
    types.push_back(parameter.type_oid);
    // A view of nothing may have no address, and without an address it would be NULL.
    const bool empty = parameter.bytes && parameter.bytes->empty();
    values.push_back(empty ? "" : parameter.bytes ? parameter.bytes->data() : nullptr);
    lengths.push_back(parameter.bytes ? static_cast<int>(parameter.bytes->size()) : 0);
  }
  const std::vector<int> formats(parameters.size(), kBinary);
  answer_.reset();
  pending_ = Answer{};
  copy_both_seen_ = false;
  state_ = State::querying;
  const int sent =
      PQsendQueryParams(conn_, sql.c_str(), static_cast<int>(parameters.size()), types.data(),
                        values.data(), lengths.data(), formats.data(), kBinary);
  return after_send(sent != 0, now, timeout);
}

std::optional<Answer> Connection::take_answer() { return std::exchange(answer_, std::nullopt); }

Result<> Connection::drive_query(Now now) {
  if (watch_->writable()) {
    watch_->clear();
    int flushed = PQflush(conn_);
    if (flushed < 0) {
      return fail(lost("lost the connection to PostgreSQL"));
    }
    set_interest(true, flushed > 0);
    watch_->clear();
  } else if (!watch_->readable()) {
    if (deadline_ && now.mono >= *deadline_) {
      std::string where = host();
      close();
      return fail(ErrorKind::transient, "PostgreSQL at \"" + where + "\" does not answer");
    }
    return {};
  }
  watch_->clear();
  bool alive = read_input().ok;
  bool complete = collect();
  if (!alive || PQstatus(conn_) == CONNECTION_BAD) {
    if (pending_.error && !pending_.error->sqlstate.empty()) {
      fatal_notice_ = pending_.error;
    }
    return fail(lost("lost the connection to PostgreSQL"));
  }
  if (complete) {
    finish_statement();
    if (pinning_) {
      pinning_ = false;
      std::optional<Answer> pinned = take_answer();
      if (pinned && pinned->error) {
        Error error = classify_server_error("cannot pin the session's settings", *pinned->error);
        close();
        return fail(std::move(error));
      }
    }
  }
  return {};
}

/// True when the statement's last result is in.
bool Connection::collect() {
  while (PQisBusy(conn_) == 0) {
    ResultPtr result(PQgetResult(conn_), &PQclear);
    if (result == nullptr) {
      return true;
    }
    switch (PQresultStatus(result.get())) {
      case PGRES_TUPLES_OK:
        copy_rows(result.get(), pending_.rows);
        break;
      case PGRES_COPY_BOTH:
        copy_both_seen_ = true;
        return true;
      case PGRES_COMMAND_OK:
      case PGRES_EMPTY_QUERY:
        break;
      default:
        if (!pending_.error) {
          pending_.error = server_error_of(result.get());
        }
        break;
    }
  }
  return false;
}

void Connection::finish_statement() {
  deadline_.reset();
  state_ = copy_both_seen_ ? State::copy_both : State::idle;
  answer_ = std::exchange(pending_, Answer{});
}

Result<> Connection::drive_idle() {
  if (!watch_->readable()) {
    return {};
  }
  watch_->clear();
  bool alive = read_input().ok;
  (void)PQisBusy(conn_);  // Parses what came, so that a FATAL reaches keep_notice().
  if (!alive || PQstatus(conn_) == CONNECTION_BAD) {
    return fail(lost("lost the connection to PostgreSQL"));
  }
  return {};
}

Connection::Read Connection::read_input() {
  Read read;
  bool wrapped = PQsslInUse(conn_) != 0 || PQgssEncInUse(conn_) != 0;
  int empty_handed = 0;
  for (int turn = 0; turn < kTlsReadsMax; ++turn) {
    std::size_t waiting = bytes_waiting(PQsocket(conn_));
    read.bytes += waiting;
    if (PQconsumeInput(conn_) == 0) {
      read.ok = false;
      return read;
    }
    if (!wrapped) {
      return read;
    }
    // A TLS record (16 KiB) may stay half read inside the library, where epoll does not see it.
    // Each call takes at least 8 KiB: two calls that found the socket empty have taken it all.
    empty_handed = waiting == 0 ? empty_handed + 1 : 0;
    if (empty_handed == 2) {
      return read;
    }
  }
  read.more = true;
  return read;
}

bool Connection::hung_up() const {
  if (conn_ == nullptr || PQsocket(conn_) < 0) {
    return true;
  }
  pollfd look{PQsocket(conn_), 0, 0};
  return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0;
}

Error Connection::lost(std::string_view what) {
  Error error;
  if (fatal_notice_) {
    error = classify_server_error(what, *fatal_notice_);
  } else {
    ServerError plain;
    plain.message = conn_ == nullptr ? "closed" : PQerrorMessage(conn_);
    error = classify_server_error(what, plain);
  }
  close();
  return error;
}

std::optional<MonoTime> Connection::deadline() const { return deadline_; }

int Connection::backend_pid() const { return conn_ == nullptr ? 0 : PQbackendPID(conn_); }

int Connection::server_version() const { return conn_ == nullptr ? 0 : PQserverVersion(conn_); }

std::string Connection::host() const {
  const char* name = conn_ == nullptr ? nullptr : PQhost(conn_);
  return name == nullptr ? std::string() : std::string(name);
}

}  // namespace outrider
