// ReadPacer: when the walsender's socket is worth a read.
//
// The walsender writes each message with its own send; a reader that is always waiting makes every
// one of them cross the whole stack and wake a process. So while a backlog flows, reads are spaced
// by a pause and each takes much; a read that brings little ends that at once, and then a message
// is read as soon as it is there (docs/adr, measured figures). Pure: time comes from the caller.
// Limits: no read is put off by more than the pause; a pause of zero never paces.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>

#include "outrider/base/clock.h"

namespace outrider {

class ReadPacer {
 public:
  /// So much within `kWindow` is a backlog.
  static constexpr std::size_t kBacklogBytes = 8 * 1024;
  static constexpr std::chrono::microseconds kWindow{1'000};
  /// Less than this after a pause: the backlog is over.
  static constexpr std::size_t kTrickleBytes = 2 * 1024;
  static constexpr std::chrono::microseconds kPauseMax{1'000};

  explicit ReadPacer(std::chrono::microseconds pause)
      : pause_(std::clamp(pause, std::chrono::microseconds(0), kPauseMax)) {}

  /// Plain: read when the socket is ready. Paced: read when the pause is over, ready or not.
  bool may_read(MonoTime now, bool ready) const { return paced_ ? now >= next_read_ : ready; }

  /// While paced the socket's readiness must not wake anybody.
  bool wants_readiness() const { return !paced_; }

  std::optional<MonoTime> deadline() const {
    return paced_ ? std::optional<MonoTime>(next_read_) : std::nullopt;
  }

  /// A read brought `bytes`.
  void on_read(MonoTime now, std::size_t bytes) {
    if (pause_.count() == 0) {
      return;
    }
    if (now - window_start_ > kWindow) {
      window_start_ = now;
      window_bytes_ = 0;
    }
    window_bytes_ += bytes;
    if (paced_ ? bytes >= kTrickleBytes : window_bytes_ >= kBacklogBytes) {
      paced_ = true;
      next_read_ = now + pause_;
      return;
    }
    if (paced_) {
      reset();
    }
  }

  void reset() {
    paced_ = false;
    window_bytes_ = 0;
  }

 private:
  std::chrono::microseconds pause_;
  bool paced_ = false;
  MonoTime next_read_{};
  MonoTime window_start_{};
  std::size_t window_bytes_ = 0;
};

}  // namespace outrider
