// What a server's or libpq's error means for the relay: one table from SQLSTATE to kind and hint.
//
// Pure. The longest matching prefix counts, so a class ("08") stands behind its members. A code
// that no row names is transient: it may pass, and a stream that fails at the same place again and
// again is judged by WalSource.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "outrider/base/result.h"

namespace outrider {

/// An ErrorResponse, as the server sent it. `sqlstate` is empty when libpq itself is the author.
struct ServerError {
  std::string sqlstate;
  std::string message;
  std::string detail;
  std::string hint;
};

struct SqlstateRow {
  std::string_view prefix;
  ErrorKind kind;
  std::string_view hint;  ///< Used when the server gave none.
};

std::span<const SqlstateRow> sqlstate_table();

/// `what` says what was being tried, as "cannot read the slot".
Error classify_server_error(std::string_view what, const ServerError& error);

/// A connect that failed. `text` is libpq's message in verbose form (which carries the SQLSTATE of
/// a server's refusal); where several hosts were tried, the last one's answer decides.
Error classify_connect_failure(std::string_view text, bool needs_password);

}  // namespace outrider
