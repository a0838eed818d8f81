// Commands of the replication connection and the name our walsender carries.
#include "postgres/preflight.h"
#include "postgres/sql_text.h"

namespace outrider {

namespace {

constexpr std::size_t kNameBytesMax = 63;  // NAMEDATALEN - 1: the server cuts what is longer.
constexpr int kOptionListServer = 150000;

}  // namespace

std::string start_replication_sql(const std::string& slot, Lsn from, const StartPlan& plan) {
  std::string sql =
      "START_REPLICATION SLOT " + quote_always(slot) + " LOGICAL " + from.to_string() + " (";
  bool first = true;
  for (const auto& [name, value] : plan.plugin_options) {
    sql += (first ? "" : ", ") + quote_always(name) + " " + quote_replication_literal(value);
    first = false;
  }
  return sql + ")";
}

std::string create_slot_sql(const std::string& slot, const StartPlan& plan, bool temporary) {
  return "CREATE_REPLICATION_SLOT " + quote_always(slot) + (temporary ? " TEMPORARY" : "") +
         " LOGICAL " + quote_always(to_string(plan.plugin)) +
         (plan.server_version_num >= kOptionListServer ? " (SNAPSHOT 'nothing')"
                                                       : " NOEXPORT_SNAPSHOT");
}

std::string walsender_application_name(const std::string& slot) {
  return ("outrider_" + slot).substr(0, kNameBytesMax);
}

}  // namespace outrider
