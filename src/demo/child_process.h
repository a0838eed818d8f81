// ChildProcess: a process that ends with us, whatever happens to us.
//
// Owns the process: destruction kills its whole group. Each child leads a process group, so that
// Ctrl-C at the terminal reaches only the demo, and carries a parent-death signal for the case that
// the demo is killed. Start them on the main thread: the kernel watches the thread that forked.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "outrider/base/result.h"

namespace outrider::demo {

struct UserId {
  uid_t uid = 0;
  gid_t gid = 0;
};

struct ChildCommand {
  std::vector<std::string> arguments;    ///< The first is the path of the program.
  std::vector<std::string> environment;  ///< NAME=value, all of them.
  std::string directory;                 ///< To run in.
  std::string output;                    ///< File for both outputs, appended to.
  std::optional<UserId> user;            ///< Become this user first; only for root.
  int death_signal = SIGKILL;            ///< Sent by the kernel when the demo dies.
};

class ChildProcess {
 public:
  static Result<ChildProcess> start(const ChildCommand& command);

  /// Run `body` in a fork of this process, which ends with its result and without destructors.
  /// Descriptors except `keep_fd` and the standard ones are closed.
  static Result<ChildProcess> fork_body(int keep_fd, const std::function<int()>& body);

  ChildProcess() = default;
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;

  pid_t pid() const { return pid_; }
  bool running();

  /// Exit code, or 128 + signal; nothing while it runs.
  std::optional<int> exit_code();

  /// True if it ended in time. Does not look at the interrupt flag: cleaning up uses it, too.
  bool wait(std::chrono::milliseconds limit);

  /// Ask with a signal, wait, then SIGKILL for the group. Nothing of it runs afterwards.
  void end(int number, std::chrono::milliseconds patience);

  void kill() { end(SIGKILL, std::chrono::seconds(5)); }

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  void reap(int options);

  pid_t pid_ = -1;
  std::optional<int> exit_code_;
};

/// The environment of this process without OUTRIDER_…, which would change a relay's configuration.
std::vector<std::string> child_environment();

}  // namespace outrider::demo
