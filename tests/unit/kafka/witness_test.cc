#include "kafka/witness.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kMegabyte = 1024 * 1024;

Lsn at(std::uint64_t megabytes) { return Lsn::from_wire(megabytes * kMegabyte); }

TEST(WitnessBook, NothingIsConfirmedBeforeItIsDurable) {
  WitnessBook book;
  book.open();
  EXPECT_EQ(book.limit(), Lsn{});
  book.reserve(at(100));
  const auto lsn = book.due(MonoTime{} + 1h);
  ASSERT_EQ(lsn, at(116));
  book.written(*lsn, MonoTime{} + 1h);
  EXPECT_EQ(book.limit(), Lsn{});
  EXPECT_FALSE(book.due(MonoTime{} + 2h)) << "one at a time";
  book.durable();
  EXPECT_EQ(book.limit(), at(116));
}

TEST(WitnessBook, IdleWritesNothing) {
  WitnessBook book;
  book.open();
  EXPECT_FALSE(book.due(MonoTime{} + 1h));
  book.reserve(at(100));
  book.written(*book.due(MonoTime{} + 1h), MonoTime{} + 1h);
  book.durable();
  EXPECT_FALSE(book.deadline() && book.due(MonoTime{} + 1h) == std::nullopt) << "deadline agrees";
  for (int i = 0; i < 100; ++i) {
    book.reserve(at(100));
    EXPECT_FALSE(book.due(MonoTime{} + 1h + i * 1s));
  }
  EXPECT_FALSE(book.deadline());
}

TEST(WitnessBook, RunsAheadSoThatSteadyLoadNeverWaits) {
  WitnessBook book;
  book.open();
  int writes = 0;
  int waits = 0;
  for (int tick = 0; tick < 1'000; ++tick) {  // 10 ms each, 40 MB a second.
    const MonoTime now = MonoTime{} + 1h + tick * 10ms;
    const Lsn flushed =
        Lsn::from_wire(kMegabyte * 100 + static_cast<std::uint64_t>(tick) * 400'000);
    book.reserve(flushed);
    if (const auto lsn = book.due(now)) {
      book.written(*lsn, now);
      book.durable();
      ++writes;
    }
    if (tick > 200 && book.limit() < flushed) ++waits;
  }
  EXPECT_LE(writes, 11) << "at most one a second";
  EXPECT_EQ(waits, 0);
}

TEST(WitnessBook, AtMostOneASecondInABurstUnlessTheReservationIsUsedUp) {
  WitnessBook book;
  book.open();
  const MonoTime start = MonoTime{} + 1h;
  book.reserve(at(1));
  book.written(*book.due(start), start);
  book.durable();
  book.reserve(at(10));
  EXPECT_FALSE(book.due(start + 500ms));
  EXPECT_EQ(book.deadline(), start + 1s);
  EXPECT_TRUE(book.due(start + 1s));
  book.reserve(at(20));
  EXPECT_EQ(book.deadline(), start + 20ms);
  EXPECT_FALSE(book.due(start + 19ms));
  EXPECT_EQ(book.due(start + 500ms)->to_wire() / kMegabyte, 95) << "two seconds ahead";
}

TEST(WitnessBook, LostWriteIsWrittenAgain) {
  WitnessBook book;
  book.open();
  book.reserve(at(1));
  book.written(*book.due(MonoTime{}), MonoTime{});
  book.lost();
  book.durable();
  EXPECT_EQ(book.limit(), Lsn{}) << "its fate is not known";
  EXPECT_TRUE(book.due(MonoTime{} + 1s));
}

TEST(WitnessBook, EndOfPositionsIsNotPassed) {
  WitnessBook book;
  book.open();
  book.reserve(Lsn::from_wire(~std::uint64_t{0} - 5));
  EXPECT_EQ(book.due(MonoTime{}), Lsn::max());
}

TEST(WitnessBook, EachSessionWritesOneOfItsOwnBeforeAnythingIsConfirmed) {
  WitnessBook book;
  book.open();
  book.reserve(at(100));
  book.written(*book.due(MonoTime{} + 1h), MonoTime{} + 1h);
  book.durable();
  EXPECT_GT(book.limit(), at(100));
  book.open();
  EXPECT_EQ(book.limit(), Lsn{});
  EXPECT_TRUE(book.due(MonoTime{} + 1h)) << "at once";
}

TEST(WitnessBook, TheLastOneIsExactAndDoesNotWait) {
  WitnessBook book;
  book.open();
  book.reserve(at(100));
  book.written(*book.due(MonoTime{} + 1h), MonoTime{} + 1h);
  book.durable();
  book.settle(at(120));
  ASSERT_EQ(book.due(MonoTime{} + 1h), at(120));
  book.written(at(120), MonoTime{} + 1h);
  EXPECT_FALSE(book.due(MonoTime{} + 1h)) << "one at a time";
  book.durable();
  EXPECT_EQ(book.limit(), at(120));
  EXPECT_FALSE(book.due(MonoTime{} + 2h));
}

}  // namespace
}  // namespace outrider
