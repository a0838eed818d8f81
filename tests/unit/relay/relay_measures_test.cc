// What the relay and its tracker tell those who measure: pending rows, traffic, groups, the front.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "outrider/base/murmur2.h"
#include "support/relay_fixture.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using testing::at;

class RelayMeasuresTest : public testing::RelayFixture {
 protected:
  std::uint64_t received() const {
    std::uint64_t rows = 0;
    for (const TableTraffic& table : relay_->traffic().tables()) rows += table.rows;
    return rows;
  }
};

TEST_F(RelayMeasuresTest, PendingIsWhatIsReceivedAndNotAcknowledged) {
  queue_transaction(200, {"a", "b", "c"});
  settle();
  EXPECT_EQ(relay_->pending_records(), 3U);
  sink_.reports.push_back(Delivered{2});
  settle();
  EXPECT_EQ(relay_->pending_records(), 2U);
  sink_.reports.push_back(Delivered{1});
  sink_.reports.push_back(Delivered{3});
  settle();
  EXPECT_EQ(relay_->pending_records(), 0U);
  EXPECT_EQ(relay_->counters().acknowledged, 3U);
}

TEST_F(RelayMeasuresTest, ARowThatWaitsForTheSinkIsPendingAndNotYetReceivedAnew) {
  sink_.busy = true;
  queue_transaction(200, {"a"});
  settle();
  EXPECT_EQ(relay_->pending_records(), 1U);
  EXPECT_EQ(received(), 0U);
  sink_.busy = false;
  settle();
  EXPECT_EQ(relay_->pending_records(), 1U);
  EXPECT_EQ(received(), 1U) << "once, however often it was tried";
}

TEST_F(RelayMeasuresTest, RowsOfALostProducerStayPendingAndAreReceivedOnce) {
  queue_transaction(200, {"a", "b"});
  settle();
  source_.on_open = [this] { source_.connects = false; };
  sink_.reports.push_back(SinkLost{Error{ErrorKind::transient, "lost", "", ""}});
  settle();
  EXPECT_EQ(relay_->tracker().in_flight_records(), 0U);
  EXPECT_EQ(relay_->pending_records(), 2U);
  source_.on_open = nullptr;
  source_.connects = true;
  queue_transaction(200, {"a", "b"});
  settle();
  EXPECT_EQ(relay_->pending_records(), 2U);
  EXPECT_EQ(received(), 2U);
}

TEST_F(RelayMeasuresTest, TrafficCountsTheBytesOfTheValues) {
  queue_transaction(200, {"abc", "de"});
  settle();
  ASSERT_EQ(relay_->traffic().tables().size(), 1U);
  EXPECT_EQ(relay_->traffic().tables()[0].bytes, 5U);
}

TEST_F(RelayMeasuresTest, TheFrontIsTheOldestRowThatIsNotSettled) {
  queue_transaction(200, {"a", "b"});
  const WallTime committed = now_.wall;
  settle();
  sink_.reports.push_back(Delivered{1});
  settle();
  const auto front = relay_->tracker().front();
  ASSERT_TRUE(front);
  EXPECT_EQ(front->row.commit_lsn, at(200));
  EXPECT_EQ(front->row.index, 1U);
  EXPECT_EQ(front->commit_time, committed);
  EXPECT_EQ(relay_->traffic().topic_name(front->topic), "t");
  EXPECT_EQ(front->how, AckTracker::Partition::by_key);
  EXPECT_EQ(front->partition, murmur2("b"));
  sink_.reports.push_back(Delivered{2});
  settle();
  EXPECT_FALSE(relay_->tracker().front());
}

TEST_F(RelayMeasuresTest, AnOpenTransactionIsTheOldestWhenNoOtherIs) {
  sink_.busy = true;
  const WallTime committed = now_.wall;
  queue_transaction(200, {"a"});
  settle();
  EXPECT_EQ(relay_->tracker().open_transactions(), 0U) << "nothing of it is handed over";
  EXPECT_EQ(relay_->tracker().oldest_commit_time(), committed);
  sink_.busy = false;
  sink_.acknowledge_at_once = true;
  settle();
  EXPECT_FALSE(relay_->tracker().oldest_commit_time());
}

TEST(AckTrackerMeasures, AFinishedTransactionSaysWhenItsFirstRowWasHandedOver) {
  AckTracker tracker;
  ASSERT_TRUE(tracker.stream_started(at(100)));
  ASSERT_TRUE(tracker.begin(at(200), WallTime{}));
  const MonoTime first = MonoTime{} + milliseconds(5);
  for (int row = 0; row < 2; ++row) {
    (void)tracker.next_row().value();
    tracker.take_row(1, AckTracker::Place::sink,
                     {7, first + milliseconds(row), AckTracker::Partition::unknown, 0});
  }
  ASSERT_TRUE(tracker.commit(at(210)));
  tracker.acknowledge(1);
  tracker.acknowledge(2);
  const auto finished = tracker.pop_finished();
  ASSERT_TRUE(finished);
  EXPECT_EQ(finished->since, first);
}

TEST(AckTrackerMeasures, AStoredPositionSaysHowManyRowsItSettled) {
  AckTracker tracker;
  ASSERT_TRUE(tracker.stream_started(at(100)));
  ASSERT_TRUE(tracker.begin(at(200), WallTime{}));
  for (int row = 0; row < 3; ++row) {
    (void)tracker.next_row().value();
    tracker.take_row(1, AckTracker::Place::sink);
  }
  ASSERT_TRUE(tracker.commit(at(210)));
  tracker.acknowledge(1);
  tracker.link_lost();
  EXPECT_EQ(tracker.apply_stored(ResumePoint{at(210), Lsn(), 0, 0}), 2U);
}

}  // namespace
}  // namespace outrider
