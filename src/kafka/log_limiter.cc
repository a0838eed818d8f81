#include "kafka/log_limiter.h"

#include <utility>

namespace outrider {

std::optional<std::uint64_t> LogLimiter::pass(std::string_view key, MonoTime now) {
  auto place = entries_.find(key);
  if (place == entries_.end()) {
    if (entries_.size() >= kKeysMax) key = "";
    place = entries_.try_emplace(std::string(key)).first;
  }
  Entry& entry = place->second;
  if (now < entry.next) {
    ++entry.held_back;
    return std::nullopt;
  }
  entry.next = now + interval_;
  return std::exchange(entry.held_back, 0);
}

}  // namespace outrider
