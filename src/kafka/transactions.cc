#include "kafka/transactions.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "kafka/transaction_step.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

/// Between two steps of a commit; each may block for kCommitMs, and every one is a small risk.
constexpr milliseconds kStepPause{50};
/// Between two looks at an open transaction whose reports do not come.
constexpr milliseconds kProbePause{100};
/// A position without records is written at most so often.
constexpr milliseconds kReserveInterval{1'000};
/// So long a commit may take before it is called trouble.
constexpr milliseconds kPatience{2'000};

}  // namespace

void Transactions::reset() {
  plan_.clear();
  phase_ = Phase::idle;
  sequences_.clear();
  finished_.clear();
  trouble_.clear();
  wanted_ = Lsn{};
}

void Transactions::open(const ResumePoint& committed) {
  committed_ = committed;
  step_at_ = MonoTime::min();
}

bool Transactions::takes_records(MonoTime now) const {
  if (phase_ == Phase::idle) return true;
  return phase_ == Phase::filling && plan_.judge(now) == TransactionPlan::Verdict::go_on;
}

Result<> Transactions::begin(rd_kafka_t* client, MonoTime now) {
  if (phase_ != Phase::idle) return {};
  OUTRIDER_TRY(begin_transaction(client));
  phase_ = Phase::filling;
  begun_at_ = now;
  probe_at_ = now + kProbePause;
  return {};
}

// A topic that the broker does not let in makes no report, only a transaction to be aborted.
Result<> Transactions::probe(rd_kafka_t* client, bool waiting, MonoTime now) {
  if (!waiting || phase_ == Phase::idle || phase_ == Phase::committing || now < probe_at_) {
    return {};
  }
  probe_at_ = now + kProbePause;
  if (auto reason = abort_reason(client)) return fail(std::move(*reason));
  return {};
}

void Transactions::produced(std::uint64_t sequence, std::uint64_t bytes, MonoTime now) {
  sequences_.push_back(sequence);
  plan_.produced(bytes, now);
}

Result<std::optional<ResumePoint>> Transactions::due(MonoTime now) {
  switch (phase_) {
    case Phase::flushing:
    case Phase::committing:
      return std::nullopt;
    case Phase::ending:
      return point_;
    case Phase::idle:
      if (!reserve_due(now)) return std::nullopt;
      point_ = reserve_point();
      reserved_at_ = now;
      break;
    case Phase::filling:
      switch (plan_.judge(now)) {
        case TransactionPlan::Verdict::go_on:
          return std::nullopt;
        case TransactionPlan::Verdict::too_large:
          return fail(too_large(now));
        case TransactionPlan::Verdict::commit:
        case TransactionPlan::Verdict::split:
          point_ = plan_.point();
          break;
      }
      break;
  }
  ending_at_ = now;
  // An idle one is begun by the caller first, and is then ending as well.
  if (phase_ == Phase::filling) phase_ = Phase::ending;
  return point_;
}

Result<> Transactions::commit(rd_kafka_t* client, bool waiting, MonoTime now) {
  if (phase_ == Phase::flushing && !waiting) phase_ = Phase::committing;
  if (phase_ != Phase::committing || now < step_at_) return {};
  OUTRIDER_TRY(const bool done, commit_step(client, trouble_));
  step_at_ = now + kStepPause;
  if (done) finish();
  return {};
}

void Transactions::finish() {
  finished_.insert(finished_.end(), sequences_.begin(), sequences_.end());
  sequences_.clear();
  committed_ = point_;
  plan_.clear();
  trouble_.clear();
  phase_ = Phase::idle;
  step_at_ = MonoTime::min();
}

std::optional<std::uint64_t> Transactions::take_finished() {
  if (finished_.empty()) return std::nullopt;
  const std::uint64_t sequence = finished_.front();
  finished_.pop_front();
  return sequence;
}

bool Transactions::reserve_due(MonoTime now) const {
  return wanted_ > committed_.lsn && (!reserved_at_ || now - *reserved_at_ >= kReserveInterval);
}

// Rows of a split transaction that are in stay known until its end is passed.
ResumePoint Transactions::reserve_point() const {
  ResumePoint point{wanted_, Lsn{}, 0, committed_.retried_letter};
  if (committed_.partial_rows > 0 && wanted_ <= committed_.partial_commit_lsn) {
    point.partial_commit_lsn = committed_.partial_commit_lsn;
    point.partial_rows = committed_.partial_rows;
  }
  return point;
}

Error Transactions::too_large(MonoTime now) const {
  const std::string option = std::string("delivery.") + plan_.passed_limit(now);
  return Error{ErrorKind::configuration,
               "a PostgreSQL transaction passes " + option + " and may not be split",
               "raise " + option + ", or set delivery.on_large_transaction: split",
               "TRANSACTION_TOO_LARGE"};
}

std::string Transactions::trouble(MonoTime now) const {
  const bool ending = phase_ == Phase::flushing || phase_ == Phase::committing;
  if (!ending || now - ending_at_ < kPatience) return {};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - ending_at_).count();
  return "a Kafka transaction is not committed after " + std::to_string(seconds) + " s" +
         (trouble_.empty() ? "" : ": " + trouble_);
}

std::optional<MonoTime> Transactions::deadline(bool waiting) const {
  switch (phase_) {
    case Phase::committing:
      return step_at_;
    case Phase::flushing:
      return waiting ? probe_at_ : MonoTime::min();
    case Phase::ending:
      return MonoTime::min();
    case Phase::filling: {
      const std::optional<MonoTime> due = plan_.deadline();
      if (!waiting) return due;
      return due ? std::min(*due, probe_at_) : probe_at_;
    }
    case Phase::idle:
      break;
  }
  if (wanted_ <= committed_.lsn) return std::nullopt;
  return reserved_at_ ? *reserved_at_ + kReserveInterval : MonoTime::min();
}

}  // namespace outrider
