#include "demo/child_process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>

namespace outrider::demo {
namespace {

constexpr int kCannotRun = 127;

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Between fork and exec only async-signal-safe calls: the parent has librdkafka's threads.

void reset_signals() {
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void die_with(pid_t parent, int death_signal) {
  prctl(PR_SET_PDEATHSIG, death_signal);
  if (getppid() != parent) _exit(kCannotRun);  // It died before the line above.
}

void redirect(const char* output) {
  const int in = open("/dev/null", O_RDONLY);
  const int out = open(output, O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (in < 0 || out < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) {
    _exit(kCannotRun);
  }
}

void become(const UserId& user) {
  if (setgroups(0, nullptr) != 0 || setgid(user.gid) != 0 || setuid(user.uid) != 0) {
    _exit(kCannotRun);
  }
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const ChildCommand& command) {
  const std::vector<char*> arguments = pointers_to(command.arguments);
  const std::vector<char*> environment = pointers_to(command.environment);
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    redirect(command.output.c_str());
    if (chdir(command.directory.c_str()) != 0) _exit(kCannotRun);
    if (command.user) become(*command.user);
    die_with(parent, command.death_signal);  // After the change of user, which clears it.
    reset_signals();
    close_range(3, ~0U, 0);
    execve(arguments[0], arguments.data(), environment.data());
    _exit(kCannotRun);
  }
  if (pid < 0) {
    return fail(ErrorKind::fatal, std::string("cannot fork: ") + std::strerror(errno));
  }
  setpgid(pid, pid);  // Here as well: a signal to the group may come before the child's own call.
  return ChildProcess(pid);
}

Result<ChildProcess> ChildProcess::fork_body(int keep_fd, const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    setpgid(0, 0);
    reset_signals();
    die_with(parent, SIGKILL);
    const auto keep = static_cast<unsigned>(keep_fd);
    if (keep > 3) close_range(3, keep - 1, 0);
    close_range(keep + 1, ~0U, 0);
    _exit(body());
  }
  if (pid < 0) {
    return fail(ErrorKind::fatal, std::string("cannot fork: ") + std::strerror(errno));
  }
  setpgid(pid, pid);
  return ChildProcess(pid);
}

ChildProcess::~ChildProcess() {
  if (running()) kill();
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), exit_code_(other.exit_code_) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(exit_code_, other.exit_code_);
  return *this;
}

void ChildProcess::reap(int options) {
  if (pid_ <= 0 || exit_code_) return;
  int status = 0;
  pid_t done = 0;
  do {
    done = waitpid(pid_, &status, options);
  } while (done < 0 && errno == EINTR);
  if (done == pid_) {
    exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  } else if (done < 0) {
    exit_code_ = kCannotRun;
  }
}

bool ChildProcess::running() {
  reap(WNOHANG);
  return pid_ > 0 && !exit_code_;
}

std::optional<int> ChildProcess::exit_code() {
  reap(WNOHANG);
  return exit_code_;
}

bool ChildProcess::wait(std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (running()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    usleep(2'000);
  }
  return true;
}

void ChildProcess::end(int number, std::chrono::milliseconds patience) {
  if (!running()) return;
  if (number != SIGKILL) {
    ::kill(pid_, number);
    if (wait(patience)) return;
  }
  ::kill(-pid_, SIGKILL);
  reap(0);
}

std::vector<std::string> child_environment() {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, "OUTRIDER_", 9) != 0) result.emplace_back(*entry);
  }
  return result;
}

}  // namespace outrider::demo
