#include "outrider/loop/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

namespace outrider {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

std::unique_ptr<EventLoop> make_loop() {
  auto loop = EventLoop::create();
  EXPECT_TRUE(loop.has_value());
  return std::move(*loop);
}

/// Two connected stream sockets, closed at the end unless closed before.
struct SocketPair {
  SocketPair() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data()), 0); }
  ~SocketPair() {
    close_end(0);
    close_end(1);
  }
  void close_end(std::size_t end) {
    if (fds[end] >= 0) {
      close(fds[end]);
      fds[end] = -1;
    }
  }
  void write_from(std::size_t end) const { EXPECT_EQ(write(fds[end], "x", 1), 1); }

  std::array<int, 2> fds{-1, -1};
};

/// Look once, without waiting.
void look(EventLoop& loop) { loop.wait(steady_clock::now()); }

nanoseconds time_of_wait(EventLoop& loop, nanoseconds delay) {
  const auto start = steady_clock::now();
  loop.wait(start + delay);
  return steady_clock::now() - start;
}

TEST(EventLoop, WaitsForAFractionOfAMillisecondAndNeverLess) {
  auto loop = make_loop();
  std::vector<nanoseconds> waits;
  for (int i = 0; i < 50; ++i) {
    waits.push_back(time_of_wait(*loop, microseconds(200)));
  }
  EXPECT_GE(*std::min_element(waits.begin(), waits.end()), microseconds(200));
  // The shortest of fifty: a busy machine stretches some, only a millisecond clock all of them.
  EXPECT_LT(*std::min_element(waits.begin(), waits.end()), microseconds(900));
}

TEST(EventLoop, OnlyLooksWhenTheDeadlineHasPassed) {
  auto loop = make_loop();
  SocketPair pair;
  auto watch = loop->watch(pair.fds[0], true, false);
  loop->wait(steady_clock::now() - std::chrono::hours(1));
  EXPECT_FALSE(watch->readable());
  pair.write_from(1);
  loop->wait(steady_clock::now() - std::chrono::hours(1));
  EXPECT_TRUE(watch->readable());
}

TEST(EventLoop, TakesAVeryFarDeadline) {
  auto loop = make_loop();
  SocketPair pair;
  auto watch = loop->watch(pair.fds[0], true, false);
  pair.write_from(1);
  loop->wait(MonoTime::max());
  EXPECT_TRUE(watch->readable());
}

