// Transactions: the Kafka transactions of one producer, one after the other; exactly once only.
//
// idle → filling (records go in) → ending (a position is to be written) → flushing (until
// everything is reported) → committing → idle. The sequences of a transaction are finished, all at
// once, when its commit is known to have succeeded. A commit whose outcome is not known is asked
// for again until it is; what a lost producer leaves behind, the next session's stored position
// tells. Thread: loop; a commit blocks for the
// broker's answer, at most kCommitMs. Errors: configuration (a PostgreSQL
// transaction too large); others lose the producer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "kafka/handles.h"
#include "kafka/transaction_plan.h"
#include "outrider/base/result.h"

namespace outrider {

class Transactions {
 public:
  explicit Transactions(const DeliveryConfig& config) : config_(config), plan_(config) {}

  /// A new producer: what was not committed is not known any more.
  void reset();
  /// A session is open; `committed` is the stored point of this very slot.
  void open(const ResumePoint& committed);

  /// Records may be handed over: no commit is under way or due.
  bool takes_records(MonoTime now) const;
  /// Something is open that a new session would throw away.
  bool busy() const { return phase_ != Phase::idle; }
  /// A transaction was begun that can still be aborted.
  bool abortable() const { return phase_ != Phase::idle && phase_ != Phase::committing; }
  /// When the open transaction was begun.
  MonoTime begun_at() const { return begun_at_; }

  /// Begin a transaction unless one is open.
  Result<> begin(rd_kafka_t* client, MonoTime now);
  void produced(std::uint64_t sequence, std::uint64_t bytes, MonoTime now);
  void mark(const ResumePoint& point, bool whole) { plan_.mark(point, whole); }
  void reserve(Lsn lsn) { wanted_ = std::max(wanted_, lsn); }

  /// The position to write now, if any; answer with position_written(), or be asked again.
  Result<std::optional<ResumePoint>> due(MonoTime now);
  void position_written() { phase_ = Phase::flushing; }
  void position_waits() { phase_ = Phase::ending; }
  /// Make a step of the commit if one is due and no report is waited for.
  Result<> commit(rd_kafka_t* client, bool waiting, MonoTime now);
  /// Ask whether the open transaction can only be aborted: a topic that the broker does not let
  /// into it makes no report. `waiting`: reports are still to come.
  Result<> probe(rd_kafka_t* client, bool waiting, MonoTime now);
  /// A report came: the next step need not wait.
  void wake() { step_at_ = MonoTime::min(); }

  /// A sequence whose transaction is committed.
  std::optional<std::uint64_t> take_finished();
  /// The slot may be confirmed up to here.
  Lsn committed() const { return committed_.lsn; }

  /// Why a commit takes so long; empty if it does not.
  std::string trouble(MonoTime now) const;
  /// `waiting`: reports are still to come.
  std::optional<MonoTime> deadline(bool waiting) const;

 private:
  enum class Phase : std::uint8_t { idle, filling, ending, flushing, committing };

  bool reserve_due(MonoTime now) const;
  ResumePoint reserve_point() const;
  Error too_large(MonoTime now) const;
  void finish();

  const DeliveryConfig config_;
  TransactionPlan plan_;
  Phase phase_ = Phase::idle;
  MonoTime begun_at_{};
  MonoTime ending_at_{};
  MonoTime probe_at_{};
  MonoTime step_at_ = MonoTime::min();
  ResumePoint point_;  ///< Of the transaction that is ending.
  ResumePoint committed_;
  Lsn wanted_;
  std::optional<MonoTime> reserved_at_;
  std::vector<std::uint64_t> sequences_;
  std::deque<std::uint64_t> finished_;
  std::string trouble_;
};

}  // namespace outrider
