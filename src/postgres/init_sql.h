// The statements that prepare a database for the relay: what `outrider init` prints or applies.
//
// Each statement stands alone and can be run twice. The order matters: role, tables, publication,
// slot (a slot decodes with the publication as it was when the WAL was written). The slot comes
// last and in a transaction of its own: the server refuses to make one in a transaction that has
// written. Pure; errors are `configuration` (a table name that cannot be read, a server without
// logical decoding, an administrator who may not do it). Runs as a superuser, or as what
// check_init() asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "postgres/preflight.h"
#include "postgres/server_facts.h"

namespace outrider {

struct InitOptions {
  std::string database = {};            ///< For GRANT CONNECT; empty: leave the grant out.
  std::string wal_level = {};           ///< The server's, for a note in the script; empty: unknown.
  std::string role = "outrider_relay";  ///< Empty: no role.
  Plugin plugin = Plugin::pgoutput;     ///< For the slot, where source.plugin is automatic.
  bool create_tables = true;            ///< Outbox tables that are missing, in the default layout.
  bool create_slot = true;
};

/// Whether the pipeline's dead letters go to a table in the source's own database.
bool keeps_dead_letters_here(const PipelineConfig& pipeline);

enum class InitPart : std::uint8_t { role, grant, schema, table, dead_letters, publication, slot };

struct InitStatement {
  InitPart part;
  std::string purpose;  ///< One line, for the comment or the progress report.
  std::string sql;      ///< Without the final semicolon.
  std::string present;  ///< A query with a row where all of it is there and nothing need be done.
  bool alone = false;   ///< Not inside a transaction with others.
};

Result<std::vector<InitStatement>> init_statements(const PipelineConfig& pipeline,
                                                   const InitOptions& options);

/// Whether the server and the connected role can run `missing`, the statements that are needed,
/// to the end. Asked before the first, so that nothing is half done.
Result<> check_init(const ServerFacts& facts, const std::vector<InitStatement>& missing);

/// All of them as a psql script.
Result<std::string> init_sql(const PipelineConfig& pipeline, const InitOptions& options);

}  // namespace outrider