/// Make epoll_pwait2 fail with `error` in this process from now on.
bool refuse_epoll_pwait2(int error) {
  std::array<sock_filter, 4> code{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(SYS_epoll_pwait2), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0 &&
         prctl(PR_SET_SECCOMP, static_cast<unsigned long>(SECCOMP_MODE_FILTER), &program) == 0;
}

/// Exit code 0 when timeouts are rounded up to milliseconds and events still arrive.
[[noreturn]] void wait_without_epoll_pwait2(int error) {
  auto loop = make_loop();
  SocketPair pair;
  auto watch = loop->watch(pair.fds[0], true, false);
  if (!refuse_epoll_pwait2(error)) {
    std::_Exit(1);
  }
  if (time_of_wait(*loop, microseconds(200)) < milliseconds(1)) {
    std::_Exit(2);
  }
  pair.write_from(1);
  loop->wait(std::nullopt);
  std::_Exit(watch->readable() ? 0 : 3);
}

TEST(EventLoop, RoundsUpToMillisecondsWhereTheKernelHasNoEpollPwait2) {
  EXPECT_EXIT(wait_without_epoll_pwait2(ENOSYS), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(wait_without_epoll_pwait2(EPERM), testing::ExitedWithCode(0), "");
}

TEST(EventLoop, CountsStopSignalsOnce) {
  auto loop = make_loop();
  ASSERT_EQ(kill(getpid(), SIGTERM), 0);
  loop->wait(std::nullopt);
  EXPECT_EQ(loop->take_signals().stop, 1U);
  EXPECT_EQ(loop->take_signals().stop, 0U);
  ASSERT_EQ(kill(getpid(), SIGINT), 0);
  loop->wait(std::nullopt);
  EXPECT_EQ(loop->take_signals().stop, 1U);
}

TEST(EventLoop, KeepsASecondStopApartFromAReload) {
  auto loop = make_loop();
  ASSERT_EQ(kill(getpid(), SIGTERM), 0);
  ASSERT_EQ(kill(getpid(), SIGINT), 0);
  ASSERT_EQ(kill(getpid(), SIGHUP), 0);
  loop->wait(std::nullopt);
  const EventLoop::Signals signals = loop->take_signals();
  EXPECT_EQ(signals.stop, 2U);
  EXPECT_EQ(signals.reload, 1U);
}

TEST(EventLoop, TakesSignalsWithoutAWait) {
  auto loop = make_loop();
  ASSERT_EQ(kill(getpid(), SIGHUP), 0);
  EXPECT_EQ(loop->take_signals().reload, 1U);
  look(*loop);
  EXPECT_EQ(loop->take_signals().reload, 0U);
}

TEST(EventLoop, SurvivesAWriteToAClosedPipe) {
  auto loop = make_loop();
  SocketPair pair;
  pair.close_end(0);
  EXPECT_EQ(write(pair.fds[1], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST(FdWatch, StaysReadyUntilClearedAndComesBackWhileUnread) {
  auto loop = make_loop();
  SocketPair pair;
  auto watch = loop->watch(pair.fds[0], true, false);
  pair.write_from(1);
  loop->wait(std::nullopt);
  EXPECT_TRUE(watch->readable());
  EXPECT_FALSE(watch->writable());
  watch->clear();
  EXPECT_FALSE(watch->readable());
  loop->wait(std::nullopt);
  EXPECT_TRUE(watch->readable());
}

TEST(FdWatch, WakesForWritingOnlyWhenAsked) {
  auto loop = make_loop();
  SocketPair pair;
  auto watch = loop->watch(pair.fds[0], true, false);
  look(*loop);
  EXPECT_FALSE(watch->writable());
  watch->set_interest(true, true);
  loop->wait(std::nullopt);
  EXPECT_TRUE(watch->writable());
  EXPECT_FALSE(watch->readable());
}

TEST(FdWatch, SleepsThroughDataWhilePaused) {
  auto loop = make_loop();
  SocketPair pair;
  auto watch = loop->watch(pair.fds[0], true, false);
  watch->set_interest(false, false);
  pair.write_from(1);
  look(*loop);
  EXPECT_FALSE(watch->readable());
  watch->set_interest(true, false);
  loop->wait(std::nullopt);
  EXPECT_TRUE(watch->readable());
}

TEST(FdWatch, HearsAHangUpOnceWhilePaused) {
  auto loop = make_loop();
  SocketPair pair;
  auto watch = loop->watch(pair.fds[0], false, false);
  pair.close_end(1);
  loop->wait(std::nullopt);
  EXPECT_TRUE(watch->readable());
  EXPECT_TRUE(watch->writable());
  watch->clear();
  look(*loop);
  EXPECT_FALSE(watch->readable());
  watch->set_interest(true, false);
  loop->wait(std::nullopt);
  EXPECT_TRUE(watch->readable());
}

TEST(FdWatch, MayGoWhileItsDescriptorIsReady) {
  auto loop = make_loop();
  SocketPair pair;
  auto watch = loop->watch(pair.fds[0], true, false);
  pair.write_from(1);
  loop->wait(std::nullopt);
  watch.reset();
  look(*loop);
}

TEST(FdWatch, IsNotTouchedAfterItsEndThoughADuplicateKeepsTheRegistration) {
  auto loop = make_loop();
  SocketPair pair;
  auto watch = loop->watch(pair.fds[0], true, false);
  const int duplicate = dup(pair.fds[0]);
  pair.close_end(0);
  watch.reset();
  pair.write_from(1);
  look(*loop);
  close(duplicate);
}

TEST(FdWatch, DoesNotDisturbTheNextOwnerOfItsNumber) {
  auto loop = make_loop();
  SocketPair first;
  const int number = first.fds[0];
  auto old_watch = loop->watch(number, true, false);
  first.close_end(0);
  SocketPair second;
  ASSERT_EQ(second.fds[0], number);
  auto new_watch = loop->watch(number, true, false);
  old_watch->set_interest(false, true);
  old_watch.reset();
  second.write_from(1);
  loop->wait(std::nullopt);
  EXPECT_TRUE(new_watch->readable());
  EXPECT_FALSE(new_watch->writable());
}

TEST(FdWatch, AsksTheKernelOnlyWhenTheInterestChanges) {
  auto loop = make_loop();
  SocketPair pair;
  auto watch = loop->watch(pair.fds[0], true, false);
  pair.close_end(0);
  watch->set_interest(true, false);
  EXPECT_FALSE(watch->readable());
  // A change finds the descriptor closed and lets the owner know.
  watch->set_interest(true, true);
  EXPECT_TRUE(watch->readable());
}

TEST(EventLoop, ReportsMoreReadyDescriptorsThanOneBatchHolds) {
  auto loop = make_loop();
  constexpr std::size_t kPairs = 150;
  std::vector<std::unique_ptr<SocketPair>> pairs;
  std::vector<std::unique_ptr<FdWatch>> watches;
  for (std::size_t i = 0; i < kPairs; ++i) {
    pairs.push_back(std::make_unique<SocketPair>());
    watches.push_back(loop->watch(pairs.back()->fds[0], true, false));
    pairs.back()->write_from(1);
  }
  for (int turn = 0; turn < 4; ++turn) {
    look(*loop);
  }
  EXPECT_TRUE(std::all_of(watches.begin(), watches.end(),
                          [](const auto& watch) { return watch->readable(); }));
}

}  // namespace
}  // namespace outrider
