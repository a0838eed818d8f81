#include "outrider/relay/ack_tracker.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

Lsn at(std::uint64_t position) { return Lsn::from_wire(position); }

/// Begin at `commit`, add `records`, commit; gives back the first sequence.
std::uint64_t run_transaction(AckTracker& tracker, std::uint64_t commit, int records) {
  EXPECT_FALSE(tracker.begin(at(commit), WallTime{}).value().whole);
  const std::uint64_t first = tracker.next_sequence();
  for (int i = 0; i < records; ++i) {
    tracker.add_record(100);
  }
  tracker.commit(at(commit + 10));
  return first;
}

int pop_all(AckTracker& tracker) {
  int popped = 0;
  while (tracker.pop_finished()) {
    ++popped;
  }
  return popped;
}

class AckTrackerTest : public ::testing::Test {
 protected:
  AckTrackerTest() { EXPECT_TRUE(tracker_.stream_started(at(100))); }
  AckTracker tracker_;
};

TEST_F(AckTrackerTest, HoldsFlushedLsnBehindOldestOpenTransaction) {
  const std::uint64_t first = run_transaction(tracker_, 200, 1);
  const std::uint64_t second = run_transaction(tracker_, 300, 2);
  tracker_.acknowledge(second);
  tracker_.acknowledge(second + 1);
  EXPECT_EQ(pop_all(tracker_), 0);
  EXPECT_EQ(tracker_.flushed_lsn(), at(100));
  tracker_.acknowledge(first);
  EXPECT_EQ(pop_all(tracker_), 2);
  EXPECT_EQ(tracker_.flushed_lsn(), at(310));
  EXPECT_TRUE(tracker_.idle());
}

TEST_F(AckTrackerTest, NeverConfirmsATransactionBeforeItsCommitIsSeen) {
  ASSERT_TRUE(tracker_.begin(at(200), WallTime{}));
  tracker_.acknowledge(tracker_.add_record(10));
  EXPECT_EQ(pop_all(tracker_), 0);
  tracker_.commit(at(210));
  EXPECT_EQ(pop_all(tracker_), 1);
  EXPECT_EQ(tracker_.flushed_lsn(), at(210));
}

TEST_F(AckTrackerTest, TransactionWithoutRecordsMovesAnIdleTracker) {
  run_transaction(tracker_, 200, 0);
  EXPECT_EQ(tracker_.flushed_lsn(), at(210));
}

