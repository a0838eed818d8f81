// Invariants: what must hold after every step of a simulated run, told as facts happen.
//
// It knows what was committed and what the broker holds, and judges: nothing uncommitted is ever
// appended; first appearances of a key are in commit order; no status confirms an event that is not
// durable; a process never sends a lower position, nor one that is not written down; only rows that
// cannot be sent become dead letters (under park_key also those behind them, and nothing of such a
// key is sent any more); duplicates only with an excuse; limits hold; a status goes out in time; at
// the end nothing is missing. The first breach is kept as text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "outrider/base/clock.h"
#include "outrider/relay/relay.h"

namespace outrider::sim {

class Invariants {
 public:
  void committed(const std::string& id, const std::string& topic, const std::string& key,
                 std::uint64_t number, const RowPlace& row);
  /// The row can never become a record; `poison`: because the broker refuses it.
  void bad_row(const std::string& id, bool poison);
  bool is_poison(const std::string& id) const;
  void dead_lettered(const RowPlace& row);
  /// Later rows of a key with a dead letter follow it.
  void expect_followers(bool park_key) { park_key_ = park_key; }
  /// Records become visible by transactions: never twice, whatever happens.
  void expect_transactions(bool transactional) { transactional_ = transactional; }
  void position_stored(Lsn lsn) { stored_lsn_ = std::max(stored_lsn_, lsn); }
  void appended(const std::string& id, const std::string& topic, const std::string& key,
                const std::string& value);
  void status_sent(Lsn flushed, Now now);
  /// A relay process begins its life.
  void process_started(Now now);
  /// From here on what is not confirmed may come twice.
  void excuse_duplicates() { ++excuses_; }
  /// The fate of this record was unknown when its producer was given up.
  void excuse(const std::string& id) { events_[id].excused = true; }
  void stream_started(Now now) { last_status_ = now.mono; }
  void after_step(const Relay& relay, const RelayOptions& options, Now now);
  void at_end();
  void breach(const std::string& what);

  void trace(std::uint64_t fact) { hash_ = (hash_ ^ fact) * 1099511628211ULL; }
  std::uint64_t trace_hash() const { return hash_; }
  const std::string& first_breach() const { return breach_; }
  std::size_t missing() const { return undelivered_.size(); }
  std::uint64_t duplicates() const { return duplicates_; }

 private:
  struct Event {
    std::string topic, key;
    std::uint64_t number = 0;
    Lsn commit_lsn;
    std::uint64_t appends = 0;
    std::uint64_t excuses_at_first = 0;
    bool excused = false;
    bool bad = false, poison = false, dead = false;
  };
  void settled(const Event& event, const std::string& id);
  std::unordered_map<std::string, Event> events_;
  std::map<RowPlace, std::string> by_place_;
  std::map<std::string, std::uint64_t> first_dead_;  ///< By key: its first row that left.
  bool park_key_ = false;
  bool transactional_ = false;
  Lsn stored_lsn_;
  /// Committed and not yet appended, by commit position: what no status may pass.
  std::multimap<Lsn, std::string> undelivered_;
  std::map<std::string, std::uint64_t> last_first_appearance_;
  std::uint64_t excuses_ = 0;
  std::uint64_t duplicates_ = 0;
  Lsn last_flushed_;
  MonoTime last_status_{};
  std::uint64_t hash_ = 1469598103934665603ULL;
  std::string breach_;
};

}  // namespace outrider::sim
