// Chance: the two draws every part of the simulated world makes from its one generator.
#pragma once

#include <cstdint>
#include <random>

namespace outrider::sim {

/// Evenly from `from` to `to`, both included; the same on every platform.
inline std::uint64_t draw(std::mt19937_64& random, std::uint64_t from, std::uint64_t to) {
  return from + random() % (to - from + 1);
}

inline bool happens(std::mt19937_64& random, double probability) {
  return static_cast<double>(random() % 1'000'000) < probability * 1'000'000;
}

}  // namespace outrider::sim
