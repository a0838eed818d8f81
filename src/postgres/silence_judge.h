// SilenceJudge: when a silent link is dead.
//
// Silence alone proves nothing: an idle server has nothing to say, and one that decodes a huge
// transaction of other tables answers only when it gets to it. So first ask for a reply, then ask
// over the control connection what the walsender is doing, and only then judge. Pure: the caller
// tells the time, sends the probe and asks. While the relay does not read, the clock stands still.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "outrider/base/clock.h"
#include "postgres/stream_watch.h"

namespace outrider {

class SilenceJudge {
 public:
  enum class Verdict : std::uint8_t { fine, probe, ask, dead };

  explicit SilenceJudge(std::chrono::milliseconds patience) : patience_(patience) {}

  /// The stream begins, or reading goes on after a pause.
  void restart(MonoTime now) {
    quiet_since_ = now;
    probed_at_.reset();
    asking_ = false;
  }

  /// The probe went unanswered until here; what the walsender does from then on decides.
  MonoTime overdue_since() const { return probed_at_.value_or(quiet_since_) + patience_; }

  /// `activity`: as asked after overdue_since(). `ask` means: ask now, the answer decides.
  Verdict judge(MonoTime now, MonoTime last_heard, WalsenderActivity activity) {
    if (last_heard > quiet_since_) {
      restart(last_heard);
    }
    if (!probed_at_) {
      if (now - quiet_since_ < patience_) {
        return Verdict::fine;
      }
      probed_at_ = now;
      return Verdict::probe;
    }
    if (now - *probed_at_ < patience_) {
      return Verdict::fine;
    }
    switch (activity) {
      case WalsenderActivity::working:
        probed_at_ = now;  // It has to answer the first probe; another would only queue up.
        asking_ = false;
        return Verdict::fine;
      case WalsenderActivity::unknown:
        asking_ = true;
        return now - *probed_at_ < 2 * patience_ ? Verdict::ask : Verdict::dead;
      case WalsenderActivity::waiting:
      case WalsenderActivity::gone:
        break;
    }
    return Verdict::dead;
  }

  MonoTime deadline() const { return asking_ ? overdue_since() + patience_ : overdue_since(); }

 private:
  std::chrono::milliseconds patience_;
  MonoTime quiet_since_{};
  std::optional<MonoTime> probed_at_;
  bool asking_ = false;
};

}  // namespace outrider
