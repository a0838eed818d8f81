#include "postgres/preflight_judge.h"

#include <algorithm>

#include "postgres/sql_text.h"

namespace outrider {

namespace {

bool is_partitioned(const OutboxTable& table) { return table.facts->kind == 'p'; }

bool any_partitioned(const std::vector<OutboxTable>& tables) {
  return std::any_of(tables.begin(), tables.end(), is_partitioned);
}

bool lists(const std::string& setting, const char* library) {
  const std::vector<std::string> names = split_setting_list(setting);
  return std::find(names.begin(), names.end(), library) != names.end();
}

/// A new slot under `automatic`: wal2json where it is (or may be) there and can carry the tables.
void choose_automatically(const Case& known, const std::vector<OutboxTable>& tables,
                          StartPlan& plan) {
  const auto& libraries = known.facts.output_plugin_libraries;
  plan.plugin = Plugin::pgoutput;
  if (any_partitioned(tables)) {
    plan.plugin_reason = "an outbox table is partitioned";
  } else if (const auto obstacle = plugin_obstacle(known, tables, Plugin::wal2json)) {
    plan.plugin_reason = obstacle->message;
  } else if (libraries && !lists(*libraries, "wal2json")) {
    plan.plugin_reason = "output_plugin_libraries does not list wal2json";
  } else {
    plan.plugin = Plugin::wal2json;
    plan.plugin_reason = libraries ? "output_plugin_libraries lists it"
                                   : "preferred, with pgoutput if the server does not have it";
    plan.fallback_plugin = Plugin::pgoutput;
  }
}

Result<> check_allowed(const Case& known, Plugin plugin) {
  const auto& libraries = known.facts.output_plugin_libraries;
  if (!libraries || lists(*libraries, to_string(plugin))) {
    return {};
  }
  const Plugin other = plugin == Plugin::wal2json ? Plugin::pgoutput : Plugin::wal2json;
  std::string hint = "run " + allow_plugin_sql(libraries, to_string(plugin));
  if (!known.facts.slot) {
    hint += std::string(", or set source.plugin: ") + to_string(other);
  }
  return fail(ErrorKind::configuration,
              std::string("output plugin \"") + to_string(plugin) +
                  "\" is not allowed by output_plugin_libraries (" + *libraries + ")",
              hint, "42501");
}

std::string wal2json_tables(const std::vector<QualifiedName>& names) {
  std::vector<std::string> items;
  for (const QualifiedName& name : names) {
    items.push_back(wal2json_name(name.schema) + "." + wal2json_name(name.table));
  }
  return join(items, ",");
}

Result<std::vector<QualifiedName>> table_names(const std::vector<std::string>& texts) {
  std::vector<QualifiedName> names;
  for (const std::string& text : texts) {
    OUTRIDER_TRY(QualifiedName name, parse_table_name(text));
    names.push_back(std::move(name));
  }
  return names;
}

/// Tables the server need not send although it sends all others.
Result<std::vector<QualifiedName>> foreign_tables(const Case& known, const StartPlan& plan) {
  OUTRIDER_TRY(std::vector<QualifiedName> names, table_names(known.source.foreign_tables));
  for (const QualifiedName& name : names) {
    const bool is_outbox =
        std::find(known.wanted.begin(), known.wanted.end(), name) != known.wanted.end();
    if (is_outbox || plan.partition_roots.contains(name)) {
      return fail(ErrorKind::configuration,
                  "source.foreign_tables lists " + quote_table_name(name) + ", which is " +
                      (is_outbox ? "an outbox table" : "a partition of an outbox table"),
                  "take it out of source.foreign_tables, its rows would be passed over");
    }
  }
  return names;
}

// wal2json's lists are fixed at the start and hold names. A leaf that is attached later, or was
// dropped with rows that still have to come, may have any name in any schema; with a list its rows
// would be left out and the position would pass them. So everything is sent and placed here.
Result<> plan_partitions(const Case& known, StartPlan& plan) {
  plan.follows_all_tables = true;
  OUTRIDER_TRY(const std::vector<QualifiedName> foreign, foreign_tables(known, plan));
  if (!foreign.empty()) {
    plan.plugin_options.emplace_back("filter-tables", wal2json_tables(foreign));
  }
  plan.warnings.emplace_back(
      "with a partitioned outbox wal2json sends the inserts of all tables of the database, so that "
      "no leaf is missed; pgoutput (a new source.slot with source.plugin: pgoutput) costs less");
  return {};
}

Result<> plan_wal2json(const Case& known, const std::vector<OutboxTable>& tables, StartPlan& plan) {
  plan.plugin_options = {
      {"format-version", "2"},          {"include-lsn", "true"},
      {"include-timestamp", "true"},    {"include-types", "false"},
      {"include-type-oids", "true"},    {"actions", "insert"},
      {"add-msg-prefixes", "outrider"},
  };
  for (const OutboxTable& table : tables) {
    for (const PartitionFacts& partition : table.facts->partitions) {
      plan.partition_roots[partition.name] = table.facts->name;
    }
  }
  if (any_partitioned(tables) || !known.source.former_partitions.empty()) {
    return plan_partitions(known, plan);
  }
  plan.plugin_options.emplace_back("add-tables", wal2json_tables(known.wanted));
  return {};
}

}  // namespace

std::string wal2json_name(const std::string& name) {
  std::string escaped;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || static_cast<unsigned char>(c) >= 0x80;
    if (!plain) {
      escaped += '\\';
    }
    escaped += c;
  }
  return escaped;
}

