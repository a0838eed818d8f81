#include "app/pipeline_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/scripted_ports.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::Pair;

Error error_of(const char* code) { return Error{ErrorKind::transient, "it failed", "", code}; }

TEST(ErrorClass, IsTheClassOfASqlstateElseTheNameElseTheKind) {
  EXPECT_EQ(error_class(error_of("08006")), "08");
  EXPECT_EQ(error_class(error_of("57P03")), "57");
  EXPECT_EQ(error_class(error_of("_ALL_BROKERS_DOWN")), "_ALL_BROKERS_DOWN");
  EXPECT_EQ(error_class(error_of("SLOT_MISSING")), "SLOT_MISSING");
  EXPECT_EQ(error_class(error_of("_SSL!")), "_SSL!") << "five characters, but no SQLSTATE";
  EXPECT_EQ(error_class(error_of("")), "transient");
}

class PipelineMeterTest : public ::testing::Test {
 protected:
  void letter(const char* type, DeadLetterReason reason, const char* code = "") {
    OutboxEvent event;
    event.event_type = type;
    meter_.on_dead_letter(event, RowPlace{}, reason, error_of(code));
  }

  testing::Trace trace_;
  testing::QuietObserver next_{trace_};
  const MonoTime start_ = MonoTime{} + std::chrono::hours(1);
  PipelineMeter meter_{next_, milliseconds(1'000), start_};
};

TEST_F(PipelineMeterTest, CountsFailuresByEventTypeAndTellsTheNextObserver) {
  letter("made", DeadLetterReason::too_large, "MSG_SIZE_TOO_LARGE");
  letter("made", DeadLetterReason::too_large, "MSG_SIZE_TOO_LARGE");
  letter("", DeadLetterReason::undecodable);
  EXPECT_THAT(meter_.failed_by_type(), ElementsAre(Pair("made", 2U), Pair("unknown", 1U)));
  EXPECT_THAT(meter_.row_errors(),
              ElementsAre(Pair("MSG_SIZE_TOO_LARGE", 2U), Pair("undecodable", 1U)));
  EXPECT_EQ(trace_.size(), 3U);
}

TEST_F(PipelineMeterTest, AFollowerOfAParkedKeyIsNoFailure) {
  letter("made", DeadLetterReason::key_parked);
  EXPECT_TRUE(meter_.failed_by_type().empty());
  EXPECT_EQ(trace_.size(), 1U);
}

TEST_F(PipelineMeterTest, EventTypesHaveALimitAndTheRestSharesOne) {
  for (std::size_t i = 0; i < PipelineMeter::kEventTypesMax + 5; ++i) {
    letter(("type-" + std::to_string(i)).c_str(), DeadLetterReason::refused);
  }
  EXPECT_EQ(meter_.failed_by_type().size(), PipelineMeter::kEventTypesMax + 1);
  EXPECT_EQ(meter_.failed_by_type().at("other"), 5U);
}

TEST_F(PipelineMeterTest, MeasuresBatchesAndLatencies) {
  const Now now{start_ + milliseconds(500), WallTime{std::chrono::hours(500'000)}};
  meter_.on_transaction_acked(now.wall - milliseconds(250), 1, now);
  meter_.on_group_acked(start_, 1, now);
  EXPECT_DOUBLE_EQ(meter_.commit_to_ack().sum(), 0.25);
  EXPECT_DOUBLE_EQ(meter_.batch_duration().sum(), 0.5);
}

TEST_F(PipelineMeterTest, TheConfirmedPositionIsAsOldAsItsLastGrowth) {
  const auto at = [this](int s) { return Now{start_ + std::chrono::seconds(s), {}}; };
  meter_.note_turn(std::nullopt, Lsn(), Lsn::from_wire(100), at(1));
  meter_.note_turn(std::nullopt, Lsn(), Lsn::from_wire(100), at(9));
  EXPECT_EQ(meter_.confirmed_at(), at(1).mono);
  SlotHealth health;
  health.seen_at = at(10).mono;
  health.confirmed_lsn = Lsn::from_wire(200);  // Another relay's work.
  meter_.note_turn(health, Lsn(), Lsn::from_wire(100), at(11));
  EXPECT_EQ(meter_.confirmed_at(), at(11).mono);
}

TEST_F(PipelineMeterTest, AStandbyIsCaughtUpByWhatAnotherRelayConfirms) {
  SlotHealth health;
  health.seen_at = start_ + std::chrono::seconds(100);
  health.wal_end = health.confirmed_lsn = Lsn::from_wire(300);
  const Now now{start_ + std::chrono::seconds(101), {}};
  EXPECT_TRUE(meter_.age().at(now, std::nullopt).upper_bound);
  meter_.note_turn(health, Lsn(), Lsn(), now);
  EXPECT_FALSE(meter_.age().at(now, std::nullopt).upper_bound);
}

}  // namespace
}  // namespace outrider
