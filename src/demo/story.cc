#include "demo/story.h"

namespace outrider::demo {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSteadyOrders = 500;
constexpr double kSteadyPerSecond = 500;
constexpr auto kArrivalLimit = 10s;

std::string record_row(const std::string& topic, const std::string& partition,
                       const std::string& offset, const std::string& key, const std::string& id,
                       const std::string& ms) {
  return "   " + padded(topic, 26) + padded(partition, 5) + padded(offset, 7) + padded(key, 12) +
         padded(id, 37) + ms;
}

}  // namespace

Result<> Story::tell() {
  report_.heading("What an application writes: both rows in one transaction");
  report_.line(Shop::example_sql().substr(0, Shop::example_sql().size() - 1));
  OUTRIDER_TRY(orders_placed());
  OUTRIDER_TRY(steady_load());
  OUTRIDER_TRY(rolled_back());
  OUTRIDER_TRY(inserted_and_deleted());
  OUTRIDER_TRY(killed());
  OUTRIDER_TRY(broker_down());
  return summary();
}

Result<> Story::show_record(const std::string& id) {
  OUTRIDER_TRY(read_until([&] { return ledger_.has_arrived(id); }, kArrivalLimit));
  const ReadRecord* record = ledger_.first_record(id);
  if (record == nullptr) {
    report_.line("   event " + id + " did not arrive");
    return {};
  }
  report_.line(record_row(record->topic, std::to_string(record->partition),
                          std::to_string(record->offset), record->key, record->id,
                          one_decimal(ledger_.latency_ms(id).value_or(0))));
  return {};
}

Result<> Story::orders_placed() {
  report_.heading("1. Orders placed, and their records");
  report_.line("   ms: from COMMIT's return to the consumer");
  report_.line(record_row("topic", "part", "offset", "key", "header id", "ms"));
  for (int i = 0; i < 6; ++i) {
    OUTRIDER_TRY(std::string id, i % 3 == 2 ? shop_.pay() : shop_.place());
    OUTRIDER_TRY(show_record(id));
  }
  report_.check(ledger_.missing_count() == 0 && ledger_.wrong_count() == 0,
                "6 committed, " + grouped(ledger_.relayed_count()) +
                    " records (the first waited for the relay to connect to Kafka)");
  return {};
}

Result<> Story::steady_load() {
  const std::size_t before = ledger_.committed_count();
  const MonoTime began = std::chrono::steady_clock::now();
  OUTRIDER_TRY(load(kSteadyOrders, kSteadyPerSecond, [&](std::size_t) -> Result<bool> {
    timed_ids_.push_back(shop_.last_id());
    return true;
  }));
  const double took_ms = milliseconds_since(began);
  OUTRIDER_TRY(bool all, catch_up(kArrivalLimit));
  report_.check(all, grouped(ledger_.committed_count() - before) + " more in " +
                         one_decimal(took_ms / 1e3) + " s, " + grouped(ledger_.missing_count()) +
                         " missing");
  return {};
}

Result<> Story::rolled_back() {
  report_.heading("2. Transactions rolled back, and their zero records");
  const std::size_t records_before = ledger_.record_count();
  OUTRIDER_TRY(shop_.place_and_roll_back());
  OUTRIDER_TRY(shop_.place_and_fail());
  OUTRIDER_TRY(std::string kept, shop_.place_and_roll_back_to_savepoint());
  OUTRIDER_TRY(read_until([&] { return ledger_.has_arrived(kept); }, kArrivalLimit));
  // What came before in the WAL would be here by now, on whichever partition.
  OUTRIDER_TRY(read_until([] { return false; }, 100ms));
  const std::size_t records = ledger_.record_count() - records_before;
  report_.line(
      "   one by ROLLBACK, one by a statement that failed, one to a savepoint, before "
      "which an order was kept");
  report_.check(records == 1 && ledger_.has_arrived(kept) && ledger_.uncommitted_count() == 0,
                "3 events rolled back: " + grouped(ledger_.uncommitted_count()) +
                    " records; 1 kept: " + grouped(records) + " record");
  return {};
}

Result<> Story::inserted_and_deleted() {
  report_.heading("3. Event written and deleted in one transaction: the outbox stays empty");
  const std::size_t records_before = ledger_.record_count();
  OUTRIDER_TRY(stage_.database().run("DELETE FROM outbox"));
  for (int i = 0; i < 3; ++i) OUTRIDER_TRY(shop_.place_and_delete());
  OUTRIDER_TRY(catch_up(kArrivalLimit));
  OUTRIDER_TRY(read_until([] { return false; }, 50ms));
  OUTRIDER_TRY(std::string rows, stage_.database().value("SELECT count(*) FROM outbox"));
  const std::size_t records = ledger_.record_count() - records_before;
  report_.line("   DELETE FROM outbox (housekeeping), then 3 times BEGIN, INSERT, DELETE, COMMIT");
  report_.check(records == 3 && ledger_.missing_count() == 0 && rows == "0",
                grouped(records) + " records for 3 events; rows in the outbox: " + rows);
  return {};
}

}  // namespace outrider::demo
