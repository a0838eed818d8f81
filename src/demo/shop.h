// Shop: the application of the demo. It writes an order and its event in one transaction.
//
// Notes every outcome in the ledger. The event's key is the customer; `number` counts the orders of
// a customer and is what the order per key is judged by. Database and ledger must outlive it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "demo/database.h"
#include "demo/ledger.h"
#include "outrider/base/result.h"

namespace outrider::demo {

class Shop {
 public:
  Shop(Database& database, Ledger& ledger, std::string topic_prefix)
      : database_(database), ledger_(ledger), topic_prefix_(std::move(topic_prefix)) {}

  /// Make the two tables in a schema, which becomes the connection's own.
  static Result<> create_tables(Database& database, const std::string& schema);

  static std::vector<std::string> event_types() { return {"OrderPlaced", "OrderPaid"}; }

  /// What an application writes, for showing.
  static std::string example_sql();

  /// Id of the last event that was committed.
  const std::string& last_id() const { return last_id_; }

  /// Both return the event's id.
  Result<std::string> place();
  Result<std::string> pay();

  /// Ends in ROLLBACK.
  Result<> place_and_roll_back();
  /// Ends because a later statement fails.
  Result<> place_and_fail();
  /// Rolls back to a savepoint: one order stays (its id is returned), the one after it does not.
  Result<std::string> place_and_roll_back_to_savepoint();
  /// Deletes the event in the transaction that wrote it.
  Result<std::string> place_and_delete();

 private:
  struct Draft {
    std::string sql;
    Order order;
  };
  Draft draft(const std::string& event_type);
  Result<std::string> commit(const std::string& sql, Order order);

  Database& database_;
  Ledger& ledger_;
  std::string topic_prefix_;
  std::string last_id_;
  std::int64_t orders_ = 0;
  std::map<std::string, std::int64_t> numbers_;
};

}  // namespace outrider::demo
