#include "postgres/read_pacer.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

using std::chrono::microseconds;

MonoTime at(int micros) { return MonoTime(std::chrono::seconds(100)) + microseconds(micros); }

TEST(ReadPacer, ReadsAtOnceWhenThereIsNoBacklog) {
  ReadPacer pacer(microseconds(200));
  for (int i = 0; i < 50; ++i) {  // 5,000 small reads a second.
    EXPECT_TRUE(pacer.may_read(at(i * 200), true));
    EXPECT_FALSE(pacer.may_read(at(i * 200), false));
    pacer.on_read(at(i * 200), 400);
    EXPECT_TRUE(pacer.wants_readiness());
    EXPECT_FALSE(pacer.deadline());
  }
}

TEST(ReadPacer, PausesAfterOneLargeRead) {
  ReadPacer pacer(microseconds(200));
  pacer.on_read(at(0), 16 * 1024);
  EXPECT_FALSE(pacer.wants_readiness());
  EXPECT_EQ(pacer.deadline(), at(200));
  EXPECT_FALSE(pacer.may_read(at(199), true));
  EXPECT_TRUE(pacer.may_read(at(200), false));
}

TEST(ReadPacer, SeesABacklogInManySmallReads) {
  ReadPacer pacer(microseconds(200));
  for (int i = 0; i < 100 && pacer.wants_readiness(); ++i) {
    pacer.on_read(at(i * 6), 120);
  }
  EXPECT_FALSE(pacer.wants_readiness());
}

TEST(ReadPacer, StopsAtTheFirstReadThatBringsLittle) {
  ReadPacer pacer(microseconds(200));
  pacer.on_read(at(0), 16 * 1024);
  pacer.on_read(at(200), 10 * 1024);
  EXPECT_EQ(pacer.deadline(), at(400));
  pacer.on_read(at(400), 100);
  EXPECT_TRUE(pacer.wants_readiness());
  EXPECT_FALSE(pacer.deadline());
  pacer.on_read(at(410), 100);
  EXPECT_TRUE(pacer.wants_readiness());
}

TEST(ReadPacer, NeverPacesWithoutAPause) {
  ReadPacer pacer(microseconds(0));
  pacer.on_read(at(0), 1 << 20);
  EXPECT_TRUE(pacer.wants_readiness());
}

TEST(ReadPacer, BoundsThePause) {
  ReadPacer pacer(std::chrono::seconds(5));
  pacer.on_read(at(0), 1 << 20);
  EXPECT_EQ(pacer.deadline(), at(0) + ReadPacer::kPauseMax);
}

}  // namespace
}  // namespace outrider
