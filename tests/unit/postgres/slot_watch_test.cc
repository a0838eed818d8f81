#include "postgres/slot_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace outrider {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

Now at(int ms) {
  return Now{MonoTime{} + std::chrono::hours(1) + milliseconds(ms), WallTime{milliseconds(ms)}};
}

Answer answer() {
  Answer given;
  given.rows.columns = {"found",      "active",      "confirmed",  "restart",       "recovery",
                        "wal_end",    "xmin_age",    "wal_status", "safe_wal_size", "reason",
                        "spill_txns", "spill_bytes", "total_txns"};
  given.rows.rows = {{"t", "t", "0/200", "0/100", "f", "0/300", "42", "extended", "-8",
                      std::nullopt, "3", "4096", "1000"}};
  return given;
}

TEST(SlotHealthSql, AsksOnlyForColumnsOfTheServersVersion) {
  const std::string old = slot_health_sql("s", 120'000);
  EXPECT_THAT(old, Not(HasSubstr("s.wal_status")));
  EXPECT_THAT(old, Not(HasSubstr("pg_stat_replication_slots")));
  const std::string v13 = slot_health_sql("s", 130'000);
  EXPECT_THAT(v13, HasSubstr("s.safe_wal_size"));
  EXPECT_THAT(v13, Not(HasSubstr("spill_txns AS")));
  EXPECT_THAT(slot_health_sql("s", 150'020), HasSubstr("t.spill_txns AS spill_txns"));
  EXPECT_THAT(slot_health_sql("s", 150'020), Not(HasSubstr("conflicting")));
  EXPECT_THAT(slot_health_sql("s", 160'015), HasSubstr("s.conflicting"));
  EXPECT_THAT(slot_health_sql("s", 160'015), Not(HasSubstr("invalidation_reason")));
  EXPECT_THAT(slot_health_sql("s", 170'011), HasSubstr("s.invalidation_reason AS reason"));
  EXPECT_THAT(slot_health_sql("o'brien", 150'020), HasSubstr("'o''brien'"));
}

TEST(SlotHealth, IsReadFromOneRow) {
  const auto health = read_slot_health(answer().rows, at(5));
  ASSERT_TRUE(health);
  EXPECT_EQ(health->seen_at, at(5).mono);
  EXPECT_TRUE(health->exists);
  EXPECT_TRUE(health->active);
  EXPECT_FALSE(health->server_in_recovery);
  EXPECT_EQ(health->backlog_bytes(), 0x100U);
  EXPECT_EQ(health->retained_bytes(), 0x200U);
  EXPECT_EQ(health->wal_status, "extended");
  EXPECT_EQ(health->safe_wal_bytes, 0U) << "negative once it is past the limit";
  EXPECT_EQ(health->catalog_xmin_age, 42U);
  EXPECT_EQ(health->spilled_bytes, 4096U);
  EXPECT_EQ(health->invalidation_reason, "");
}

TEST(SlotHealth, AMissingSlotHasNoDistances) {
  Answer given = answer();
  given.rows.rows = {{"f", std::nullopt, std::nullopt, std::nullopt, "f", "0/300", std::nullopt,
                      std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt,
                      std::nullopt}};
  const auto health = read_slot_health(given.rows, at(0));
  ASSERT_TRUE(health);
  EXPECT_FALSE(health->exists);
  EXPECT_EQ(health->backlog_bytes(), 0U);
  EXPECT_EQ(health->retained_bytes(), 0U) << "not everything since the beginning";
  EXPECT_FALSE(health->safe_wal_bytes);
}

class SlotWatchTest : public ::testing::Test {
 protected:
  std::vector<std::string> notes_;
  NoteSink note_ = [this](const SourceNote& note) { notes_.push_back(note.message); };
  SlotWatch watch_{"s", milliseconds(1'000), note_};
};

TEST_F(SlotWatchTest, AsksAtOnceThenOnceAnInterval) {
  EXPECT_TRUE(watch_.due(at(0).mono));
  EXPECT_THAT(watch_.ask(150'020, at(0)), HasSubstr("pg_replication_slots"));
  EXPECT_FALSE(watch_.due(at(999).mono));
  EXPECT_TRUE(watch_.due(at(1'000).mono));
}

TEST_F(SlotWatchTest, AnAnswerIsAsOldAsItsQuestion) {
  (void)watch_.ask(150'020, at(7));
  watch_.take(answer());
  ASSERT_TRUE(watch_.health());
  EXPECT_EQ(watch_.health()->seen_at, at(7).mono);
}

TEST_F(SlotWatchTest, ALostConnectionTakesItsFiguresAlongAndIsAskedAtOnceWhenBack) {
  (void)watch_.ask(150'020, at(0));
  watch_.take(answer());
  watch_.lost();
  EXPECT_FALSE(watch_.health());
  EXPECT_TRUE(watch_.due(at(1).mono));
}

TEST_F(SlotWatchTest, ARefusalIsToldOnceAndLeavesNoFigures) {
  Answer refused;
  refused.error = ServerError{};
  refused.error->sqlstate = "42501";
  refused.error->message = "permission denied";
  watch_.take(answer());
  watch_.take(refused);
  watch_.take(refused);
  EXPECT_FALSE(watch_.health());
  EXPECT_EQ(notes_.size(), 1U);
  watch_.take(answer());
  watch_.take(refused);
  EXPECT_EQ(notes_.size(), 2U) << "it was well in between";
}

}  // namespace
}  // namespace outrider
