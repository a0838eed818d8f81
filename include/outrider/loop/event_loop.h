// EventLoop: one thread waits here for descriptors and time, and nowhere else.
//
// Owns the epoll set and the signal descriptor. It calls nobody: wait() returns, and each room asks
// its own FdWatch whether it is ready. Three traps of this model:
// (a) librdkafka writes its descriptor only when a queue goes from empty to non-empty: drain until
//     null, or ask for another turn;
// (b) epoll sees the socket, not libpq's buffer: whoever stops on a budget with bytes buffered must
//     ask for a turn without waiting (ChangeSource::has_buffered);
// (c) a paused reader never sees keepalives that ask for an answer: status goes out by a timer.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"

namespace outrider {

class EventLoop;

/// One registered descriptor. Level-triggered. Owns the registration, not the descriptor: destroy
/// the watch before the descriptor is closed. Must not outlive the loop. One watch a descriptor.
/// Should a library close the descriptor first and the number come back under a new watch, the old
/// watch is dead: it never becomes ready and cannot disturb the new one.
class FdWatch {
 public:
  ~FdWatch();
  FdWatch(const FdWatch&) = delete;
  FdWatch& operator=(const FdWatch&) = delete;

  /// What wait() wakes for; errors and hang-ups wake always while registered. With no interest at
  /// all they wake once, so that a paused reader of a dead connection does not spin the loop.
  /// Costs no system call when nothing changes. If the descriptor was closed behind the watch, the
  /// watch becomes ready, so that its owner finds out.
  void set_interest(bool readable, bool writable);

  /// Ready since the last clear(). Errors and hang-ups count as readable and writable.
  bool readable() const { return readable_; }
  bool writable() const { return writable_; }
  void clear() { readable_ = writable_ = false; }

 private:
  friend class EventLoop;
  FdWatch(EventLoop& loop, int fd, std::uint32_t generation)
      : loop_(loop), fd_(fd), generation_(generation) {}
  bool control(int operation);

  EventLoop& loop_;
  int fd_;
  std::uint32_t generation_;
  bool want_read_ = false;
  bool want_write_ = false;
  bool registered_ = false;
  bool readable_ = false;
  bool writable_ = false;
};

class EventLoop {
 public:
  /// Block SIGTERM, SIGINT and SIGHUP in this thread (call before any other thread starts) and
  /// deliver them through the loop; ignore SIGPIPE. They stay blocked after the loop is gone: a
  /// child that is started with exec must unblock them first. Also sets this thread's timer slack
  /// to its minimum; without that every timeout is late by up to 50 microseconds.
  static Result<std::unique_ptr<EventLoop>> create();
  ~EventLoop();

  std::unique_ptr<FdWatch> watch(int fd, bool readable, bool writable);

  /// Wait until something is ready or `deadline` is reached; no deadline waits for ever, one in
  /// the past only looks. Resolution: nanoseconds, or milliseconds rounded up where the kernel has
  /// no epoll_pwait2 (before Linux 5.11, or hidden by a container's filter).
  void wait(std::optional<MonoTime> deadline);

  /// Signals since the last call.
  struct Signals {
    std::uint32_t stop = 0;    ///< SIGTERM and SIGINT
    std::uint32_t reload = 0;  ///< SIGHUP
  };
  Signals take_signals();

 private:
  friend class FdWatch;
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  EventLoop(int epoll_fd, int signal_fd) : epoll_fd_(epoll_fd), signal_fd_(signal_fd) {}
  int wait_once(std::optional<MonoTime> deadline);
  void dispatch(std::uint64_t token, std::uint32_t events);
  void drain_signals();

  int epoll_fd_;
  int signal_fd_;
  bool nanoseconds_ = true;
  std::uint32_t next_generation_ = 0;
  std::unordered_map<int, FdWatch*> watches_;  ///< By descriptor; the living owner of each.
  Signals signals_;
};

}  // namespace outrider
