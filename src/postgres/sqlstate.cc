#include "postgres/sqlstate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

namespace outrider {
namespace {

constexpr auto kTransient = ErrorKind::transient;
constexpr auto kConfiguration = ErrorKind::configuration;
constexpr auto kFatal = ErrorKind::fatal;

// Manual, "PostgreSQL Error Codes".
constexpr std::array kTable = {
    SqlstateRow{"08", kTransient, ""},
    SqlstateRow{"0A000", kConfiguration, "see docs/OPERATIONS.md for what the server must support"},
    SqlstateRow{"22023", kConfiguration, "check the plugin's options and the server's version"},
    SqlstateRow{"25006", kTransient,
                "point source.dsn at the primary, or list all hosts with "
                "target_session_attrs=read-write"},
    SqlstateRow{"28", kConfiguration,
                "check user, password and pg_hba.conf for the database and for replication"},
    SqlstateRow{"3D000", kConfiguration, "name an existing database in source.dsn"},
    SqlstateRow{"3F000", kConfiguration, "name an existing schema in outbox.tables"},
    SqlstateRow{"40", kTransient, ""},
    SqlstateRow{"42501", kConfiguration, "grant the role what sql/least_privilege_role.sql lists"},
    SqlstateRow{"42601", kConfiguration, "this server's version may not be supported"},
    SqlstateRow{"42704", kFatal,
                "an object the stream needs is gone: see docs/OPERATIONS.md on a slot that is lost "
                "and on a publication that was dropped"},
    SqlstateRow{"42710", kTransient, ""},
    SqlstateRow{"42P01", kConfiguration, "name an existing table in outbox.tables"},
    SqlstateRow{"42", kConfiguration, ""},
    SqlstateRow{"53", kTransient, ""},
    SqlstateRow{"53300", kTransient, "raise max_connections or max_wal_senders, or free some"},
    SqlstateRow{"53400", kTransient, "raise max_replication_slots, or drop an unused slot"},
    SqlstateRow{"54", kFatal, "a row or transaction is beyond a limit of the server"},
    SqlstateRow{"55000", kFatal,
                "if the message speaks of a slot, see docs/OPERATIONS.md on a slot that is lost; "
                "else bring the server into the state it asks for"},
    SqlstateRow{"55006", kTransient, "another process holds the slot"},
    SqlstateRow{"55P03", kTransient,
                "a transaction holds the lock: end it, or raise "
                "source.lock_timeout_ms"},
    SqlstateRow{"57014", kTransient, ""},
    SqlstateRow{"57P01", kTransient, ""},
    SqlstateRow{"57P02", kTransient, ""},
    SqlstateRow{"57P03", kTransient, ""},
    SqlstateRow{"57P04", kFatal, "the database was dropped, and the slot with it"},
    SqlstateRow{"58030", kTransient, ""},
    SqlstateRow{"58P01", kFatal,
                "a file the server needs is gone: WAL that was removed, or the "
                "plugin's library"},
    SqlstateRow{"XX", kTransient, ""},
};

bool starts_with_any(std::string_view text, std::size_t at, std::string_view prefix) {
  return text.substr(at, prefix.size()) == prefix;
}

/// The last "connection to server …" part: earlier ones are hosts given up.
std::string_view last_attempt(std::string_view text) {
  std::size_t at = text.rfind("\nconnection to server ");
  return at == std::string_view::npos ? text : text.substr(at + 1);
}

/// Where ":  28P01: " stands, at its first code character; npos if nowhere.
std::size_t find_sqlstate(std::string_view text) {
  for (std::size_t at = text.find(":  "); at != std::string_view::npos;
       at = text.find(":  ", at + 1)) {
    std::string_view code = text.substr(at + 3, 7);
    bool fits = code.size() == 7 && starts_with_any(code, 5, ": ");
    for (std::size_t i = 0; fits && i < 5; ++i) {
      auto byte = static_cast<unsigned char>(code[i]);
      fits = std::isdigit(byte) != 0 || (byte >= 'A' && byte <= 'Z');
    }
    if (fits) {
      return at + 3;
    }
  }
  return std::string_view::npos;
}

/// On one line, without the server's source location.
std::string one_line(std::string_view text) {
  std::string line;
  while (!text.empty()) {
    std::size_t end = text.find('\n');
    std::string_view part = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    while (!part.empty() && (part.front() == ' ' || part.front() == '\t')) {
      part.remove_prefix(1);
    }
    if (part.empty() || part.starts_with("LOCATION:")) {
      continue;
    }
    line += (line.empty() ? "" : "; ");
    line += part;
  }
  return line;
}

/// Refusals of libpq or of TLS that will be the same next time. A broken connection says
/// "SSL SYSCALL error" or "unexpected eof" and is none of them.
constexpr std::array<std::string_view, 14> kLastingFailures = {
    "certificate",
    "does not support SSL",
    "SSL error: ",
    "no password supplied",
    "SCRAM",
    "channel binding",
    "authentication method",
    "private key file",
    "invalid ",
    "could not match ",
    "could not load ",
    "could not create SSL context",
    "not supported",
    "GSSAPI",
};

bool is_lasting(std::string_view text) {
  if (text.find("SSL SYSCALL") != std::string_view::npos ||
      text.find("unexpected eof") != std::string_view::npos ||
      text.find("closed the connection") != std::string_view::npos) {
    return false;
  }
  return std::any_of(
      kLastingFailures.begin(), kLastingFailures.end(),
      [text](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

const SqlstateRow* find_row(std::string_view sqlstate) {
  const SqlstateRow* best = nullptr;
  for (const SqlstateRow& row : kTable) {
    if (!sqlstate.empty() && sqlstate.starts_with(row.prefix) &&
        (best == nullptr || row.prefix.size() > best->prefix.size())) {
      best = &row;
    }
  }
  return best;
}

}  // namespace

std::span<const SqlstateRow> sqlstate_table() { return kTable; }

Error classify_server_error(std::string_view what, const ServerError& error) {
  Error out;
  out.code = error.sqlstate;
  out.message = std::string(what) + ": " + one_line(error.message);
  if (!error.detail.empty()) {
    out.message += " (" + one_line(error.detail) + ")";
  }
  out.hint = one_line(error.hint);
  if (const SqlstateRow* row = find_row(error.sqlstate)) {
    out.kind = row->kind;
    if (out.hint.empty()) {
      out.hint = std::string(row->hint);
    }
  }
  return out;
}

Error classify_connect_failure(std::string_view text, bool needs_password) {
  std::string last(last_attempt(text));
  ServerError error;
  if (std::size_t at = find_sqlstate(last); at != std::string::npos) {
    error.sqlstate = last.substr(at, 5);
    last.erase(at, 7);
  }
  error.message = last;
  Error out = classify_server_error("cannot connect to PostgreSQL", error);
  if (error.sqlstate.empty() && (needs_password || is_lasting(last))) {
    out.kind = ErrorKind::configuration;
    out.hint = needs_password ? "give a password in source.dsn or in a password file"
                              : "check the TLS and authentication settings in source.dsn";
  }
  return out;
}

}  // namespace outrider
