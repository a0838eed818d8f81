#include "postgres/dead_letter_facts.h"

#include <string_view>
#include <utility>
#include <vector>

#include "postgres/sql_text.h"

namespace outrider {
namespace {

std::string relation_join(const char* alias, const char* name) {
  return std::string(" LEFT JOIN pg_catalog.pg_class ") + alias + " ON " + alias +
         ".relnamespace = n.oid AND " + alias + ".relname = '" + name + "' AND " + alias +
         ".relkind IN ('r', 'p')";
}

std::string may(const char* alias, const char* privilege) {
  return std::string(", coalesce(pg_catalog.has_table_privilege(") + alias + ".oid, '" + privilege +
         "'), false) AS \"" + alias + "." + privilege + "\"";
}

/// A word for a shell, in quotes where it is not plain.
std::string shell_word(const std::string& word) {
  const bool plain =
      !word.empty() && word.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyz"
                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == std::string::npos;
  if (plain) {
    return word;
  }
  std::string out = "'";
  for (const char c : word) {
    out += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return out + "'";
}

bool is_true(const QueryResult& facts, std::string_view name) { return facts.text(0, name) == "t"; }

}  // namespace

std::string dead_letter_facts_sql() {
  return "SELECT pg_catalog.pg_is_in_recovery() AS standby, "
         "pg_catalog.current_setting('transaction_read_only') = 'on' AS read_only, "
         "pg_catalog.current_database() AS database, CURRENT_USER AS role, "
         "n.oid IS NOT NULL AS has_schema, v.oid IS NOT NULL AS has_version, "
         "d.oid IS NOT NULL AS has_table, coalesce(d.relpersistence = 'p', true) AS is_logged, "
         "coalesce(pg_catalog.has_schema_privilege(n.oid, 'USAGE'), false) AS \"schema.USAGE\"" +
         may("v", "SELECT") + may("d", "SELECT") + may("d", "INSERT") + may("d", "DELETE") +
         ", coalesce((SELECT pg_catalog.bool_and(pg_catalog.has_column_privilege(d.oid, a.attnum, "
         "'UPDATE')) FROM pg_catalog.pg_attribute a WHERE a.attrelid = d.oid AND a.attname IN "
         "('attempts', 'last_failure', 'retry_after', 'code', 'message', 'last_outcome')), false) "
         "AS \"d.UPDATE\" FROM (SELECT 1) AS one LEFT JOIN pg_catalog.pg_namespace n "
         "ON n.nspname = 'outrider'" +
         relation_join("v", "schema_version") + relation_join("d", "dead_letters");
}

std::string dead_letter_version_sql() {
  return "SELECT version FROM outrider.schema_version WHERE part = 'dead_letters'";
}

std::string dead_letter_install_hint(const QueryResult& facts, bool own_dsn) {
  const std::string psql = "psql -d " + shell_word(facts.text(0, "database")) +
                           " -v role=" + shell_word(facts.text(0, "role")) +
                           " -f sql/dead_letters.sql";
  if (own_dsn) {
    return "as an administrator of the database in dead_letters.dsn run: " + psql;
  }
  return "as an administrator run: " + psql +
         " (or outrider init -c FILE --dsn 'an administrator' --role " +
         shell_word(facts.text(0, "role")) + " --apply)";
}

Result<> judge_dead_letter_facts(const QueryResult& facts, bool own_dsn) {
  const std::string where =
      "the dead-letter table in database \"" + facts.text(0, "database") + "\"";
  if (is_true(facts, "standby") || is_true(facts, "read_only")) {
    const std::string what = is_true(facts, "standby") ? "a standby" : "read-only";
    return fail(ErrorKind::configuration, where + " cannot be written: the server is " + what,
                own_dsn ? "point dead_letters.dsn at the primary, or list all its hosts"
                        : "set dead_letters.dsn to a database that can be written, on the primary "
                          "or elsewhere, or set dead_letters.topic",
                "25006");
  }
  if (!is_true(facts, "has_schema") || !is_true(facts, "has_version") ||
      !is_true(facts, "has_table")) {
    return fail(ErrorKind::configuration, where + " does not exist (outrider.dead_letters)",
                dead_letter_install_hint(facts, own_dsn),
                is_true(facts, "has_schema") ? "42P01" : "3F000");
  }
  std::vector<std::string> lacks;
  const std::vector<std::pair<const char*, const char*>> rights = {
      {"schema.USAGE", "USAGE on schema outrider"},
      {"v.SELECT", "SELECT on outrider.schema_version"},
      {"d.SELECT", "SELECT"},
      {"d.INSERT", "INSERT"},
      {"d.DELETE", "DELETE"},
      {"d.UPDATE", "UPDATE of attempts, last_failure, retry_after, code, message, last_outcome"},
  };
  for (const auto& [column, right] : rights) {
    if (!is_true(facts, column)) {
      lacks.emplace_back(right);
    }
  }
  if (!lacks.empty()) {
    return fail(ErrorKind::configuration,
                "role \"" + facts.text(0, "role") + "\" may not use " + where + ", it lacks " +
                    join(lacks, ", "),
                dead_letter_install_hint(facts, own_dsn), "42501");
  }
  if (!is_true(facts, "is_logged")) {
    return fail(ErrorKind::configuration, where + " is unlogged: a crash would empty it",
                "run ALTER TABLE outrider.dead_letters SET LOGGED");
  }
  return {};
}

Result<> judge_dead_letter_version(const QueryResult& version, const QueryResult& facts,
                                   bool own_dsn) {
  const std::string found = version.rows.empty() ? "none" : version.text(0, "version");
  const std::string wanted = std::to_string(kDeadLetterSchemaVersion);
  if (found == wanted) {
    return {};
  }
  const bool newer = !version.rows.empty() && (found.size() > wanted.size() ||
                                               (found.size() == wanted.size() && found > wanted));
  return fail(ErrorKind::configuration,
              "the dead-letter table in database \"" + facts.text(0, "database") +
                  "\" has version " + found + " and this release needs " + wanted,
              newer ? "a newer release made it: run that release"
                    : std::string("as an administrator run: outrider init --upgrade --apply --dsn "
                                  "'the database of ") +
                          (own_dsn ? "dead_letters.dsn'" : "source.dsn'"));
}

}  // namespace outrider