std::string allow_plugin_sql(const std::optional<std::string>& output_plugin_libraries,
                             const std::string& library) {
  std::vector<std::string> names = {"pgoutput", "test_decoding"};
  if (output_plugin_libraries) {
    names = split_setting_list(*output_plugin_libraries);
  }
  if (std::find(names.begin(), names.end(), library) == names.end()) {
    names.push_back(library);
  }
  for (std::string& name : names) {
    name = quote_literal(name);
  }
  return "ALTER SYSTEM SET output_plugin_libraries = " + join(names, ", ") +
         "; SELECT pg_reload_conf()";
}

Result<> choose_plugin(const Case& known, const std::vector<OutboxTable>& tables,
                       std::optional<Plugin> instead, StartPlan& plan) {
  if (known.facts.slot) {
    plan.plugin = known.facts.slot->plugin == "wal2json" ? Plugin::wal2json : Plugin::pgoutput;
    plan.plugin_reason = "the slot was made with it";
  } else if (known.source.plugin != PluginChoice::automatic) {
    plan.plugin =
        known.source.plugin == PluginChoice::wal2json ? Plugin::wal2json : Plugin::pgoutput;
    plan.plugin_reason = "source.plugin says so";
  } else if (instead) {
    plan.plugin = *instead;
    plan.plugin_reason = "the server does not have or allow the other one";
  } else {
    choose_automatically(known, tables, plan);
  }
  if (auto obstacle = plugin_obstacle(known, tables, plan.plugin)) {
    return fail(std::move(*obstacle));
  }
  return check_allowed(known, plan.plugin);
}

Result<> plan_stream(const Case& known, const std::vector<OutboxTable>& tables, StartPlan& plan) {
  for (const OutboxTable& table : tables) {
    plan.event_columns[table.facts->name] = table.event_columns;
  }
  if (plan.plugin == Plugin::wal2json) {
    return plan_wal2json(known, tables, plan);
  }
  plan.plugin_options = {
      {"proto_version", "1"},
      {"publication_names", quote_always(known.source.publication)},
      {"messages", "false"},
  };
  return {};
}

Result<StartPlan> judge_case(const Case& known, std::optional<Plugin> instead) {
  StartPlan plan;
  plan.server_version_num = known.facts.version_num;
  plan.system_identifier = known.facts.system_identifier;
  plan.timeline = known.facts.timeline;
  plan.output_plugin_libraries = known.facts.output_plugin_libraries;
  OUTRIDER_TRY(check_server(known));
  OUTRIDER_TRY(check_synchronous(known));
  OUTRIDER_TRY(check_slot(known));
  OUTRIDER_TRY(const std::vector<OutboxTable> tables, check_tables(known));
  OUTRIDER_TRY(choose_plugin(known, tables, instead, plan));
  if (plan.plugin == Plugin::pgoutput) {
    OUTRIDER_TRY(check_publication(known, tables, plan));
  }
  OUTRIDER_TRY(check_capacity(known));
  OUTRIDER_TRY(plan_stream(known, tables, plan));
  plan.create_slot = !known.facts.slot;
  if (known.facts.slot) {
    plan.slot_active = known.facts.slot->active;
    plan.slot_active_pid = known.facts.slot->active_pid;
    plan.confirmed_flush_lsn = known.facts.slot->confirmed_flush_lsn;
  }
  add_warnings(known, plan);
  return plan;
}

}  // namespace outrider
