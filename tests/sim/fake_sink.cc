// The broker as the relay sees it: partitions that append in order, outcomes that get lost.
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
  if (fatal_ || happens(random_, odds_.busy)) {
    return ProduceStatus::busy;
  }
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

void FakeSink::exchange(Now now) {
  if (!late_.empty() && happens(random_, 0.3)) {
    append(late_.front());
    late_.pop_front();
  }
  if (now.mono < broker_.down_until || fatal_) {
    return;
  }
  for (std::size_t partition = 0; partition < partitions_.size(); ++partition) {
    auto& queue = partitions_[partition];
    auto& unreported = unreported_[partition];
    for (std::uint64_t n = draw(random_, 0, queue.size()); n > 0; --n) {
      append(queue.front());
      unreported.push_back(queue.front().sequence);
      queue.pop_front();
    }
    for (std::uint64_t n = draw(random_, 0, unreported.size()); n > 0; --n) {
      reports_.push_back(Delivered{unreported.front()});
      unreported.pop_front();
    }
    if (!queue.empty() && happens(random_, odds_.lose_outcome)) {
      reports_.push_back(
          Refused{queue.front().sequence, link_error("the outcome is unknown"), queue.front().id});
      fatal_ = true;
    } else if (happens(random_, odds_.fatal_producer)) {
      reports_.push_back(SinkLost{link_error("out of order sequence")});
      fatal_ = true;
    }
  }
}

bool FakeSink::next_report(SinkReport& report) {
  if (reports_.empty()) {
    return false;
  }
  report = std::move(reports_.front());
  reports_.pop_front();
  return true;
}

void FakeSink::purge() {
  for (std::size_t partition = 0; partition < partitions_.size(); ++partition) {
    auto& queue = partitions_[partition];
    // A frozen broker that thaws still appends a prefix of what it had been sent.
    for (std::uint64_t n = draw(random_, 0, queue.size()); n > 0; --n) {
      invariants_.excuse(queue.front().id);
      late_.push_back(std::move(queue.front()));
      queue.pop_front();
    }
    queue.clear();
    unreported_[partition].clear();
  }
  reports_.clear();
  fatal_ = false;
}

void FakeSink::restart(Now) {
  invariants_.excuse_duplicates();
  purge();
}

void FakeSink::abandon() { purge(); }

}  // namespace outrider::sim