TEST_F(AckTrackerTest, AMillionForeignTransactionsDuringAnOutageDoNotGrowTheRing) {
  const std::uint64_t sequence = run_transaction(tracker_, 200, 1);
  for (std::uint64_t i = 0; i < 1'000'000; ++i) {
    run_transaction(tracker_, 1'000 + i * 20, 0);
  }
  EXPECT_EQ(tracker_.open_transactions(), 1U);
  tracker_.acknowledge(sequence);
  EXPECT_EQ(pop_all(tracker_), 1);
  EXPECT_EQ(tracker_.flushed_lsn(), at(1'000 + 999'999 * 20 + 10));
}

TEST_F(AckTrackerTest, AKeepaliveCountsOnceWhatWasSentBeforeIsAcknowledged) {
  tracker_.server_sent_all_before(at(150));
  EXPECT_EQ(tracker_.flushed_lsn(), at(150));
  const std::uint64_t sequence = run_transaction(tracker_, 200, 1);
  tracker_.server_sent_all_before(at(500));
  EXPECT_EQ(tracker_.flushed_lsn(), at(150));
  tracker_.acknowledge(sequence);
  EXPECT_EQ(pop_all(tracker_), 1);
  EXPECT_EQ(tracker_.flushed_lsn(), at(500));
}

TEST_F(AckTrackerTest, AKeepaliveWithinATransactionMeansNothing) {
  ASSERT_TRUE(tracker_.begin(at(600), WallTime{}));
  tracker_.server_sent_all_before(at(590));
  EXPECT_EQ(tracker_.flushed_lsn(), at(100));
  const std::uint64_t sequence = tracker_.add_record(1);
  tracker_.link_lost();
  tracker_.server_sent_all_before(at(595));
  tracker_.acknowledge(sequence);
  EXPECT_EQ(pop_all(tracker_), 0) << "a partial transaction still holds the position";
  EXPECT_EQ(tracker_.flushed_lsn(), at(100));
}

TEST_F(AckTrackerTest, ACommitRecordRightAtAnAdoptedPositionIsFresh) {
  tracker_.server_sent_all_before(at(200));
  EXPECT_FALSE(tracker_.begin(at(200), WallTime{}).value().whole);
}

TEST_F(AckTrackerTest, AfterALostLinkKnownTransactionsAreLeftOut) {
  const std::uint64_t sequence = run_transaction(tracker_, 200, 1);
  run_transaction(tracker_, 300, 0);
  tracker_.link_lost();
  ASSERT_TRUE(tracker_.stream_started(tracker_.flushed_lsn()));
  EXPECT_TRUE(tracker_.begin(at(200), WallTime{}).value().whole);
  tracker_.commit(at(210));
  EXPECT_TRUE(tracker_.begin(at(300), WallTime{}).value().whole);
  tracker_.commit(at(310));
  EXPECT_FALSE(tracker_.begin(at(400), WallTime{}).value().whole);
  tracker_.commit(at(410));
  tracker_.acknowledge(sequence);
  EXPECT_EQ(pop_all(tracker_), 1);
  EXPECT_EQ(tracker_.flushed_lsn(), at(410));
}

TEST_F(AckTrackerTest, APartialTransactionGoesOnBehindItsKnownRows) {
  ASSERT_TRUE(tracker_.begin(at(200), WallTime{}));
  tracker_.add_record(1);
  tracker_.add_record(1);
  tracker_.link_lost();
  EXPECT_TRUE(tracker_.has_partial());
  ASSERT_TRUE(tracker_.stream_started(at(90)));
  auto known = tracker_.begin(at(200), WallTime{}).value();
  EXPECT_FALSE(known.whole);
  EXPECT_EQ(known.first_rows, 2U);
  EXPECT_EQ(tracker_.add_record(1), 3U);
  tracker_.commit(at(210));
  for (std::uint64_t sequence : {3U, 1U, 2U}) {
    tracker_.acknowledge(sequence);
  }
  auto finished = tracker_.pop_finished();
  ASSERT_TRUE(finished);
  EXPECT_EQ(finished->records, 3U);
  EXPECT_EQ(tracker_.flushed_lsn(), at(210));
}

TEST_F(AckTrackerTest, APartialTransactionThatDoesNotComeAgainIsFatal) {
  ASSERT_TRUE(tracker_.begin(at(200), WallTime{}));
  tracker_.add_record(1);
  tracker_.link_lost();
  ASSERT_TRUE(tracker_.stream_started(at(100)));
  auto known = tracker_.begin(at(300), WallTime{});
  ASSERT_FALSE(known);
  EXPECT_EQ(known.error().kind, ErrorKind::fatal);
}

TEST_F(AckTrackerTest, AServerAheadOfTheRelayIsFatal) {
  tracker_.link_lost();
  auto started = tracker_.stream_started(at(101));
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().kind, ErrorKind::fatal);
}

TEST_F(AckTrackerTest, AServerThatHandsBackAnOlderPositionRepeatsNothing) {
  tracker_.acknowledge(run_transaction(tracker_, 200, 1));
  EXPECT_EQ(pop_all(tracker_), 1);
  tracker_.link_lost();
  ASSERT_TRUE(tracker_.stream_started(at(100)));
  EXPECT_TRUE(tracker_.begin(at(200), WallTime{}).value().whole);
}

TEST_F(AckTrackerTest, ATransactionInsideAnotherIsFatal) {
  ASSERT_TRUE(tracker_.begin(at(200), WallTime{}));
  EXPECT_FALSE(tracker_.begin(at(300), WallTime{}));
}

TEST_F(AckTrackerTest, RewindForgetsWhatIsInFlightAndTakesItAgain) {
  run_transaction(tracker_, 200, 3);
  tracker_.rewind();
  EXPECT_TRUE(tracker_.idle());
  EXPECT_EQ(tracker_.in_flight_bytes(), 0U);
  ASSERT_TRUE(tracker_.stream_started(at(100)));
  EXPECT_EQ(run_transaction(tracker_, 200, 3), 4U) << "sequences are never used twice";
}

TEST_F(AckTrackerTest, CountsWhatIsInFlight) {
  const std::uint64_t first = run_transaction(tracker_, 200, 3);
  tracker_.acknowledge(first + 1);
  EXPECT_EQ(tracker_.in_flight_records(), 2U);
  EXPECT_EQ(tracker_.in_flight_bytes(), 200U);
  EXPECT_EQ(tracker_.span(), 3U) << "the oldest record still holds the span";
  tracker_.acknowledge(first);
  EXPECT_EQ(tracker_.span(), 1U);
  EXPECT_EQ(tracker_.commit_lsn_of(first + 2), at(200));
}

using AckTrackerDeathTest = AckTrackerTest;

TEST_F(AckTrackerDeathTest, RefusesAnAckOfARecordThatIsNotInFlight) {
  const std::uint64_t sequence = run_transaction(tracker_, 200, 2);
  EXPECT_DEATH(tracker_.acknowledge(sequence + 2), "an ack names a record in flight");
  tracker_.acknowledge(sequence + 1);
  EXPECT_DEATH(tracker_.acknowledge(sequence + 1), "a record is acknowledged once");
}

}  // namespace
}  // namespace outrider
