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

#include "outrider/base/clock.h"
#include "outrider/base/result.h"

namespace outrider {

class EventLoop;

/// One registered descriptor. Level-triggered. Owns the registration, not the descriptor: destroy
/// the watch before the descriptor is closed. Outlived by the loop.
class FdWatch {
 public:
  ~FdWatch();
  FdWatch(const FdWatch&) = delete;
  FdWatch& operator=(const FdWatch&) = delete;

  /// What wait() wakes for; errors and hang-ups wake always while registered.
  void set_interest(bool readable, bool writable);

  /// Ready since the last clear(). Errors and hang-ups count as readable and writable.
  bool readable() const { return readable_; }
  bool writable() const { return writable_; }
  void clear() { readable_ = writable_ = false; }

 private:
  friend class EventLoop;
  FdWatch(EventLoop& loop, int fd) : loop_(loop), fd_(fd) {}

  EventLoop& loop_;
  int fd_;
  bool want_read_ = false;
  bool want_write_ = false;
  bool registered_ = false;
  bool readable_ = false;
  bool writable_ = false;
};

class EventLoop {
 public:
  /// Block SIGTERM, SIGINT and SIGHUP in this thread (call before any other thread starts) and
  /// deliver them through the loop; ignore SIGPIPE.
  static Result<std::unique_ptr<EventLoop>> create();
  ~EventLoop();

  std::unique_ptr<FdWatch> watch(int fd, bool readable, bool writable);

  /// Wait until something is ready or `deadline` is reached; no deadline waits for ever, one in
  /// the past only looks. Resolution: nanoseconds.
  void wait(std::optional<MonoTime> deadline);

  /// Signals since the last call.
  struct Signals {
    std::uint32_t stop = 0;    ///< SIGTERM and SIGINT
    std::uint32_t reload = 0;  ///< SIGHUP
  };
  Signals take_signals();

 private:
  friend class FdWatch;
  EventLoop(int epoll_fd, int signal_fd) : epoll_fd_(epoll_fd), signal_fd_(signal_fd) {}
  void drain_signals();

  int epoll_fd_;
  int signal_fd_;
  Signals signals_;
};

}  // namespace outrider
