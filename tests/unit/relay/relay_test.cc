#include "outrider/relay/relay.h"

#include <algorithm>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/relay_fixture.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::Not;
using testing::Trace;

using testing::at;

class RelayTest : public testing::RelayFixture {};

TEST_F(RelayTest, ConfirmsATransactionOnlyAfterItsLastAck) {
  queue_transaction(200, {"a", "b"});
  turn();
  turn();
  EXPECT_THAT(trace_, ElementsAre("open -", "produce 1 a", "produce 2 b", "status 0/64"));
  sink_.reports.push_back(Delivered{2});
  settle();
  EXPECT_FALSE(traced("status 0/D2"));
  sink_.reports.push_back(Delivered{1});
  settle();
  EXPECT_TRUE(traced("status 0/D2"));
  EXPECT_EQ(relay_->counters().acknowledged, 2U);
}

TEST_F(RelayTest, ConfirmationsAreCoalesced) {
  sink_.acknowledge_at_once = true;
  turn();
  const auto before = relay_->counters().statuses;
  for (std::uint64_t i = 0; i < 100; ++i) {
    queue_transaction(200 + i * 20, {"a"});
    turn(milliseconds(1));
  }
  EXPECT_LE(relay_->counters().statuses - before, 21U) << "100 ms at one every 5 ms";
  EXPECT_GE(relay_->counters().statuses - before, 15U);
}

TEST_F(RelayTest, AStatusGoesOutInTimeWhilePausedAndWithAnUnchangedPosition) {
  RelayOptions options = quiet_options();
  options.in_flight_records_max = 1;
  make(options);
  queue_transaction(200, {"a", "b", "c"});
  settle();
  EXPECT_EQ(relay_->phase(), Phase::paused);
  EXPECT_FALSE(source_.reading);
  const auto before = relay_->counters().statuses;
  for (int i = 0; i < 50; ++i) {
    turn(milliseconds(100));
  }
  EXPECT_GE(relay_->counters().statuses - before, 4U);
  EXPECT_EQ(relay_->confirmed_lsn(), at(100));
}

TEST_F(RelayTest, AShorterServerTimeoutShortensTheStatusInterval) {
  source_.wal_sender_timeout = milliseconds(300);
  settle();
  const auto before = relay_->counters().statuses;
  for (int i = 0; i < 10; ++i) {
    turn(milliseconds(100));
  }
  EXPECT_GE(relay_->counters().statuses - before, 9U);
}

TEST_F(RelayTest, ARequestedReplyIsSentAtOnce) {
  settle();
  const auto before = relay_->counters().statuses;
  source_.changes.push_back(Keepalive{at(100), true});
  turn(milliseconds(1));
  EXPECT_EQ(relay_->counters().statuses, before + 1);
}

