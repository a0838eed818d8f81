#include "outrider/relay/slot_judge.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

Lsn at(std::uint64_t position) { return Lsn::from_wire(position); }

const SlotIdentity kSlot{"71", "app", "orders", 3};

StoredPosition witness(std::uint64_t reserved, std::uint64_t flushed, std::uint32_t timeline = 3) {
  StoredPosition stored;
  stored.identity = kSlot;
  stored.identity.timeline = timeline;
  stored.point.lsn = at(reserved);
  stored.flushed = at(flushed);
  return stored;
}

StreamStart start(std::uint64_t confirmed, std::uint64_t wal_end, std::uint64_t restart = 1) {
  StreamStart begin;
  begin.confirmed_flush_lsn = begin.slot_confirmed_lsn = at(confirmed);
  begin.server_wal_end = at(wal_end);
  begin.slot_restart_lsn = at(restart);
  return begin;
}

std::string code_of(const Result<SlotVerdict>& verdict) {
  return verdict ? "ok" : verdict.error().code;
}

TEST(SlotJudge, ASlotThatIsWhereItMayBePasses) {
  EXPECT_EQ(code_of(judge_slot(kSlot, start(500, 900), witness(600, 550), {})), "ok");
  EXPECT_EQ(code_of(judge_slot(kSlot, start(600, 900), witness(600, 550), {})), "ok");
}

TEST(SlotJudge, AFirstSlotIsAdopted) {
  EXPECT_TRUE(judge_slot(kSlot, start(500, 900), std::nullopt, {}).value().adopted);
  EXPECT_TRUE(judge_missing_slot(kSlot, at(900), std::nullopt, {}).value().adopted);
}

TEST(SlotJudge, EachDisagreementHasItsOwnVerdictAndNamesTheBounds) {
  auto advanced = judge_slot(kSlot, start(700, 900), witness(600, 550), {});
  EXPECT_EQ(code_of(advanced), "SLOT_ADVANCED");
  EXPECT_NE(advanced.error().message.find("between 0/226 and 0/2BC"), std::string::npos)
      << advanced.error().message;
  EXPECT_EQ(code_of(judge_slot(kSlot, start(700, 900, 650), witness(600, 550), {})),
            "SLOT_RECREATED");
  EXPECT_EQ(code_of(judge_slot(kSlot, start(500, 540), witness(600, 550), {})), "SERVER_RESTORED");
  EXPECT_EQ(code_of(judge_slot(kSlot, start(500, 900), witness(600, 550, 4), {})), "OLD_TIMELINE");
  auto missing = judge_missing_slot(kSlot, at(900), witness(600, 550), {});
  EXPECT_EQ(code_of(missing), "SLOT_MISSING");
  EXPECT_NE(missing.error().message.find("between 0/226 and 0/384"), std::string::npos)
      << missing.error().message;
  SlotIdentity other = kSlot;
  other.system_id = "99";
  EXPECT_EQ(code_of(judge_slot(other, start(500, 900), witness(600, 550), {})), "OTHER_CLUSTER");
  EXPECT_EQ(code_of(judge_missing_slot(other, at(900), witness(600, 550), {})), "OTHER_CLUSTER");
}

TEST(SlotJudge, APromotionWithItsSlotGoesOnAndIsTold) {
  auto verdict = judge_slot(kSlot, start(500, 900), witness(600, 550, 2), {});
  ASSERT_TRUE(verdict);
  ASSERT_EQ(verdict->warnings.size(), 1U);
  EXPECT_NE(verdict->warnings[0].find("timeline 2 -> 3"), std::string::npos);
}

TEST(SlotJudge, APromotionWithAYoungerSlotIsAGap) {
  auto verdict = judge_slot(kSlot, start(700, 900), witness(600, 550, 2), {});
  ASSERT_FALSE(verdict);
  EXPECT_NE(verdict.error().message.find("younger than the promotion"), std::string::npos);
}

TEST(SlotJudge, RecreateGoesOnAndTellsTheGap) {
  const SlotPolicy policy{true, OnSlotLost::recreate};
  EXPECT_EQ(judge_missing_slot(kSlot, at(900), witness(600, 550), policy)->warnings.size(), 1U);
  EXPECT_EQ(judge_slot(kSlot, start(700, 900), witness(600, 550), policy)->warnings.size(), 1U);
}

TEST(SlotJudge, AMissingSlotIsMadeUnaskedOnlyWhereNothingIsStored) {
  const SlotPolicy forbidden{true, OnSlotLost::stop, false};
  auto first = judge_missing_slot(kSlot, at(900), std::nullopt, forbidden);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().kind, ErrorKind::configuration);
  EXPECT_EQ(code_of(judge_missing_slot(kSlot, at(900), witness(600, 550), forbidden)),
            "SLOT_MISSING");
  const SlotPolicy recreate{true, OnSlotLost::recreate, false};
  EXPECT_TRUE(judge_missing_slot(kSlot, at(900), witness(600, 550), recreate));
}

TEST(SlotJudge, WithoutAWitnessAMissingSlotIsNeverMade) {
  const SlotPolicy policy{false, OnSlotLost::recreate};
  EXPECT_EQ(code_of(judge_missing_slot(kSlot, at(900), std::nullopt, policy)), "SLOT_MISSING");
  EXPECT_EQ(code_of(judge_slot(kSlot, start(700, 900), std::nullopt, policy)), "ok");
}

}  // namespace
}  // namespace outrider
