#include "app/unpublished_age.h"

#include <algorithm>

namespace outrider {
namespace {

/// A bound below so many questions' time is the time between two questions, not a delay.
constexpr int kQuestions = 3;
constexpr std::chrono::milliseconds kToleranceMin{3'000};

}  // namespace

UnpublishedAge::UnpublishedAge(MonoTime start, std::chrono::milliseconds interval)
    : tolerance_(std::max(kToleranceMin, kQuestions * interval)), caught_up_at_(start) {}

void UnpublishedAge::seen(MonoTime asked, Lsn wal_end) {
  if (!wal_end.is_valid()) {
    return;
  }
  last_ = End{asked, wal_end};
  if (!next_) {
    next_ = last_;
  }
}

void UnpublishedAge::published(Lsn position) {
  if (last_ && position >= last_->wal_end) {
    caught_up_at_ = last_->asked;
    next_.reset();
    last_.reset();
  } else if (next_ && position >= next_->wal_end) {
    caught_up_at_ = next_->asked;
    next_ = last_;
  }
}

UnpublishedAge::Age UnpublishedAge::at(Now now, std::optional<WallTime> oldest) const {
  if (oldest) {
    return {std::max(0.0, std::chrono::duration<double>(now.wall - *oldest).count()), false};
  }
  const auto since = now.mono - caught_up_at_;
  if (since <= tolerance_) {
    return {};
  }
  return {std::chrono::duration<double>(since).count(), true};
}

}  // namespace outrider
