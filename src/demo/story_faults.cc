#include <algorithm>

#include "demo/story.h"

namespace outrider::demo {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kKillOrders = 2'000;
constexpr double kOrdersPerSecond = 1'000;
constexpr double kDownMs = 3'000;
constexpr std::int64_t kGrowthMaxKb = 8 * 1024;
constexpr auto kCatchUpLimit = 20s;

}  // namespace

Result<> Story::killed() {
  report_.heading("4. kill -9 in the middle of 2,000 orders");
  const std::size_t repeated_before = ledger_.repeated_count();
  std::size_t relayed_at_kill = 0;
  double back_ms = 0;
  MonoTime killed_at;
  OUTRIDER_TRY(load(kKillOrders, kOrdersPerSecond, [&](std::size_t placed) -> Result<bool> {
    if (placed == kKillOrders / 2) {
      const pid_t killed_pid = stage_.relay().pid();
      stage_.relay().kill();
      killed_at = std::chrono::steady_clock::now();
      relayed_at_kill = ledger_.relayed_count();
      OUTRIDER_TRY(stage_.relay().restart());
      report_.line("   after order " + grouped(placed) + ": kill -9 " + std::to_string(killed_pid) +
                   "; started again as pid " + std::to_string(stage_.relay().pid()) +
                   ", orders go on meanwhile");
    }
    // A few records were in Kafka already and are read after the kill; more means it is back.
    if (killed_at != MonoTime() && back_ms == 0 && ledger_.relayed_count() > relayed_at_kill + 50) {
      back_ms = milliseconds_since(killed_at);
    }
    return true;
  }));
  OUTRIDER_TRY(bool all, catch_up(kCatchUpLimit));
  if (back_ms == 0) back_ms = milliseconds_since(killed_at);
  const std::size_t repeated = ledger_.repeated_count() - repeated_before;
  report_.line("   records flowed again " + grouped(static_cast<std::uint64_t>(back_ms)) +
               " ms after the kill");
  report_.check(all,
                grouped(kKillOrders) + " committed, " + grouped(ledger_.missing_count()) + " lost");
  report_.check(ledger_.changed_count() == 0,
                grouped(repeated) + " came twice, each with the same id, key, partition and bytes");
  report_.check(ledger_.disorder_count() == 0,
                "order per key kept: " + grouped(ledger_.disorder_count()) + " out of order");
  return {};
}

Result<> Story::load_while_down(std::int64_t& highest_kb, double& down_ms) {
  enum class Phase { going_down, down, coming_up };
  Phase phase = Phase::going_down;
  MonoTime since = std::chrono::steady_clock::now();
  OUTRIDER_TRY(stage_.mock().ask_down());
  return load(100'000, kOrdersPerSecond, [&](std::size_t placed) -> Result<bool> {
    if (placed % 20 == 0) {
      OUTRIDER_TRY(stage_.check_running());
      highest_kb = std::max(highest_kb, stage_.relay().memory().resident_kb);
    }
    switch (phase) {
      case Phase::going_down:
        if (!stage_.mock().answered()) return true;
        since = std::chrono::steady_clock::now();
        phase = Phase::down;
        return true;
      case Phase::down:
        if (milliseconds_since(since) < kDownMs) return true;
        OUTRIDER_TRY(stage_.mock().ask_up());
        phase = Phase::coming_up;
        return true;
      case Phase::coming_up:
        if (!stage_.mock().answered()) return true;
        down_ms = milliseconds_since(since);
        return false;
    }
    return false;
  });
}

Result<> Story::broker_down() {
  report_.heading("5. Kafka down for 3 s, orders go on");
  if (!stage_.has_mock()) {
    report_.line("   skipped: the broker is yours, and is not stopped for a demo");
    return {};
  }
  const std::int64_t before_kb = stage_.relay().memory().resident_kb;
  const std::size_t repeated_before = ledger_.repeated_count();
  std::int64_t highest_kb = before_kb;
  double down_ms = 0;
  OUTRIDER_TRY(load_while_down(highest_kb, down_ms));
  const std::size_t waiting = ledger_.missing_count();
  const MonoTime up_at = std::chrono::steady_clock::now();
  OUTRIDER_TRY(bool all, catch_up(kCatchUpLimit));
  const double catch_up_ms = milliseconds_since(up_at);
  const std::int64_t after_kb = stage_.relay().memory().resident_kb;
  report_.line("   down for " + one_decimal(down_ms / 1e3) + " s; " + grouped(waiting) +
               " committed orders were waiting when it came back");
  report_.check(all, "all of them in Kafka " + grouped(static_cast<std::uint64_t>(catch_up_ms)) +
                         " ms later, " + grouped(ledger_.missing_count()) + " lost, " +
                         grouped(ledger_.repeated_count() - repeated_before) + " came twice");
  report_.check(std::max(highest_kb, after_kb) <= before_kb + kGrowthMaxKb,
                "relay memory: " + megabytes(before_kb) + " before, at most " +
                    megabytes(highest_kb) + " during, " + megabytes(after_kb) + " after");
  return {};
}

Result<> Story::summary() {
  report_.heading("Summary");
  OUTRIDER_TRY(std::string last_commit, stage_.database().value("SELECT pg_current_wal_lsn()"));
  const std::string confirmed_sql =
      "SELECT confirmed_flush_lsn, confirmed_flush_lsn >= '" + last_commit +
      "' FROM pg_replication_slots WHERE slot_name = '" + stage_.slot() + "'";
  Rows confirmed;
  Result<> asked;
  OUTRIDER_TRY(read_until(
      [&] {
        auto rows = stage_.database().run(confirmed_sql);
        if (!rows) {
          asked = fail(rows.error());
          return true;
        }
        confirmed = *rows;
        return !confirmed.empty() && confirmed[0][1] == "t";
      },
      5s));
  OUTRIDER_TRY(std::move(asked));
  std::vector<double> latencies;
  for (const std::string& id : timed_ids_) {
    if (auto ms = ledger_.latency_ms(id)) latencies.push_back(*ms);
  }
  report_.check(ledger_.missing_count() == 0, grouped(ledger_.committed_count()) + " committed = " +
                                                  grouped(ledger_.relayed_count()) + " relayed, " +
                                                  grouped(ledger_.missing_count()) + " lost");
  report_.check(ledger_.changed_count() == 0 && ledger_.wrong_count() == 0,
                grouped(ledger_.repeated_count()) + " duplicates, all with the id of the first; " +
                    grouped(ledger_.wrong_count()) + " records with other bytes than committed");
  report_.check(ledger_.uncommitted_count() == 0 && ledger_.disorder_count() == 0,
                grouped(ledger_.uncommitted_count()) + " records that nobody committed, " +
                    grouped(ledger_.disorder_count()) + " out of order");
  report_.check(!latencies.empty(),
                "commit to consumer p50 " + one_decimal(percentile(latencies, 0.5)) + " ms, p99 " +
                    one_decimal(percentile(latencies, 0.99)) + " ms (" + grouped(latencies.size()) +
                    " orders at 500/s, nothing broken)");
  const std::int64_t peak_kb = stage_.relay().peak_kb();
  report_.check(peak_kb > 0, "peak memory of the relay " + megabytes(peak_kb));
  const bool has_slot = !confirmed.empty();
  report_.check(has_slot && confirmed[0][1] == "t",
                "confirmed LSN " + (has_slot ? confirmed[0][0] : std::string("none")) +
                    " >= the last commit's " + last_commit);
  return {};
}

}  // namespace outrider::demo
