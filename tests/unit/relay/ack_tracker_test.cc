#include "outrider/relay/ack_tracker.h"

#include <gtest/gtest.h>

#include <vector>

namespace outrider {
namespace {

using Place = AckTracker::Place;

Lsn at(std::uint64_t position) { return Lsn::from_wire(position); }

/// Take the next row of the open transaction; its sequence.
std::uint64_t take(AckTracker& tracker, Place place = Place::sink) {
  const AckTracker::Row row = tracker.next_row().value();
  EXPECT_TRUE(row.wanted);
  tracker.take_row(100, place);
  return row.sequence;
}

/// Begin at `commit`, take `rows`, commit; gives back the first sequence.
std::uint64_t run_transaction(AckTracker& tracker, std::uint64_t commit, int rows) {
  EXPECT_FALSE(tracker.begin(at(commit), WallTime{}).value());
  std::uint64_t first = 0;
  for (int i = 0; i < rows; ++i) {
    const std::uint64_t sequence = take(tracker);
    first = i == 0 ? sequence : first;
  }
  EXPECT_TRUE(tracker.commit(at(commit + 10)));
  return first;
}

/// The transaction comes again: which of its rows are wanted.
std::vector<bool> replay(AckTracker& tracker, std::uint64_t commit, int rows) {
  std::vector<bool> wanted;
  if (tracker.begin(at(commit), WallTime{}).value()) {
    EXPECT_TRUE(tracker.commit(at(commit + 10)));
    return wanted;
  }
  for (int i = 0; i < rows; ++i) {
    wanted.push_back(tracker.next_row().value().wanted);
    wanted.back() ? tracker.take_row(100, Place::sink) : tracker.pass_row();
  }
  EXPECT_TRUE(tracker.commit(at(commit + 10)));
  return wanted;
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
  tracker_.acknowledge(take(tracker_));
  EXPECT_EQ(pop_all(tracker_), 0);
  ASSERT_TRUE(tracker_.commit(at(210)));
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
  const std::uint64_t sequence = take(tracker_);
  tracker_.link_lost();
  tracker_.server_sent_all_before(at(595));
  tracker_.acknowledge(sequence);
  EXPECT_EQ(pop_all(tracker_), 0) << "a partial transaction still holds the position";
  EXPECT_EQ(tracker_.flushed_lsn(), at(100));
}

TEST_F(AckTrackerTest, ACommitRecordRightAtAnAdoptedPositionIsFresh) {
  tracker_.server_sent_all_before(at(200));
  EXPECT_FALSE(tracker_.begin(at(200), WallTime{}).value());
}

TEST_F(AckTrackerTest, AfterALostLinkRowsUnderWayAreNotWanted) {
  const std::uint64_t sequence = run_transaction(tracker_, 200, 1);
  run_transaction(tracker_, 300, 0);
  tracker_.link_lost();
  ASSERT_TRUE(tracker_.stream_started(tracker_.flushed_lsn()));
  EXPECT_EQ(replay(tracker_, 200, 1), std::vector<bool>({false}));
  EXPECT_TRUE(replay(tracker_, 300, 0).empty());
  run_transaction(tracker_, 400, 0);
  tracker_.acknowledge(sequence);
  EXPECT_EQ(pop_all(tracker_), 1);
  EXPECT_EQ(tracker_.flushed_lsn(), at(410));
}

TEST_F(AckTrackerTest, APartialTransactionGoesOnBehindItsKnownRows) {
  ASSERT_TRUE(tracker_.begin(at(200), WallTime{}));
  take(tracker_);
  take(tracker_);
  tracker_.link_lost();
  EXPECT_TRUE(tracker_.has_partial());
  ASSERT_TRUE(tracker_.stream_started(at(90)));
  EXPECT_EQ(replay(tracker_, 200, 3), std::vector<bool>({false, false, true}));
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
  take(tracker_);
  tracker_.link_lost();
  ASSERT_TRUE(tracker_.stream_started(at(100)));
  auto settled = tracker_.begin(at(300), WallTime{});
  ASSERT_FALSE(settled);
  EXPECT_EQ(settled.error().kind, ErrorKind::fatal);
}

TEST_F(AckTrackerTest, ATransactionThatComesAgainWithOtherRowsIsFatal) {
  run_transaction(tracker_, 200, 2);
  run_transaction(tracker_, 300, 0);
  tracker_.link_lost();
  ASSERT_TRUE(tracker_.begin(at(200), WallTime{}));
  tracker_.pass_row();
  EXPECT_EQ(tracker_.commit(at(210)).error().kind, ErrorKind::fatal) << "one row fewer";
  tracker_.link_lost();
  ASSERT_TRUE(tracker_.begin(at(200), WallTime{}));
  tracker_.pass_row();
  tracker_.pass_row();
  EXPECT_EQ(tracker_.next_row().error().kind, ErrorKind::fatal) << "one row more";
  tracker_.link_lost();
  ASSERT_TRUE(tracker_.begin(at(300), WallTime{}));
  EXPECT_EQ(tracker_.next_row().error().kind, ErrorKind::fatal) << "it had none";
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
  EXPECT_TRUE(tracker_.begin(at(200), WallTime{}).value());
}

TEST_F(AckTrackerTest, ATransactionInsideAnotherIsFatal) {
  ASSERT_TRUE(tracker_.begin(at(200), WallTime{}));
  EXPECT_FALSE(tracker_.begin(at(300), WallTime{}));
}

TEST_F(AckTrackerTest, AfterALostProducerOnlyWhatWasNotAcknowledgedIsWantedAgain) {
  const std::uint64_t first = run_transaction(tracker_, 200, 3);
  const std::uint64_t second = run_transaction(tracker_, 300, 1);
  tracker_.acknowledge(first + 1);
  tracker_.acknowledge(second);
  tracker_.producer_lost();
  EXPECT_EQ(tracker_.lost_records(), 2U);
  EXPECT_EQ(tracker_.in_flight_bytes(), 0U);
  EXPECT_EQ(replay(tracker_, 200, 3), std::vector<bool>({true, false, true}));
  EXPECT_EQ(replay(tracker_, 300, 1), std::vector<bool>({false}));
  EXPECT_EQ(tracker_.lost_records(), 0U);
  tracker_.acknowledge(first);
  tracker_.acknowledge(first + 2);
  EXPECT_EQ(pop_all(tracker_), 2);
  EXPECT_EQ(tracker_.flushed_lsn(), at(310));
}

TEST_F(AckTrackerTest, ADeadLetterUnderWayOutlivesALostProducer) {
  ASSERT_TRUE(tracker_.begin(at(200), WallTime{}));
  const std::uint64_t letter = take(tracker_, Place::dead_letters);
  take(tracker_);
  ASSERT_TRUE(tracker_.commit(at(210)));
  tracker_.producer_lost();
  EXPECT_EQ(tracker_.in_flight(Place::dead_letters), 1U);
  EXPECT_TRUE(tracker_.under_way(letter, Place::dead_letters));
  EXPECT_EQ(replay(tracker_, 200, 2), std::vector<bool>({false, true}));
  tracker_.acknowledge(letter);
  EXPECT_EQ(pop_all(tracker_), 0);
  tracker_.acknowledge(letter + 1);
  EXPECT_EQ(pop_all(tracker_), 1);
}

TEST_F(AckTrackerTest, AFinishedTransactionIsNotPoppedWhileItComesAgain) {
  const std::uint64_t first = run_transaction(tracker_, 200, 1);
  tracker_.link_lost();
  ASSERT_FALSE(tracker_.begin(at(200), WallTime{}).value());
  tracker_.acknowledge(first);
  EXPECT_EQ(pop_all(tracker_), 0);
  tracker_.pass_row();
  ASSERT_TRUE(tracker_.commit(at(210)));
  EXPECT_EQ(pop_all(tracker_), 1);
}

TEST_F(AckTrackerTest, AStoredPositionSettlesWhatLiesBeforeIt) {
  run_transaction(tracker_, 200, 2);
  ASSERT_TRUE(tracker_.begin(at(300), WallTime{}));
  take(tracker_);
  take(tracker_);
  tracker_.producer_lost();
  tracker_.apply_stored(ResumePoint{at(210), at(300), 1, 0});
  EXPECT_EQ(pop_all(tracker_), 1);
  EXPECT_EQ(tracker_.flushed_lsn(), at(210));
  EXPECT_TRUE(replay(tracker_, 200, 2).empty());
  EXPECT_EQ(replay(tracker_, 300, 2), std::vector<bool>({false, true}));
}

TEST_F(AckTrackerTest, AStoredPositionOfAnEarlierProcessIsSkippedTo) {
  tracker_.apply_stored(ResumePoint{at(250), at(300), 2, 0});
  EXPECT_EQ(tracker_.flushed_lsn(), at(250));
  EXPECT_TRUE(tracker_.begin(at(200), WallTime{}).value()) << "before the position";
  ASSERT_TRUE(tracker_.commit(at(210)));
  EXPECT_EQ(replay(tracker_, 300, 3), std::vector<bool>({false, false, true}));
  tracker_.acknowledge(3);
  EXPECT_EQ(pop_all(tracker_), 1);
  EXPECT_EQ(tracker_.flushed_lsn(), at(310));
}

TEST_F(AckTrackerTest, AHandOverForgetsWhatWasUnderWay) {
  const std::uint64_t first = run_transaction(tracker_, 200, 3);
  tracker_.hand_over(at(400));
  EXPECT_TRUE(tracker_.idle());
  EXPECT_FALSE(tracker_.under_way(first, Place::sink));
  EXPECT_TRUE(tracker_.begin(at(200), WallTime{}).value());
  ASSERT_TRUE(tracker_.commit(at(210)));
  EXPECT_EQ(run_transaction(tracker_, 500, 1), 4U) << "sequences go on";
}

TEST_F(AckTrackerTest, CountsWhatIsInFlight) {
  const std::uint64_t first = run_transaction(tracker_, 200, 3);
  tracker_.acknowledge(first + 1);
  EXPECT_EQ(tracker_.in_flight_records(), 2U);
  EXPECT_EQ(tracker_.in_flight_bytes(), 200U);
  EXPECT_EQ(tracker_.span(), 3U) << "the oldest row still holds the span";
  tracker_.acknowledge(first);
  EXPECT_EQ(tracker_.span(), 1U);
  EXPECT_EQ(tracker_.place_of(first + 2), (RowPlace{at(200), 2}));
}

using AckTrackerDeathTest = AckTrackerTest;

TEST_F(AckTrackerDeathTest, RefusesAnAckOfARecordThatIsNotInFlight) {
  const std::uint64_t sequence = run_transaction(tracker_, 200, 2);
  EXPECT_DEATH(tracker_.acknowledge(sequence + 2), "an ack names a row in flight");
  tracker_.acknowledge(sequence + 1);
  EXPECT_DEATH(tracker_.acknowledge(sequence + 1), "a row is acknowledged once");
}

}  // namespace
}  // namespace outrider
