#include "postgres/schema_upgrade.h"

#include <array>
#include <charconv>

#include "postgres/dead_letter_facts.h"
#include "postgres/dead_letter_schema.h"

namespace outrider {
namespace {

// From a table that was made before its version was written down. Rows are kept: what may be NULL
// is added, and the objects beside the table are made.
std::string from_0() {
  return "ALTER TABLE outrider.dead_letters\n"
         "  ADD COLUMN IF NOT EXISTS partition integer,\n"
         "  ADD COLUMN IF NOT EXISTS parked_key bytea,\n"
         "  ADD COLUMN IF NOT EXISTS retry_after timestamptz,\n"
         "  ADD COLUMN IF NOT EXISTS last_outcome bigint;\n" +
         dead_letter_objects_sql();
}

using Step = std::string (*)();
/// Index: the version it starts from. A new version adds a row and raises
/// kDeadLetterSchemaVersion.
constexpr std::array<Step, kDeadLetterSchemaVersion> kSteps = {from_0};

}  // namespace

std::string schema_present_sql() {
  return "SELECT pg_catalog.bool_or(c.relname = 'dead_letters') AS has_table, "
         "pg_catalog.bool_or(c.relname = 'schema_version') AS has_version "
         "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
         "WHERE n.nspname = 'outrider' AND c.relname IN ('dead_letters', 'schema_version')";
}

std::string schema_version_sql() { return dead_letter_version_sql(); }

Result<int> parse_schema_version(const std::optional<std::string>& text) {
  if (!text) return 0;
  int version = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), version);
  if (error != std::errc{} || end != text->data() + text->size() || version < 0) {
    return fail(ErrorKind::configuration,
                "outrider.schema_version holds the version \"" + *text + "\", which is no version",
                "find out who changed it");
  }
  return version;
}

Result<std::string> schema_upgrade_sql(int found) {
  if (found > kDeadLetterSchemaVersion) {
    return fail(ErrorKind::configuration,
                "schema outrider has version " + std::to_string(found) +
                    " and this release knows " + std::to_string(kDeadLetterSchemaVersion),
                "a newer release made it: run that release");
  }
  if (found == kDeadLetterSchemaVersion) return std::string();
  std::string sql;
  for (int from = found; from < kDeadLetterSchemaVersion; ++from) {
    const std::string to = std::to_string(from + 1);
    sql += kSteps.at(static_cast<std::size_t>(from))() +
           ";\nINSERT INTO outrider.schema_version (part, version) VALUES ('dead_letters', " + to +
           ")\nON CONFLICT (part) DO UPDATE SET version = " + to + ";\n";
  }
  return sql;
}

}  // namespace outrider
