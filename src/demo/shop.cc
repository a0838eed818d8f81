#include "demo/shop.h"

#include <utility>

namespace outrider::demo {
namespace {

constexpr std::int64_t kCustomers = 25;

Error no_row() {
  return Error{ErrorKind::fatal, "the database did not return the event it wrote", "", ""};
}

}  // namespace

Result<> Shop::create_tables(Database& database, const std::string& schema) {
  OUTRIDER_TRY(database.run("CREATE SCHEMA IF NOT EXISTS " + schema));
  OUTRIDER_TRY(database.run("SET search_path = " + schema));
  // A database of somebody else may have it off; the figures here are for commits on disk.
  OUTRIDER_TRY(database.run("SET synchronous_commit = on"));
  OUTRIDER_TRY(database.run(
      "CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, cents int NOT NULL)"));
  OUTRIDER_TRY(
      database.run("CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), "
                   "aggregate_type text NOT NULL, aggregate_id text NOT NULL, "
                   "event_type text NOT NULL, payload jsonb, "
                   "created_at timestamptz NOT NULL DEFAULT now())"));
  return {};
}

std::string Shop::example_sql() {
  return "  BEGIN;\n"
         "  INSERT INTO orders (id, customer, cents) VALUES (1, 'customer-1', 4990);\n"
         "  INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload)\n"
         "    VALUES ('customer', 'customer-1', 'OrderPlaced',\n"
         "            '{\"order\": 1, \"cents\": 4990, \"number\": 1}');\n"
         "  COMMIT;\n";
}

Shop::Draft Shop::draft(const std::string& event_type) {
  const std::string order = std::to_string(++orders_);
  const std::string cents = std::to_string(990 + orders_ * 37 % 9'000);
  const std::string customer = "customer-" + std::to_string(orders_ % kCustomers + 1);
  Draft draft;
  draft.order.topic = topic_prefix_ + event_type;
  draft.order.key = customer;
  draft.order.number = ++numbers_[customer];
  if (event_type == "OrderPlaced") {
    draft.sql = "INSERT INTO orders (id, customer, cents) VALUES (" + order + ", '" + customer +
                "', " + cents + ");\n";
  }
  draft.sql +=
      "INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
      "VALUES ('customer', '" +
      customer + "', '" + event_type + "', '{\"order\": " + order + ", \"cents\": " + cents +
      ", \"number\": " + std::to_string(draft.order.number) + "}') RETURNING id, payload::text;\n";
  return draft;
}

Result<std::string> Shop::commit(const std::string& sql, Order order) {
  OUTRIDER_TRY(Rows rows, database_.run("BEGIN;\n" + sql + "COMMIT;"));
  order.committed_at = std::chrono::steady_clock::now();
  if (rows.empty() || rows[0].size() != 2) return fail(no_row());
  order.id = rows[0][0];
  order.payload = rows[0][1];
  last_id_ = order.id;
  ledger_.committed(std::move(order));
  return last_id_;
}

Result<std::string> Shop::place() {
  Draft order = draft("OrderPlaced");
  return commit(order.sql, std::move(order.order));
}

Result<std::string> Shop::pay() {
  Draft order = draft("OrderPaid");
  return commit(order.sql, std::move(order.order));
}

Result<> Shop::place_and_roll_back() {
  OUTRIDER_TRY(Rows rows, database_.run("BEGIN;\n" + draft("OrderPlaced").sql + "ROLLBACK;"));
  if (rows.empty()) return fail(no_row());
  ledger_.rolled_back(rows[0][0]);
  return {};
}

Result<> Shop::place_and_fail() {
  OUTRIDER_TRY(Rows rows, database_.run("BEGIN;\n" + draft("OrderPlaced").sql));
  if (rows.empty()) return fail(no_row());
  ledger_.rolled_back(rows[0][0]);
  if (database_.run("INSERT INTO orders (id, customer, cents) VALUES (0, NULL, 0)")) {
    return fail(ErrorKind::fatal, "a statement that must fail did not");
  }
  OUTRIDER_TRY(database_.run("COMMIT"));  // Of a failed transaction: a rollback.
  return {};
}

Result<std::string> Shop::place_and_roll_back_to_savepoint() {
  Draft kept = draft("OrderPlaced");
  const Draft undone = draft("OrderPlaced");
  OUTRIDER_TRY(Rows first, database_.run("BEGIN;\n" + kept.sql));
  OUTRIDER_TRY(Rows second, database_.run("SAVEPOINT here;\n" + undone.sql));
  OUTRIDER_TRY(database_.run("ROLLBACK TO SAVEPOINT here; COMMIT"));
  kept.order.committed_at = std::chrono::steady_clock::now();
  if (first.empty() || second.empty()) return fail(no_row());
  ledger_.rolled_back(second[0][0]);
  kept.order.id = first[0][0];
  kept.order.payload = first[0][1];
  std::string id = kept.order.id;
  ledger_.committed(std::move(kept.order));
  return id;
}

Result<std::string> Shop::place_and_delete() {
  Draft order = draft("OrderPlaced");
  const std::string removal =
      "DELETE FROM outbox WHERE aggregate_id = '" + order.order.key + "';\n";
  return commit(order.sql + removal, std::move(order.order));
}

}  // namespace outrider::demo
