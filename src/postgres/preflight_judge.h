// The rules of preflight: facts and configuration in, a StartPlan or one Error out.
//
// Split by what is judged: server and slot, outbox tables, publication. All functions are pure; all
// errors are configuration, fatal or (where it heals by itself) transient, each with the exact fix.
// Rules that PostgreSQL's manual does not state were provoked on a server and stand at their place.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "outrider/route/outbox_layout.h"
#include "postgres/preflight.h"
#include "postgres/server_facts.h"

namespace outrider {

/// All that a verdict rests on. Refers to its parts; lives no longer than one judgement.
struct Case {
  const ServerFacts& facts;
  const SourceConfig& source;
  const OutboxConfig& outbox;
  const RouteConfig& route;
  const std::vector<QualifiedName>& wanted;
};

/// An outbox table that is there, with the columns a record is made of.
struct OutboxTable {
  const TableFacts* facts = nullptr;
  std::vector<Column> used_columns;
  std::vector<std::string> event_columns;  ///< StartPlan::event_columns.
};

Result<> check_wal_level(const ServerFacts& facts);
Result<> check_server(const Case& known);
Result<> check_synchronous(const Case& known);
Result<> check_slot(const Case& known);
Result<> check_capacity(const Case& known);

Result<std::vector<OutboxTable>> check_tables(const Case& known);

/// What is wrong with these tables under this plugin; nothing if all is well.
std::optional<Error> plugin_obstacle(const Case& known, const std::vector<OutboxTable>& tables,
                                     Plugin plugin);

/// Choose the plugin: fills plugin, plugin_reason and fallback_plugin.
Result<> choose_plugin(const Case& known, const std::vector<OutboxTable>& tables,
                       std::optional<Plugin> instead, StartPlan& plan);

/// pgoutput only: adds the statement that creates the publication, or warnings.
Result<> check_publication(const Case& known, const std::vector<OutboxTable>& tables,
                           StartPlan& plan);

/// wal2json or pgoutput options, partition roots, follows_all_tables.
Result<> plan_stream(const Case& known, const std::vector<OutboxTable>& tables, StartPlan& plan);

void add_warnings(const Case& known, StartPlan& plan);

Result<StartPlan> judge_case(const Case& known, std::optional<Plugin> instead);

/// The statement that adds `library` to output_plugin_libraries and keeps what is there.
std::string allow_plugin_sql(const std::optional<std::string>& output_plugin_libraries,
                             const std::string& library);

/// CREATE PUBLICATION for just these tables, inserts only.
std::string create_publication_sql(const std::string& publication,
                                   const std::vector<QualifiedName>& tables,
                                   bool generated_columns);

/// wal2json's add-tables syntax for one name (its own escape is a backslash).
std::string wal2json_name(const std::string& name);

}  // namespace outrider
