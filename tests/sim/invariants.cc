#include "sim/invariants.h"

namespace outrider::sim {

void Invariants::breach(const std::string& what) {
  if (breach_.empty()) {
    breach_ = what;
  }
}

void Invariants::committed(const std::string& id, const std::string& topic, const std::string& key,
                           std::uint64_t number, const RowPlace& row) {
  Event event;
  event.topic = topic;
  event.key = key;
  event.number = number;
  event.commit_lsn = row.commit_lsn;
  events_[id] = event;
  by_place_[row] = id;
  undelivered_.emplace(row.commit_lsn, id);
}

void Invariants::bad_row(const std::string& id, bool poison) {
  events_[id].bad = true;
  events_[id].poison = poison;
}

bool Invariants::is_poison(const std::string& id) const {
  auto found = events_.find(id);
  return found != events_.end() && found->second.poison;
}

void Invariants::settled(const Event& event, const std::string& id) {
  auto [from, to] = undelivered_.equal_range(event.commit_lsn);
  for (auto it = from; it != to; ++it) {
    if (it->second == id) {
      undelivered_.erase(it);
      break;
    }
  }
}

void Invariants::dead_lettered(const RowPlace& row) {
  auto found = by_place_.find(row);
  if (found == by_place_.end()) {
    breach("a dead letter names no row: " + row.commit_lsn.to_string() + "/" +
           std::to_string(row.index));
    return;
  }
  const std::string& id = found->second;
  Event& event = events_[id];
  auto [first, is_first] = first_dead_.try_emplace(event.key, event.number);
  if (!event.bad && (!park_key_ || event.number <= first->second)) {
    breach("row " + id + " can be sent and became a dead letter");
  }
  if (event.bad && is_first && event.appends == 0) {
    first->second = event.number;
  }
  event.dead = true;
  settled(event, id);
}

void Invariants::appended(const std::string& id, const std::string& topic, const std::string& key,
                          const std::string& value) {
  auto found = events_.find(id);
  if (found == events_.end()) {
    breach("a record was appended for id " + id + ", which was never committed");
    return;
  }
  Event& event = found->second;
  if (event.topic != topic || event.key != key || value != "{\"n\": " + id + "}") {
    breach("record " + id + " has the wrong topic, key or value");
  }
  trace(std::hash<std::string>{}(id));
  if (++event.appends > 1) {
    ++duplicates_;
    if (excuses_ == event.excuses_at_first && !event.excused) {
      breach("record " + id + " came twice without a crash or an unknown outcome");
    }
    return;
  }
  event.excuses_at_first = excuses_;
  auto parked = first_dead_.find(key);
  if (park_key_ && parked != first_dead_.end() && event.number > parked->second) {
    breach("row " + id + " passed a parked row of its key");
  }
  settled(event, id);
  std::uint64_t& last = last_first_appearance_[topic + "/" + key];
  if (event.number <= last) {
    breach("key " + key + " of topic " + topic + ": event " + std::to_string(event.number) +
           " first appears after event " + std::to_string(last));
  }
  last = event.number;
}

void Invariants::status_sent(Lsn flushed, Now now) {
  if (flushed < last_flushed_) {
    breach("a status went back from " + last_flushed_.to_string() + " to " + flushed.to_string());
  }
  if (flushed > last_flushed_ && flushed > stored_lsn_ && last_flushed_.is_valid()) {
    breach("position " + flushed.to_string() + " was confirmed, but only " +
           stored_lsn_.to_string() + " is written down");
  }
  last_flushed_ = flushed;
  last_status_ = now.mono;
  trace(flushed.to_wire());
  if (!undelivered_.empty() && undelivered_.begin()->first < flushed) {
    breach("position " + flushed.to_string() + " was confirmed, but event " +
           undelivered_.begin()->second + " of commit " + undelivered_.begin()->first.to_string() +
           " is not durable");
  }
}

void Invariants::process_started(Now now) {
  last_flushed_ = Lsn{};
  last_status_ = now.mono;
}

void Invariants::after_step(const Relay& relay, const RelayOptions& options, Now now) {
  const AckTracker& tracker = relay.tracker();
  if (tracker.flushed_lsn() > tracker.received_lsn()) {
    breach("flushed is ahead of received");
  }
  if (!transactional_ && tracker.span() > options.in_flight_records_max) {
    breach("more records in flight than allowed");
  }
  constexpr std::uint64_t kOneRow = 2'000;
  if (tracker.in_flight_bytes() > options.in_flight_bytes_max + kOneRow) {
    breach("more bytes in flight than allowed");
  }
  const bool streaming = relay.phase() == Phase::streaming || relay.phase() == Phase::paused;
  if (streaming && relay.source_state() == SourceState::streaming &&
      now.mono - last_status_ > options.status_interval + std::chrono::milliseconds(100)) {
    breach("no status for longer than the status interval");
  }
}

void Invariants::at_end() {
  if (!undelivered_.empty()) {
    breach(std::to_string(undelivered_.size()) + " committed events are missing, first " +
           undelivered_.begin()->second);
  }
}

}  // namespace outrider::sim
