// Preflight: what the catalogue says, judged before the stream starts. A room without a socket.
//
// The caller asks for the next statement, runs it on the control connection, hands back its rows,
// and so on until there is none; then judge() either names what is wrong (one distinct error per
// cause, with the exact fix) or gives the plan for starting. The same facts serve `outrider init`
// and, later, `outrider doctor`. Pure: no I/O. Thread: any, no state but its own.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "outrider/base/lsn.h"
#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "outrider/model/change.h"
#include "postgres/query_result.h"

namespace outrider {

struct ServerFacts;

enum class Plugin : std::uint8_t { wal2json, pgoutput };
const char* to_string(Plugin plugin);

/// What to do to begin streaming, once everything that can be judged beforehand is right.
struct StartPlan {
  int server_version_num = 0;
  std::string system_identifier;
  std::uint32_t timeline = 0;
  Plugin plugin = Plugin::pgoutput;
  std::string plugin_reason;  ///< Why this one, for the log.
  /// The plugin to plan again with, by `judge(fallback_plugin)`, when creating the slot fails as
  /// `is_plugin_unavailable` says: whether a server has wal2json cannot be asked beforehand.
  std::optional<Plugin> fallback_plugin;
  /// As the server has it; nothing where the setting is absent or our role may not see it.
  std::optional<std::string> output_plugin_libraries;

  /// Statements for the control connection, in order, before the slot (publication first: a slot
  /// made earlier cannot see it). Empty if everything is there.
  std::vector<std::string> statements;

  bool create_slot = false;
  bool slot_active = false;  ///< Held by another process: wait as standby.
  int slot_active_pid = 0;
  Lsn confirmed_flush_lsn;                 ///< Of the existing slot.
  std::int64_t wal_sender_timeout_ms = 0;  ///< In force for our walsender; 0: none.

  /// Options for START_REPLICATION's parenthesis, names and raw values, in order.
  std::vector<std::pair<std::string, std::string>> plugin_options;

  /// Every partition under an outbox table, at any depth, to that table. Used with wal2json only.
  std::map<QualifiedName, QualifiedName> partition_roots;
  /// The columns no event can do without, by outbox table: how PartitionMap knows a leaf that the
  /// catalogue does not. Names only, since their types may have been changed since.
  std::map<QualifiedName, std::vector<std::string>> event_columns;
  bool follows_all_tables = false;  ///< wal2json sends every table: an outbox is partitioned.

  std::vector<std::string> warnings;  ///< Worth a log line each.
};

class Preflight {
 public:
  Preflight(const SourceConfig& source, const OutboxConfig& outbox, const RouteConfig& route);
  ~Preflight();

  /// The next statement to run; nothing when all facts are in. Each is one read-only SELECT or
  /// SHOW.
  std::optional<std::string> next_statement();

  /// The rows of the statement last given out.
  void take(const QueryResult& rows);

  /// Errors: configuration or fatal, distinct per cause; transient for what heals by itself
  /// (senders used up, a temporary slot of that name, a server in recovery that will be promoted).
  /// `instead` overrides what `automatic` would choose for a new slot (StartPlan::fallback_plugin).
  Result<StartPlan> judge(std::optional<Plugin> instead = std::nullopt) const;

  /// What is known so far.
  const ServerFacts& facts() const;

 private:
  struct Facts;
  std::unique_ptr<Facts> facts_;
  SourceConfig source_;
  OutboxConfig outbox_;
  RouteConfig route_;
};

/// Does this error of CREATE_REPLICATION_SLOT say that the server lacks or refuses the plugin?
bool is_plugin_unavailable(const std::string& sqlstate, const std::string& message, Plugin plugin);

/// START_REPLICATION SLOT … LOGICAL … (…), everything quoted.
std::string start_replication_sql(const std::string& slot, Lsn from, const StartPlan& plan);

/// CREATE_REPLICATION_SLOT … for the replication connection (syntax of 14 and of 15+ differ).
std::string create_slot_sql(const std::string& slot, const StartPlan& plan, bool temporary);

/// Who keeps the backend `pid` waiting.
std::string blockers_sql(int pid);

/// Who holds the slot: active, active_pid. With `evict_after_ms` a holder that has reported nothing
/// for so long is ended in the same statement: silent_ms, evicted.
std::string holder_sql(const std::string& slot, std::int64_t evict_after_ms);

/// Would `synchronous_standby_names` count a walsender of this application_name? (manual,
/// "synchronous_standby_names": names compare without case, * matches all.)
bool counts_as_synchronous(const std::string& synchronous_standby_names,
                           const std::string& application_name);

/// The error when PostgreSQL counts, or would count, our walsender as a synchronous standby.
Error synchronous_error(const std::string& application_name, const std::string& setting);

/// The application_name our walsender uses: "outrider_<slot>", cut to what the server keeps.
std::string walsender_application_name(const std::string& slot);

/// Explain an error of CREATE_REPLICATION_SLOT or START_REPLICATION that only the server can know:
/// plugin refused (42501 with output_plugin_libraries), slot busy (55006), slot missing (42704),
/// invalidated (55000), slots or senders used up (53400/53300), lock timeout (55P03)…
Error explain_replication_error(const std::string& sqlstate, const std::string& message,
                                const std::string& server_hint, const SourceConfig& source,
                                const StartPlan& plan);

/// An error that ended a running stream, with what only the start's plan can add to it.
Error explain_stream_error(Error error, const SourceConfig& source, const StartPlan& plan);

}  // namespace outrider
