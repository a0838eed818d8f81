// RelayFixture: a relay between scripted ports, with a clock that the test moves.
#pragma once

#include <algorithm>
#include <deque>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "outrider/relay/relay.h"
#include "support/scripted_place.h"
#include "support/scripted_ports.h"

namespace outrider::testing {

inline Lsn at(std::uint64_t position) { return Lsn::from_wire(position); }

/// A relay with scripted ports and a clock that the test moves.
class RelayFixture : public ::testing::Test {
 protected:
  RelayFixture() { make(quiet_options()); }

  /// No dead letters, no witness: what most tests are not about.
  static RelayOptions quiet_options() {
    RelayOptions options;
    options.dead_letters.on_poison = OnPoison::stop;
    options.slot.witness = false;
    return options;
  }

  void make(RelayOptions options) {
    options.confirm_interval = std::chrono::milliseconds(5);
    options.status_interval = std::chrono::milliseconds(1'000);
    relay_.reset();
    trace_.clear();
    relay_ = std::make_unique<Relay>(options, source_, sink_, mapper_, observer_,
                                     with_place_ ? &place_ : nullptr);
  }

  void turn(std::chrono::milliseconds passed = std::chrono::milliseconds(10)) {
    now_.mono += passed;
    now_.wall += passed;
    relay_->turn(now_);
  }

  /// Turn until the trace does not change for some turns.
  void settle() {
    for (int i = 0; i < 20; ++i) {
      turn();
    }
  }

  void queue_row(const char* key) {
    values_.push_back({ColumnValue{ColumnValue::State::text, key}});
    source_.changes.push_back(Insert{&relation_, nullptr, values_.back()});
  }

  void queue_transaction(std::uint64_t commit, std::initializer_list<const char*> keys) {
    source_.changes.push_back(Begin{1, at(commit), now_.wall});
    for (const char* key : keys) {
      queue_row(key);
    }
    source_.changes.push_back(Commit{at(commit), at(commit + 10)});
  }

  bool traced(const std::string& line) const {
    return std::find(trace_.begin(), trace_.end(), line) != trace_.end();
  }

  Trace trace_;
  Failures failures_;
  ScriptedSource source_{trace_, failures_};
  ScriptedSink sink_{trace_, failures_};
  KeyMapper mapper_;
  QuietObserver observer_{trace_};
  ScriptedPlace place_{trace_};
  bool with_place_ = false;
  std::deque<std::vector<ColumnValue>> values_;
  Relation relation_{1, {"public", "outbox"}, {{"key", kTextOid}}};
  Now now_{MonoTime{} + std::chrono::hours(1), WallTime{std::chrono::hours(500'000)}};
  std::unique_ptr<Relay> relay_;
};

}  // namespace outrider::testing
