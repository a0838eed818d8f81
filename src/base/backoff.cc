#include "outrider/base/backoff.h"

#include <algorithm>

namespace outrider {

Backoff::Backoff(std::chrono::milliseconds first, std::chrono::milliseconds cap, std::uint64_t seed)
    : first_(first), cap_(cap), ceiling_(first), random_(seed) {}

std::chrono::milliseconds Backoff::next() {
  auto ceiling = ceiling_.count();
  std::uniform_int_distribution<std::int64_t> even(ceiling / 2, ceiling);
  ceiling_ = std::min(cap_, ceiling_ * 2);
  ++failures_;
  return std::chrono::milliseconds(even(random_));
}

void Backoff::reset() {
  ceiling_ = first_;
  failures_ = 0;
}

}  // namespace outrider
