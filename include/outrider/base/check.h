// OUTRIDER_CHECK: what must be true of our own code, also in release builds.
//
// It is for our mistakes only and ends the process (exit 134 by SIGABRT); the supervisor restarts
// the relay and at-least-once holds. Input, configuration and server state never reach a CHECK.
#pragma once

namespace outrider {

/// Print the expression, its place and `why` to stderr and abort.
[[noreturn]] void check_failed(const char* expression, const char* file, int line, const char* why);

}  // namespace outrider

/// `OUTRIDER_CHECK(condition, "why it must hold")`.
#define OUTRIDER_CHECK(condition, why)                               \
  do {                                                               \
    if (!(condition)) [[unlikely]] {                                 \
      ::outrider::check_failed(#condition, __FILE__, __LINE__, why); \
    }                                                                \
  } while (false)
