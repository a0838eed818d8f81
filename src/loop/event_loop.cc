#include "outrider/loop/event_loop.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <string>

#include "outrider/base/check.h"

namespace outrider {
namespace {

/// More ready descriptors than this wait for the next turn: epoll is level-triggered.
constexpr int kEventsPerWaitMax = 64;
/// Names the signal descriptor; watches have a generation below it.
constexpr std::uint64_t kSignalToken = ~std::uint64_t{0};

/// A descriptor number alone is not a name: it comes back as soon as it is closed.
std::uint64_t token_of(int fd, std::uint32_t generation) {
  return (std::uint64_t{generation} << 32) | static_cast<std::uint32_t>(fd);
}

std::chrono::nanoseconds time_left(MonoTime deadline) {
  const MonoTime now = std::chrono::steady_clock::now();
  return deadline > now ? std::chrono::nanoseconds(deadline - now) : std::chrono::nanoseconds(0);
}

timespec to_timespec(std::chrono::nanoseconds duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  timespec result{};
  result.tv_sec = static_cast<time_t>(seconds.count());
  result.tv_nsec = static_cast<long>((duration - seconds).count());
  return result;
}

int to_milliseconds_up(std::chrono::nanoseconds duration) {
  const auto rounded = std::chrono::ceil<std::chrono::milliseconds>(duration).count();
  return static_cast<int>(std::min<std::int64_t>(rounded, INT_MAX));
}

tl::unexpected<Error> system_failure(const char* call) {
  return fail(ErrorKind::fatal,
              std::string("cannot set up the event loop: \"") + call + "\": " + strerror(errno),
              "raise the limits on open files and memory for this process and start it again");
}

}  // namespace

FdWatch::~FdWatch() {
  auto owner = loop_.watches_.find(fd_);
  if (owner == loop_.watches_.end() || owner->second != this) {
    return;  // The number belongs to another watch now.
  }
  loop_.watches_.erase(owner);
  if (registered_) {
    // May fail when the descriptor was closed before its watch: then epoll has dropped it already.
    (void)epoll_ctl(loop_.epoll_fd_, EPOLL_CTL_DEL, fd_, nullptr);
  }
}

void FdWatch::set_interest(bool readable, bool writable) {
  if (want_read_ == readable && want_write_ == writable) {
    return;
  }
  want_read_ = readable;
  want_write_ = writable;
  auto owner = loop_.watches_.find(fd_);
  if (owner == loop_.watches_.end() || owner->second != this) {
    return;
  }
  if (!control(registered_ ? EPOLL_CTL_MOD : EPOLL_CTL_ADD)) {
    // The library closed it first (libpq does so on a read error): the owner shall look and see.
    OUTRIDER_CHECK(errno == EBADF || errno == ENOENT, strerror(errno));
    registered_ = false;
    readable_ = writable_ = true;
  }
}

bool FdWatch::control(int operation) {
  epoll_event event{};
  event.events =
      (want_read_ ? std::uint32_t{EPOLLIN} : 0U) | (want_write_ ? std::uint32_t{EPOLLOUT} : 0U);
  event.data.u64 = token_of(fd_, generation_);
  if (epoll_ctl(loop_.epoll_fd_, operation, fd_, &event) != 0) {
    return false;
  }
  registered_ = true;
  return true;
}

Result<std::unique_ptr<EventLoop>> EventLoop::create() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  if (const int error = pthread_sigmask(SIG_BLOCK, &signals, nullptr); error != 0) {
    errno = error;
    return system_failure("pthread_sigmask");
  }
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  if (sigaction(SIGPIPE, &ignore, nullptr) != 0) {
    return system_failure("sigaction");
  }
  // Best effort: without it timeouts are only less exact.
  (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);

