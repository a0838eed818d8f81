// Connection: one libpq connection as a state machine without callbacks.
//
// Connects (several hosts, TLS), pins the session's settings in one statement, then runs one
// statement at a time; the answer is taken with take_answer(). A statement with parameters sends
// them and gets its rows in binary form (postgres/binary_values.h). START_REPLICATION's answer
// leaves it in copy-both, where ReplicationStream takes over the socket. Owns the PGconn and its
// FdWatch; outlived by the loop. Thread: loop; nothing blocks except name look-up inside libpq
// (give hostaddr to avoid it). Errors of the connection close it and come from drive(); errors of a
// statement are its answer. The dsn is fetched at each open() and never printed.
// Limits: one address may take connect_timeout; a statement may have a deadline.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/loop/event_loop.h"
#include "postgres/notes.h"
#include "postgres/query_result.h"
#include "postgres/sqlstate.h"

struct pg_conn;
struct pg_result;

namespace outrider {

struct ConnectionOptions {
  DsnProvider dsn;
  bool replication = false;  ///< A walsender that also takes SQL (replication=database).
  std::string application_name;
  std::chrono::milliseconds connect_timeout{10'000};
  std::chrono::milliseconds dead_after{30'000};  ///< For TCP keepalives and unsent bytes.
  std::chrono::milliseconds lock_timeout{10'000};
  std::chrono::milliseconds wal_sender_timeout{0};  ///< Replication only; zero: the server's.
  bool durable_writes = false;  ///< synchronous_commit=on, and of several hosts one that writes.
  std::string dsn_name = "source.dsn";  ///< The option that holds the dsn, for messages.
};

/// One parameter in binary form; the bytes must live until send() returns.
struct SqlParameter {
  std::uint32_t type_oid = 0;
  std::optional<std::string_view> bytes;  ///< Nothing is NULL.
};

/// One statement's outcome.
struct Answer {
  QueryResult rows;
  std::optional<ServerError> error;
};

class Connection {
 public:
  enum class State : std::uint8_t { closed, connecting, idle, querying, copy_both };

  Connection(EventLoop& loop, ConnectionOptions options);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Only in state closed. Errors: no dsn, or one that cannot be read.
  Result<> open(Now now);

  /// Connect, pin, send, receive. In copy_both it does nothing.
  Result<> drive(Now now);

  /// Only in state idle. `timeout` zero: none.
  Result<> send(const std::string& sql, Now now, std::chrono::milliseconds timeout);
  /// The same with parameters $1, $2, …; values of the answer are in binary form too. At most
  /// 65535 parameters and less than 1 GiB in all.
  Result<> send(const std::string& sql, const std::vector<SqlParameter>& parameters, Now now,
                std::chrono::milliseconds timeout);

  /// The answer to the last statement, once.
  std::optional<Answer> take_answer();

  void close();

  State state() const { return state_; }
  std::optional<MonoTime> deadline() const;

  int backend_pid() const;
  int server_version() const;
  std::string host() const;

  // For ReplicationStream, in copy_both.
  pg_conn* raw() const { return conn_; }
  FdWatch* watch() const { return watch_.get(); }
  void set_interest(bool readable, bool writable);

  /// Take from the socket what fits libpq's buffer; returns the bytes that were waiting. False
  /// `ok`: the connection is lost, what was received before can still be parsed.
  struct Read {
    bool ok = true;
    bool more = false;  ///< The TLS layer may hold more without the socket being readable.
    std::size_t bytes = 0;
  };
  Read read_input();

  /// The socket is broken although nothing is read from it.
  bool hung_up() const;

  /// What ended the connection: the server's last FATAL if one came, else libpq's words. Closes.
  Error lost(std::string_view what);

 private:
  Result<> drive_connecting(Now now);
  Result<> poll_connect(Now now);
  Result<> on_connected(Now now);
  Result<> drive_query(Now now);
  Result<> drive_idle();
  bool collect();
  void finish_statement();
  Result<> begin_statement(const std::string& sql, Now now, std::chrono::milliseconds timeout);
  Result<> after_send(bool sent, Now now, std::chrono::milliseconds timeout);
  void rewatch(bool readable, bool writable);
  static void keep_notice(void* self, const pg_result* notice);

  EventLoop& loop_;
  ConnectionOptions options_;
  pg_conn* conn_ = nullptr;
  std::unique_ptr<FdWatch> watch_;
  State state_ = State::closed;
  bool pinning_ = false;
  bool polled_once_ = false;
  bool copy_both_seen_ = false;
  std::size_t host_rotation_ = 0;  ///< Hosts that answered nothing go to the end of the list.
  std::optional<MonoTime> deadline_;
  Answer pending_;
  std::optional<Answer> answer_;
  std::optional<ServerError> fatal_notice_;
};

/// The fields of an error result.
ServerError server_error_of(const pg_result* result);

/// The statement that pins whatever changes the text of values, plus timeouts; settings that a
/// server does not know are passed over.
std::string pin_settings_sql(const ConnectionOptions& options);

}  // namespace outrider
