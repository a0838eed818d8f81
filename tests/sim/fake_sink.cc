// The broker as the relay sees it: partitions that append in order, outcomes that get lost, batches
// that are refused as a whole, and a stored position.
#include <algorithm>
#include <utility>

#include "sim/chance.h"
#include "sim/sim_world.h"

namespace outrider::sim {
namespace {

Error link_error(const char* what) { return Error{ErrorKind::transient, what, "", ""}; }

}  // namespace

Result<ProduceStatus> FakeSink::produce(const KafkaRecord& record, std::uint64_t sequence, Now) {
  if (no_more_) {
    invariants_.breach("a record was handed over after the last status");
  }
  if (session_ != Session::open) {
    invariants_.breach("a record was handed over before the session was open");
  }
  if (fatal_ || committing_ || happens(random_, odds_.busy)) {
    return ProduceStatus::busy;
  }
  tail_.reset();
  std::string key(record.key.value_or(""));
  std::size_t partition = std::hash<std::string>{}(key) % partitions_.size();
  partitions_[partition].push_back(Copy{sequence, std::string(record.headers.at(0).value.value()),
                                        key, std::string(record.topic),
                                        std::string(record.value.value_or(""))});
  return ProduceStatus::accepted;
}

void FakeSink::append(const Copy& copy) {
  invariants_.appended(copy.id, copy.topic, copy.key, copy.value);
}

void FakeSink::accept(Copy copy, std::size_t partition) {
  if (odds_.transactional) {
    reports_.push_back(Accepted{copy.sequence});
    transaction_.push_back(std::move(copy));
    return;
  }
  append(copy);
  unreported_[partition].push_back(std::move(copy));
}

/// One request: a poison record takes its neighbours with it.
bool FakeSink::refuse_batch(std::size_t partition, std::size_t size) {
  auto& queue = partitions_[partition];
  const auto end = queue.begin() + static_cast<std::ptrdiff_t>(size);
  if (std::none_of(queue.begin(), end,
                   [this](const Copy& copy) { return invariants_.is_poison(copy.id); })) {
    return false;
  }
  for (auto copy = queue.begin(); copy != end; ++copy) {
    reports_.push_back(Refused{copy->sequence,
                               Error{ErrorKind::poison, "refused", "", "MSG_SIZE_TOO_LARGE"},
                               copy->id, copy->topic});
  }
  queue.erase(queue.begin(), end);
  // What else was under way gets its real outcome first.
  for (auto& unreported : unreported_) {
    for (const Copy& copy : unreported) {
      reports_.push_back(Delivered{copy.sequence});
    }
    unreported.clear();
  }
  reports_.push_back(SinkLost{link_error("a record was refused")});
  fatal_ = true;
  return true;
}

void FakeSink::take_batch(std::size_t partition) {
  auto& queue = partitions_[partition];
  const std::size_t size = draw(random_, 0, queue.size());
  if (refuse_batch(partition, size)) {
    return;
  }
  for (std::size_t n = size; n > 0; --n) {
    accept(std::move(queue.front()), partition);
    queue.pop_front();
  }
}

void FakeSink::exchange(Now now) {
  if (!late_.empty() && happens(random_, 0.3)) {
    append(late_.front());
    late_.pop_front();
  }
  if (now.mono < broker_.down_until || fatal_) {
    return;
  }
  if (session_ == Session::opening && happens(random_, 0.3)) {
    session_ = Session::open;
    stored_ = broker_.stored;
    limit_ = stored_ ? stored_->point.lsn : Lsn{};
  }
  for (std::size_t partition = 0; partition < partitions_.size() && !fatal_; ++partition) {
    take_batch(partition);
    if (fatal_) {
      break;
    }
    auto& unreported = unreported_[partition];
    for (std::uint64_t n = draw(random_, 0, unreported.size()); n > 0; --n) {
      reports_.push_back(Delivered{unreported.front().sequence});
      unreported.pop_front();
    }
    auto& queue = partitions_[partition];
    if (!queue.empty() && happens(random_, odds_.lose_outcome)) {
      reports_.push_back(Refused{queue.front().sequence, link_error("the outcome is unknown"),
                                 queue.front().id, ""});
      fatal_ = true;
    } else if (happens(random_, odds_.fatal_producer)) {
      reports_.push_back(SinkLost{link_error("out of order sequence")});
      fatal_ = true;
    }
  }
  if (!fatal_) {
    work_on_transaction();
  }
}

// ---- positions and transactions ---------------------------------------------------------------

void FakeSink::open_session(const SlotIdentity& identity, Now) {
  identity_ = identity;
  session_ = Session::opening;
  stored_.reset();
}

void FakeSink::store(const ResumePoint& point, Lsn flushed) {
  broker_.stored = StoredPosition{identity_, point, flushed, odds_.transactional, {}};
  invariants_.position_stored(point.lsn);
  limit_ = point.lsn;
}

void FakeSink::reserve(Lsn lsn, Now) { wanted_ = lsn; }

void FakeSink::reserve_exactly(Lsn lsn, Now) { (odds_.transactional ? wanted_ : exact_) = lsn; }

/// A transaction is ended at a mark, at once or a few marks later; a long one in the middle.
void FakeSink::mark(const ResumePoint& point, bool whole, Now) {
  if (committing_ || fatal_) {
    return;
  }
  if (whole) {
    tail_ = point;
  }
  std::size_t open = transaction_.size();
  for (const auto& queue : partitions_) {
    open += queue.size();
  }
  if (happens(random_, whole ? 0.4 : (open > 10 ? 0.1 : 0.0))) {
    committing_ = point;
  }
}

void FakeSink::work_on_transaction() {
  if (!odds_.transactional) {
    if (exact_ && session_ == Session::open && happens(random_, 0.3)) {
      store(ResumePoint{*exact_, {}, 0, 0}, *exact_);
      exact_.reset();
    } else if (wanted_ && *wanted_ > limit_ && session_ == Session::open && happens(random_, 0.3)) {
      const Lsn ahead = Lsn::from_wire(wanted_->to_wire() + draw(random_, 0, 300));
      store(ResumePoint{ahead, {}, 0, 0}, *wanted_);
    }
    return;
  }
  const bool empty = std::all_of(partitions_.begin(), partitions_.end(),
                                 [](const auto& queue) { return queue.empty(); });
  if (committing_ && empty && happens(random_, 0.5)) {
    commit();
  } else if (!committing_ && empty && session_ == Session::open && happens(random_, 0.2)) {
    if (!transaction_.empty()) {
      committing_ = tail_;
      return;
    }
    if (wanted_ && *wanted_ > limit_) {
      store(ResumePoint{*wanted_, {}, 0, 0}, *wanted_);
    }
  }
}

void FakeSink::commit() {
  const ResumePoint point = *std::exchange(committing_, std::nullopt);
  const bool known = !happens(random_, odds_.lose_outcome * 10);
  if (known || happens(random_, 0.5)) {
    for (const Copy& copy : transaction_) {
      append(copy);
    }
    store(point, point.lsn);
  }
  if (known) {
    for (const Copy& copy : transaction_) {
      reports_.push_back(Delivered{copy.sequence});
    }
  } else {
    reports_.push_back(SinkLost{link_error("the outcome of the commit is unknown")});
    fatal_ = true;
  }
  transaction_.clear();
}

// ---- losing it ---------------------------------------------------------------------------------

bool FakeSink::next_report(SinkReport& report) {
  if (reports_.empty()) {
    return false;
  }
  report = std::move(reports_.front());
  reports_.pop_front();
  return true;
}

void FakeSink::purge() {
  const bool all_accepted = std::all_of(partitions_.begin(), partitions_.end(),
                                        [](const auto& queue) { return queue.empty(); });
  if (committing_ && all_accepted && !fatal_ && happens(random_, 0.5)) {
    commit();  // The request was on its way.
  }
  for (std::size_t partition = 0; partition < partitions_.size(); ++partition) {
    auto& queue = partitions_[partition];
    // A frozen broker that thaws still appends a prefix of what it had been sent; what follows a
    // refused record is never among it, and a transaction that is not committed is aborted.
    for (std::uint64_t n = fatal_ || odds_.transactional ? 0 : draw(random_, 0, queue.size());
         n > 0 && !invariants_.is_poison(queue.front().id); --n) {
      invariants_.excuse(queue.front().id);
      late_.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    queue.clear();
    for (const Copy& copy : unreported_[partition]) {
      invariants_.excuse(copy.id);
    }
    unreported_[partition].clear();
  }
  committing_.reset();
  tail_.reset();
  transaction_.clear();
  reports_.clear();
  fatal_ = false;
}

void FakeSink::restart(Now) {
  purge();
  if (odds_.transactional) {
    session_ = Session::none;
  }
}

void FakeSink::abandon() { purge(); }

}  // namespace outrider::sim
