#include "demo/ledger.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace outrider::demo {

std::optional<std::int64_t> number_in_payload(const std::string& payload) {
  static const std::string kName = "\"number\":";
  std::size_t at = payload.find(kName);
  if (at == std::string::npos) return std::nullopt;
  at = std::min(payload.find_first_not_of(' ', at + kName.size()), payload.size());
  std::int64_t number = 0;
  const char* end = payload.data() + payload.size();
  if (std::from_chars(payload.data() + at, end, number).ec != std::errc()) return std::nullopt;
  return number;
}

double percentile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double rank = std::ceil(fraction * static_cast<double>(values.size()));
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return values[std::min(index, values.size() - 1)];
}

void Ledger::committed(Order order) {
  const std::string id = order.id;
  if (committed_.emplace(id, std::move(order)).second) ++missing_;
}

void Ledger::rolled_back(const std::string& id) { rolled_back_.insert(id); }

void Ledger::arrived(const ReadRecord& record) {
  ++record_count_;
  const auto order = committed_.find(record.id);
  if (order == committed_.end()) {
    ++uncommitted_;
    return;
  }
  const auto [first, is_first] = first_.emplace(record.id, record);
  if (!is_first) {
    const ReadRecord& before = first->second;
    ++repeated_;
    if (before.topic != record.topic || before.partition != record.partition ||
        before.key != record.key || before.value != record.value) {
      ++changed_;
    }
    return;
  }
  --missing_;
  const Order& expected = order->second;
  if (expected.topic != record.topic || expected.key != record.key ||
      expected.payload != record.value) {
    ++wrong_;
  }
  judge_order(record);
}

void Ledger::judge_order(const ReadRecord& record) {
  const auto number = number_in_payload(record.value);
  std::int64_t& last = last_number_[{record.topic, record.key}];
  if (!number || *number <= last) {
    ++disorder_;
    return;
  }
  last = *number;
}

const ReadRecord* Ledger::first_record(const std::string& id) const {
  const auto found = first_.find(id);
  return found == first_.end() ? nullptr : &found->second;
}

std::optional<double> Ledger::latency_ms(const std::string& id) const {
  const auto order = committed_.find(id);
  const ReadRecord* record = first_record(id);
  if (order == committed_.end() || record == nullptr) return std::nullopt;
  const std::chrono::duration<double, std::milli> time =
      record->arrived_at - order->second.committed_at;
  return std::max(time.count(), 0.0);
}

}  // namespace outrider::demo
