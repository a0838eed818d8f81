#include "kafka/transaction_plan.h"

#include <chrono>

namespace outrider {

using std::chrono::milliseconds;

void TransactionPlan::Amount::add(std::uint64_t more, MonoTime now) {
  if (records == 0) begun = now;
  ++records;
  bytes += static_cast<std::int64_t>(more);
}

void TransactionPlan::produced(std::uint64_t bytes, MonoTime now) {
  all_.add(bytes, now);
  since_whole_.add(bytes, now);
  covered_ = false;
}

void TransactionPlan::mark(const ResumePoint& point, bool whole) {
  if (empty()) return;
  point_ = point;
  covered_ = true;
  whole_ = whole;
  if (whole) since_whole_ = Amount{};
}

TransactionPlan::Verdict TransactionPlan::judge(MonoTime now) const {
  if (empty()) return Verdict::go_on;
  if (covered_ && whole_) {
    const bool full = all_.records >= config_.transaction_records_max ||
                      all_.bytes >= config_.transaction_bytes_max ||
                      now - all_.begun >= milliseconds(config_.transaction_ms);
    return full ? Verdict::commit : Verdict::go_on;
  }
  if (passed_limit(now) == nullptr) return Verdict::go_on;
  if (config_.on_large_transaction == OnLargeTransaction::stop) return Verdict::too_large;
  return covered_ ? Verdict::split : Verdict::go_on;
}

const char* TransactionPlan::passed_limit(MonoTime now) const {
  if (since_whole_.records > config_.transaction_records_max) return "transaction_records_max";
  if (since_whole_.bytes > config_.transaction_bytes_max) return "transaction_bytes_max";
  const bool slow = since_whole_.records > 0 &&
                    now - since_whole_.begun >= milliseconds(config_.transaction_max_ms);
  return slow ? "transaction_max_ms" : nullptr;
}

void TransactionPlan::clear() {
  all_ = Amount{};
  since_whole_ = Amount{};
  covered_ = false;
  whole_ = false;
}

std::optional<MonoTime> TransactionPlan::deadline() const {
  if (empty()) return std::nullopt;
  if (covered_ && whole_) return all_.begun + milliseconds(config_.transaction_ms);
  // Past that time without a mark nothing changes until there is one.
  if (!covered_ && config_.on_large_transaction == OnLargeTransaction::split) return std::nullopt;
  return since_whole_.begun + milliseconds(config_.transaction_max_ms);
}

}  // namespace outrider
