#include "postgres/slot_watch.h"

#include <algorithm>
#include <string_view>

#include "postgres/sql_text.h"
#include "postgres/sqlstate.h"

namespace outrider {
namespace {

constexpr int kHasWalStatus = 130'000;
constexpr int kHasSlotStatistics = 140'000;
constexpr int kHasConflicting = 160'000;
constexpr int kHasInvalidationReason = 170'000;

/// A negative number (safe_wal_size of a slot past its limit) is zero.
std::optional<std::uint64_t> amount(std::optional<std::int64_t> number) {
  return number ? std::optional(static_cast<std::uint64_t>(std::max<std::int64_t>(*number, 0)))
                : std::nullopt;
}

Lsn position(const std::string& text) { return Lsn::parse(text).value_or(Lsn()); }

}  // namespace

std::string slot_health_sql(const std::string& slot, int server_version) {
  const auto since = [server_version](int version, const char* column) {
    return server_version >= version ? column : "NULL";
  };
  std::string reason = "NULL";
  if (server_version >= kHasInvalidationReason) {
    reason = "s.invalidation_reason";
  } else if (server_version >= kHasConflicting) {
    reason = "CASE WHEN s.conflicting THEN 'conflicting' END";
  }
  std::string sql =
      "SELECT s.slot_name IS NOT NULL AS found, s.active, s.confirmed_flush_lsn AS confirmed, "
      "s.restart_lsn AS restart, w.recovery, pg_catalog.age(s.catalog_xmin) AS xmin_age, ";
  sql += std::string(kWalEndSql) + " AS wal_end, ";
  sql += std::string(since(kHasWalStatus, "s.wal_status")) + " AS wal_status, ";
  sql += std::string(since(kHasWalStatus, "s.safe_wal_size")) + " AS safe_wal_size, ";
  sql += reason + " AS reason, ";
  sql += std::string(since(kHasSlotStatistics, "t.spill_txns")) + " AS spill_txns, ";
  sql += std::string(since(kHasSlotStatistics, "t.spill_bytes")) + " AS spill_bytes, ";
  sql += std::string(since(kHasSlotStatistics, "t.total_txns")) + " AS total_txns ";
  sql +=
      "FROM (SELECT pg_catalog.pg_is_in_recovery() AS recovery) w "
      "LEFT JOIN pg_catalog.pg_replication_slots s ON s.slot_name = " +
      quote_literal(slot);
  if (server_version >= kHasSlotStatistics) {
    sql += " LEFT JOIN pg_catalog.pg_stat_replication_slots t ON t.slot_name = s.slot_name";
  }
  return sql;
}

std::optional<SlotHealth> read_slot_health(const QueryResult& rows, Now asked) {
  if (rows.rows.empty()) {
    return std::nullopt;
  }
  SlotHealth health;
  health.seen_at = asked.mono;
  health.seen_at_wall = asked.wall;
  health.exists = rows.text(0, "found") == "t";
  health.active = rows.text(0, "active") == "t";
  health.server_in_recovery = rows.text(0, "recovery") == "t";
  health.wal_end = position(rows.text(0, "wal_end"));
  health.confirmed_lsn = position(rows.text(0, "confirmed"));
  health.restart_lsn = position(rows.text(0, "restart"));
  health.wal_status = rows.text(0, "wal_status");
  health.safe_wal_bytes = amount(rows.number(0, "safe_wal_size"));
  health.catalog_xmin_age = amount(rows.number(0, "xmin_age"));
  health.spilled_transactions = amount(rows.number(0, "spill_txns"));
  health.spilled_bytes = amount(rows.number(0, "spill_bytes"));
  health.decoded_transactions = amount(rows.number(0, "total_txns"));
  health.invalidation_reason = rows.text(0, "reason");
  return health;
}

std::string SlotWatch::ask(int server_version, Now now) {
  asked_ = now;
  next_ = now.mono + interval_;
  return slot_health_sql(slot_, server_version);
}

void SlotWatch::take(const Answer& answer) {
  if (!answer.error) {
    trouble_.clear();
    health_ = read_slot_health(answer.rows, asked_);
    return;
  }
  health_.reset();
  std::string trouble =
      describe(classify_server_error("cannot ask the server about the slot", *answer.error));
  if (trouble != trouble_) {
    note_(SourceNote{LogLevel::warn, "no figures about the slot", {{"error", trouble}}});
    trouble_ = std::move(trouble);
  }
}

void SlotWatch::lost() {
  health_.reset();
  next_ = MonoTime{};
}

}  // namespace outrider