TEST_F(RelayTest, AnIdleSlotFollowsTheServer) {
  settle();
  source_.changes.push_back(Keepalive{at(5'000), false});
  settle();
  EXPECT_TRUE(traced("status 0/1388"));
}

TEST_F(RelayTest, ABusySinkHoldsTheRowAndKeepsTheOrder) {
  sink_.busy = true;
  queue_transaction(200, {"a", "b"});
  settle();
  EXPECT_FALSE(source_.reading);
  sink_.busy = false;
  settle();
  EXPECT_THAT(trace_, IsSupersetOf({"produce 1 a", "produce 2 b"}));
}

TEST_F(RelayTest, AfterALostLinkNothingIsProducedTwice) {
  source_.changes = {Begin{1, at(200), now_.wall}};
  queue_row("a");
  turn();
  source_.next_error = Error{ErrorKind::transient, "cut", "", ""};
  turn();
  EXPECT_EQ(relay_->phase(), Phase::backing_off);
  queue_transaction(200, {"a", "b"});
  for (int i = 0; i < 100; ++i) {
    turn();
  }
  EXPECT_EQ(std::count(trace_.begin(), trace_.end(), "produce 1 a"), 1);
  EXPECT_TRUE(traced("produce 2 b"));
  EXPECT_TRUE(traced("open 0/64"));
  EXPECT_EQ(relay_->counters().known_rows, 1U);
}

TEST_F(RelayTest, ReconnectsWithGrowingCappedDelays) {
  RelayOptions options = quiet_options();
  options.reconnect_first = milliseconds(100);
  options.reconnect_max = milliseconds(800);
  make(options);
  failures_ = {1, true, ErrorKind::transient, 0};
  for (int i = 0; i < 2'000; ++i) {
    turn();
  }
  ASSERT_GT(observer_.delays.size(), 10U);
  EXPECT_LE(observer_.delays.front(), milliseconds(100));
  EXPECT_GE(observer_.delays.back(), milliseconds(400));
  for (milliseconds delay : observer_.delays) {
    EXPECT_LE(delay, milliseconds(800));
  }
}

TEST_F(RelayTest, AnUnknownOutcomeRewindsToTheFlushedPosition) {
  queue_transaction(200, {"a"});
  queue_transaction(300, {"b"});
  settle();
  sink_.reports.push_back(Delivered{1});
  sink_.reports.push_back(Refused{2, Error{ErrorKind::transient, "timed out", "", ""}, "b"});
  turn();
  EXPECT_TRUE(traced("restart"));
  queue_transaction(300, {"b"});
  settle();
  settle();
  EXPECT_TRUE(traced("open 0/D2"));
  EXPECT_EQ(std::count(trace_.begin(), trace_.end(), "produce 2 b"), 2) << "the same row again";
  EXPECT_EQ(std::count(trace_.begin(), trace_.end(), "produce 1 a"), 1);
}

TEST_F(RelayTest, ManyLostProducersInAMinuteEndTheRelay) {
  RelayOptions options = quiet_options();
  options.sink_losses_max = 2;
  make(options);
  for (int i = 0; i < 3; ++i) {
    settle();
    sink_.reports.push_back(SinkLost{Error{ErrorKind::transient, "sequence", "", ""}});
    settle();
  }
  settle();
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  ASSERT_TRUE(relay_->stop_error());
  EXPECT_EQ(relay_->stop_error()->kind, ErrorKind::fatal);
}

TEST_F(RelayTest, ARowThatCannotBeRoutedStopsBehindEverythingBeforeIt) {
  queue_transaction(200, {"a"});
  queue_transaction(300, {"b", "poison", "c"});
  turn();
  EXPECT_THAT(trace_, Contains("refused poison 0/12C"));
  EXPECT_THAT(trace_, Not(Contains("produce 3 c")));
  EXPECT_EQ(relay_->phase(), Phase::draining) << "waits for the acks of what went before";
  sink_.reports.push_back(Delivered{1});
  sink_.reports.push_back(Delivered{2});
  settle();
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_TRUE(traced("status 0/D2")) << "the transaction before it is confirmed";
  EXPECT_FALSE(traced("status 0/136"));
  EXPECT_EQ(relay_->stop_error()->kind, ErrorKind::poison);
}

TEST_F(RelayTest, ATableThatCannotBePlacedStopsAfterWhatWentBeforeIsConfirmed) {
  queue_transaction(200, {"a"});
  turn();
  source_.table_at_fault = true;
  source_.next_error = Error{ErrorKind::fatal, "rows may be events", "say what they are", ""};
  turn();
  EXPECT_EQ(relay_->phase(), Phase::draining);
  sink_.reports.push_back(Delivered{1});
  settle();
  EXPECT_THAT(trace_, IsSupersetOf({"status 0/D2", "finish"}));
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_EQ(relay_->stop_error()->kind, ErrorKind::fatal);
}

TEST_F(RelayTest, ARecordThatTheBrokerRefusesAloneStopsIfThatIsThePolicy) {
  source_.on_open = [this] { queue_transaction(200, {"a"}); };
  sink_.refuse_key = "a";
  settle();
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_EQ(relay_->stop_error()->kind, ErrorKind::poison);
  EXPECT_THAT(trace_, Contains("refused a 0/C8"));
}

TEST_F(RelayTest, StopReadsToTheEndOfTheTransactionAndConfirmsIt) {
  source_.changes = {Begin{1, at(200), now_.wall}};
  queue_row("a");
  turn();
  relay_->request_stop(now_);
  turn();
  EXPECT_EQ(relay_->phase(), Phase::draining);
  queue_row("b");
  source_.changes.push_back(Commit{at(200), at(210)});
  queue_transaction(300, {"c"});
  settle();
  EXPECT_THAT(trace_, Not(Contains("produce 3 c"))) << "no further than the transaction";
  sink_.reports.push_back(Delivered{1});
  sink_.reports.push_back(Delivered{2});
  settle();
  EXPECT_THAT(trace_, IsSupersetOf({"produce 2 b", "status 0/D2", "finish"}));
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_TRUE(relay_->confirmed_all());
  EXPECT_FALSE(relay_->stop_error());
}

TEST_F(RelayTest, AStopWhileARowWaitsForTheSinkEndsAtOnceAndClean) {
  sink_.acknowledge_at_once = true;
  queue_transaction(200, {"a"});
  settle();
  sink_.busy = true;
  queue_transaction(300, {"b"});
  settle();
  relay_->request_stop(now_);
  sink_.busy = false;  // Too late: nothing is handed over after the last status.
  turn();
  turn();
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_TRUE(relay_->confirmed_all());
  EXPECT_THAT(trace_, Not(Contains("produce 2 b")));
  EXPECT_TRUE(traced("status 0/D2"));
}

TEST_F(RelayTest, AProducerLostWhileStoppingIsNoCleanStop) {
  queue_transaction(200, {"a"});
  settle();
  relay_->request_stop(now_);
  source_.connects = false;
  sink_.reports.push_back(SinkLost{Error{ErrorKind::transient, "sequence", "", ""}});
  turn(milliseconds(40'000));
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_FALSE(relay_->confirmed_all());
}

TEST_F(RelayTest, AProducerLostWhileStoppingIsReplacedAndTheRestSentAgain) {
  source_.on_open = [this] { queue_transaction(200, {"a"}); };
  settle();
  relay_->request_stop(now_);
  sink_.acknowledge_at_once = true;
  sink_.reports.push_back(SinkLost{Error{ErrorKind::transient, "sequence", "", ""}});
  settle();
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_TRUE(relay_->confirmed_all());
  EXPECT_TRUE(traced("status 0/D2"));
}

TEST_F(RelayTest, ALostSlotStillWaitsForTheAcksOfWhatIsInFlight) {
  queue_transaction(200, {"a", "b"});
  settle();
  source_.next_error = Error{ErrorKind::fatal, "the slot is gone", "", "42704"};
  settle();
  EXPECT_EQ(relay_->phase(), Phase::draining);
  EXPECT_EQ(std::count(trace_.begin(), trace_.end(), "open 0/64"), 0) << "no second try";
  sink_.reports.push_back(Delivered{1});
  sink_.reports.push_back(Delivered{2});
  settle();
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_EQ(relay_->counters().acknowledged, 2U);
  EXPECT_EQ(relay_->stop_error()->kind, ErrorKind::fatal);
}

TEST_F(RelayTest, AFormerActiveTakesOverAgainWhereTheOtherRelayLeftOff) {
  queue_transaction(200, {"a"});
  settle();
  source_.next_error = Error{ErrorKind::transient, "cut", "", ""};
  source_.connects = false;
  for (int i = 0; i < 100; ++i) {
    turn();
  }
  source_.set_state(SourceState::streaming);
  source_.changes = {
      StreamStart{at(900), milliseconds(0), true, false, at(5'000), at(900), at(100)}};
  queue_transaction(1'000, {"b"});
  settle();
  EXPECT_FALSE(relay_->stop_error());
  EXPECT_TRUE(traced("restart")) << "what was in flight came from the other relay";
  EXPECT_TRUE(traced("produce 2 b"));
}

TEST_F(RelayTest, AnAdvancedSlotThatNobodyElseHeldIsFatal) {
  settle();
  source_.next_error = Error{ErrorKind::transient, "cut", "", ""};
  source_.connects = false;
  for (int i = 0; i < 100; ++i) {
    turn();
  }
  source_.set_state(SourceState::streaming);
  source_.changes = {
      StreamStart{at(900), milliseconds(0), false, false, at(5'000), at(900), at(100)}};
  settle();
  ASSERT_TRUE(relay_->stop_error());
  EXPECT_EQ(relay_->stop_error()->kind, ErrorKind::fatal);
}

TEST_F(RelayTest, AStopThatTakesTooLongEndsUnconfirmed) {
  RelayOptions options = quiet_options();
  options.shutdown_timeout = milliseconds(500);
  make(options);
  queue_transaction(200, {"a"});
  settle();
  relay_->request_stop(now_);
  for (int i = 0; i < 60; ++i) {
    turn();
  }
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_FALSE(relay_->confirmed_all());
  EXPECT_FALSE(relay_->stop_error());
}

TEST_F(RelayTest, AStopBeforeTheFirstConnectionEndsAtOnce) {
  source_.connects = false;
  settle();
  relay_->request_stop(now_);
  turn();
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_TRUE(relay_->confirmed_all());
}

TEST_F(RelayTest, AStopWithoutALinkDoesNotClaimThatEverythingIsConfirmed) {
  sink_.acknowledge_at_once = true;
  queue_transaction(200, {"a"});
  settle();
  source_.next_error = Error{ErrorKind::transient, "cut", "", ""};
  source_.connects = false;
  turn();
  relay_->request_stop(now_);
  settle();
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_FALSE(relay_->confirmed_all()) << "the server may have forgotten the last status";
}

TEST_F(RelayTest, ConfigurationErrorsStopAtOnce) {
  failures_ = {1, false, ErrorKind::configuration, 0};
  turn();
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_EQ(relay_->stop_error()->kind, ErrorKind::configuration);
}

TEST_F(RelayTest, RowsAndCommitsOutsideATransactionAreFatal) {
  settle();
  queue_row("a");
  settle();
  ASSERT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_EQ(relay_->stop_error()->kind, ErrorKind::fatal);
}

TEST_F(RelayTest, ADryRunNeverMovesTheConfirmedPosition) {
  RelayOptions options = quiet_options();
  options.confirm = false;
  make(options);
  sink_.acknowledge_at_once = true;
  queue_transaction(200, {"a"});
  for (int i = 0; i < 300; ++i) {
    turn();
  }
  relay_->request_stop(now_);
  settle();
  EXPECT_EQ(relay_->phase(), Phase::stopped);
  EXPECT_TRUE(relay_->confirmed_all());
  for (const std::string& line : trace_) {
    EXPECT_TRUE(line.rfind("status", 0) != 0 || line == "status 0/64") << line;
  }
}

TEST_F(RelayTest, CountsWhatIsNoEvent) {
  source_.changes.push_back(Begin{1, at(200), now_.wall});
  source_.changes.push_back(Skipped{Skipped::What::update});
  source_.changes.push_back(Skipped{Skipped::What::remove});
  source_.changes.push_back(Skipped{Skipped::What::truncate});
  source_.changes.push_back(Insert{});
  source_.changes.push_back(Commit{at(200), at(210)});
  source_.changes.push_back(LogicalMessage{false, at(220), "other", "x"});
  settle();
  const RelayCounters& counters = relay_->counters();
  EXPECT_EQ(counters.updates, 1U);
  EXPECT_EQ(counters.deletes, 1U);
  EXPECT_EQ(counters.truncates, 1U);
  EXPECT_EQ(counters.other_tables, 1U);
  EXPECT_EQ(counters.messages, 1U);
  EXPECT_EQ(counters.empty_transactions, 1U);
  EXPECT_EQ(counters.events, 0U);
}

/// SQLite's loop: the first, second, third … fallible port call fails, once and then for good,
/// until a run passes without reaching the failure. Transient failures must never lose an event,
/// others must end the relay with that error.
TEST_F(RelayTest, WhicheverPortCallFailsEverythingArrivesOrTheRelayStops) {
  for (ErrorKind kind : {ErrorKind::transient, ErrorKind::fatal}) {
    bool reached = true;
    for (std::uint64_t n = 1; reached; ++n) {
      ASSERT_LT(n, 500U) << "the loop must come to an end";
      SCOPED_TRACE("failing call " + std::to_string(n));
      testing::ScriptedSource source(trace_, failures_);
      testing::ScriptedSink sink(trace_, failures_);
      sink.acknowledge_at_once = true;
      trace_.clear();
      failures_ = {n, false, kind, 0};
      RelayOptions options;
      Relay relay(options, source, sink, mapper_, observer_);
      auto queue_all = [&] {
        source.changes.clear();
        for (std::uint64_t commit : {200U, 300U}) {
          if (source.start > at(commit)) continue;
          source.changes.push_back(Begin{1, at(commit), now_.wall});
          values_.push_back({ColumnValue{ColumnValue::State::text, commit == 200 ? "a" : "b"}});
          source.changes.push_back(Insert{nullptr, nullptr, values_.back()});
          source.changes.push_back(Commit{at(commit), at(commit + 10)});
        }
      };
      source.on_open = queue_all;
      for (int i = 0; i < 100 && relay.phase() != Phase::stopped; ++i) {
        now_.mono += milliseconds(50);
        relay.turn(now_);
      }
      reached = failures_.was_reached();
      if (kind == ErrorKind::transient || !reached) {
        EXPECT_EQ(relay.counters().acknowledged, 2U);
        EXPECT_EQ(relay.confirmed_lsn(), at(310));
      } else if (relay.phase() == Phase::stopped) {
        ASSERT_TRUE(relay.stop_error());
        EXPECT_EQ(relay.stop_error()->kind, ErrorKind::fatal);
      } else {
        EXPECT_EQ(relay.counters().acknowledged, 2U) << "a sink that was busy once";
      }
      failures_ = {};
      if (reached && n > 60) break;  // Idle turns go on for ever; every kind of call was hit.
    }
  }
}

}  // namespace
}  // namespace outrider