  const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_fd < 0) {
    return system_failure("epoll_create1");
  }
  const int signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
  if (signal_fd < 0) {
    auto failure = system_failure("signalfd");
    close(epoll_fd);
    return failure;
  }
  std::unique_ptr<EventLoop> loop(new EventLoop(epoll_fd, signal_fd));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kSignalToken;
  if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, signal_fd, &event) != 0) {
    return system_failure("epoll_ctl");
  }
  return loop;
}

EventLoop::~EventLoop() {
  close(signal_fd_);
  close(epoll_fd_);
}

std::unique_ptr<FdWatch> EventLoop::watch(int fd, bool readable, bool writable) {
  std::unique_ptr<FdWatch> result(new FdWatch(*this, fd, next_generation_));
  next_generation_ = (next_generation_ + 1) & 0x7fffffffU;
  result->want_read_ = readable;
  result->want_write_ = writable;
  // Adding an open descriptor twice fails (EEXIST), so a watch that is found under this number now
  // lost its descriptor behind its back.
  OUTRIDER_CHECK(result->control(EPOLL_CTL_ADD), strerror(errno));
  auto [owner, fresh] = watches_.try_emplace(fd, result.get());
  if (!fresh) {
    owner->second->registered_ = false;
    owner->second = result.get();
  }
  return result;
}

void EventLoop::wait(std::optional<MonoTime> deadline) {
  // A stopped and continued process, or a debugger, interrupts the call without any of our signals.
  while (wait_once(deadline) < 0) {
  }
}

/// How many events were dispatched; negative when the call has to be made again.
int EventLoop::wait_once(std::optional<MonoTime> deadline) {
  std::array<epoll_event, kEventsPerWaitMax> events;
  int count = 0;
  if (nanoseconds_) {
    timespec timeout{};
    if (deadline) {
      timeout = to_timespec(time_left(*deadline));
    }
    count = epoll_pwait2(epoll_fd_, events.data(), kEventsPerWaitMax, deadline ? &timeout : nullptr,
                         nullptr);
    // Older container run times answer EPERM for system calls that they do not know.
    if (count < 0 && (errno == ENOSYS || errno == EPERM)) {
      nanoseconds_ = false;
      return -1;
    }
  } else {
    const int timeout_ms = deadline ? to_milliseconds_up(time_left(*deadline)) : -1;
    count = epoll_wait(epoll_fd_, events.data(), kEventsPerWaitMax, timeout_ms);
  }
  OUTRIDER_CHECK(count >= 0 || errno == EINTR, strerror(errno));
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    dispatch(event.data.u64, event.events);
  }
  return count;
}

void EventLoop::dispatch(std::uint64_t token, std::uint32_t events) {
  if (token == kSignalToken) {
    drain_signals();
    return;
  }
  const int fd = static_cast<int>(token & 0xffffffffU);
  auto owner = watches_.find(fd);
  if (owner == watches_.end() || token_of(fd, owner->second->generation_) != token) {
    return;  // A registration that outlived its watch: the descriptor was duplicated elsewhere.
  }
  FdWatch& watch = *owner->second;
  const bool broken = (events & (EPOLLERR | EPOLLHUP)) != 0;
  watch.readable_ = watch.readable_ || broken || (events & EPOLLIN) != 0;
  watch.writable_ = watch.writable_ || broken || (events & EPOLLOUT) != 0;
  if (broken && !watch.want_read_ && !watch.want_write_) {
    // Comes back with the next interest; until then it would wake every turn for nothing.
    (void)epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
    watch.registered_ = false;
  }
}

void EventLoop::drain_signals() {
  signalfd_siginfo info{};
  while (read(signal_fd_, &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
    if (info.ssi_signo == static_cast<std::uint32_t>(SIGHUP)) {
      ++signals_.reload;
    } else {
      ++signals_.stop;
    }
  }
}

EventLoop::Signals EventLoop::take_signals() {
  drain_signals();
  Signals taken = signals_;
  signals_ = Signals{};
  return taken;
}

}  // namespace outrider
