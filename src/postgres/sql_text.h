// SQL text helpers: literals and identifiers for the two languages the server speaks.
//
// Ordinary SQL and the replication protocol's commands quote differently: the latter know no
// E'' strings and take a backslash as it is (server source: repl_scanner.l). Pure functions; input
// must be valid UTF-8 without zero bytes, which configuration and catalogue guarantee.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outrider {

/// 'text' for ordinary SQL, right whatever standard_conforming_strings says.
std::string quote_literal(std::string_view text);

/// 'text' for a replication command.
std::string quote_replication_literal(std::string_view text);

/// "name", always quoted (replication commands want it for every name that is not plain).
std::string quote_always(std::string_view name);

/// The expression for where the server's WAL ends: written, or on a standby replayed.
inline constexpr char kWalEndSql[] =
    "CASE WHEN pg_catalog.pg_is_in_recovery() THEN pg_catalog.pg_last_wal_replay_lsn() "
    "ELSE pg_catalog.pg_current_wal_lsn() END";

/// The items of a comma-separated GUC list such as `pgoutput, "my plugin"`, unquoted and trimmed.
std::vector<std::string> split_setting_list(std::string_view text);

/// "a, b, c".
std::string join(const std::vector<std::string>& items, std::string_view separator);

}  // namespace outrider
