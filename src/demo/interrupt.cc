#include "demo/interrupt.h"

#include <signal.h>
#include <time.h>

namespace outrider::demo {
namespace {

volatile sig_atomic_t g_interrupted = 0;

extern "C" void note_interrupt(int) { g_interrupted = 1; }

}  // namespace

void install_interrupt_handlers() {
  struct sigaction action = {};
  action.sa_handler = note_interrupt;  // Without SA_RESTART: a sleep ends at once.
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return g_interrupted != 0; }

void interrupt() { g_interrupted = 1; }

Error interrupted_error() { return Error{ErrorKind::transient, "interrupted", "", ""}; }

Result<> sleep_for(std::chrono::microseconds time) {
  if (time.count() > 0) {
    timespec pause = {};
    pause.tv_sec = static_cast<time_t>(time.count() / 1'000'000);
    pause.tv_nsec = static_cast<long>(time.count() % 1'000'000 * 1'000);
    nanosleep(&pause, nullptr);
  }
  if (interrupted()) return fail(interrupted_error());
  return {};
}

}  // namespace outrider::demo
