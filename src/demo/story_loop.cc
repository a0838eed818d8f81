#include <algorithm>

#include "demo/interrupt.h"
#include "demo/story.h"

namespace outrider::demo {

using namespace std::chrono_literals;

double milliseconds_since(MonoTime began) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
      .count();
}

void Story::read_what_is_there(std::chrono::milliseconds wait) {
  while (auto record = stage_.consumer().next(wait)) {
    ledger_.arrived(*record);
    wait = 0ms;
  }
}

Result<> Story::load(std::size_t count, double per_second,
                     const std::function<Result<bool>(std::size_t)>& placed) {
  const MonoTime began = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    const auto due = began + std::chrono::microseconds(static_cast<std::int64_t>(
                                 static_cast<double>(i) * 1e6 / per_second));
    while (std::chrono::steady_clock::now() < due) read_what_is_there(1ms);
    if (interrupted()) return fail(interrupted_error());
    OUTRIDER_TRY(shop_.place());
    read_what_is_there(0ms);
    OUTRIDER_TRY(bool go_on, placed(i + 1));
    if (!go_on) break;
  }
  return {};
}

Result<bool> Story::read_until(const std::function<bool()>& done, std::chrono::milliseconds limit) {
  const MonoTime end = std::chrono::steady_clock::now() + limit;
  while (!done()) {
    OUTRIDER_TRY(stage_.check_running());
    if (std::chrono::steady_clock::now() > end) return false;
    read_what_is_there(5ms);
  }
  return true;
}

Result<bool> Story::catch_up(std::chrono::milliseconds limit) {
  return read_until([this] { return ledger_.missing_count() == 0; }, limit);
}

}  // namespace outrider::demo
