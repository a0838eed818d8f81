// Ledger: what was committed and what came out of Kafka, and whether the two agree. Pure.
//
// The application's side notes each committed order and each id that was rolled back; the
// consumer's side notes each record. Lost, repeated, changed and out of order are judged here
// alone. The order per key is judged by a number that the application takes per key and puts into
// the payload. Limits: everything is kept; a demo has a few thousand orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "outrider/base/clock.h"

namespace outrider::demo {

struct Order {
  std::string id;
  std::string topic;
  std::string key;
  std::string payload;      ///< As the database prints it: payload::text.
  std::int64_t number = 0;  ///< Counts the orders of its key, from 1.
  MonoTime committed_at;    ///< When COMMIT returned.
};

struct ReadRecord {
  std::string topic;
  std::int32_t partition = 0;
  std::int64_t offset = 0;
  std::string key;
  std::string value;
  std::string id;  ///< The header `id`.
  MonoTime arrived_at;
};

/// The number after "number" in a payload; nothing if there is none.
std::optional<std::int64_t> number_in_payload(const std::string& payload);

/// The value that `fraction` of the sorted values do not exceed; 0 of an empty list.
double percentile(std::vector<double> values, double fraction);

class Ledger {
 public:
  void committed(Order order);
  void rolled_back(const std::string& id);
  void arrived(const ReadRecord& record);

  std::size_t committed_count() const { return committed_.size(); }
  std::size_t rolled_back_count() const { return rolled_back_.size(); }
  /// Distinct committed ids that arrived, and those that did not (yet).
  std::size_t relayed_count() const { return committed_.size() - missing_; }
  std::size_t missing_count() const { return missing_; }
  /// Records of an id that had arrived before.
  std::size_t repeated_count() const { return repeated_; }
  /// Among them, those whose topic, partition, key or value differ from the first.
  std::size_t changed_count() const { return changed_; }
  /// Records whose topic, key or value is not what was committed.
  std::size_t wrong_count() const { return wrong_; }
  /// Records that nobody committed: of a transaction rolled back, or of nobody here.
  std::size_t uncommitted_count() const { return uncommitted_; }
  /// First appearances on a topic and key with a number not above the one before.
  std::size_t disorder_count() const { return disorder_; }
  std::size_t record_count() const { return record_count_; }

  bool has_arrived(const std::string& id) const { return first_.count(id) != 0; }
  /// First record of an id; null if none came.
  const ReadRecord* first_record(const std::string& id) const;
  /// From the commit's return to the consumer; nothing unless both happened.
  std::optional<double> latency_ms(const std::string& id) const;

 private:
  void judge_order(const ReadRecord& record);

  std::unordered_map<std::string, Order> committed_;
  std::set<std::string> rolled_back_;
  std::unordered_map<std::string, ReadRecord> first_;
  std::map<std::pair<std::string, std::string>, std::int64_t> last_number_;
  std::size_t missing_ = 0;
  std::size_t repeated_ = 0;
  std::size_t changed_ = 0;
  std::size_t wrong_ = 0;
  std::size_t uncommitted_ = 0;
  std::size_t disorder_ = 0;
  std::size_t record_count_ = 0;
};

}  // namespace outrider::demo
