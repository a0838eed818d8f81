// murmur2: the hash by which Kafka's Java client, and librdkafka's murmur2 partitioners, choose the
// partition of a key.
//
// Used to say where a record is, never to send it there: the Kafka client does that itself. The
// variant and its seed are those of org.apache.kafka.common.utils.Utils. Pure; a few nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace outrider {

constexpr std::uint32_t murmur2(std::string_view key) {
  constexpr std::uint32_t kSeed = 0x9747b28c;
  constexpr std::uint32_t kMultiplier = 0x5bd1e995;
  const auto byte = [key](std::size_t at) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(key[at]));
  };
  std::uint32_t hash = kSeed ^ static_cast<std::uint32_t>(key.size());
  std::size_t at = 0;
  for (; at + 4 <= key.size(); at += 4) {
    std::uint32_t word = byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16 | byte(at + 3) << 24;
    word *= kMultiplier;
    word ^= word >> 24;
    hash = hash * kMultiplier ^ word * kMultiplier;
  }
  const std::size_t left = key.size() - at;
  for (std::size_t i = left; i-- > 0;) {
    hash ^= byte(at + i) << 8 * i;
  }
  if (left > 0) {
    hash *= kMultiplier;
  }
  hash ^= hash >> 13;
  hash *= kMultiplier;
  return hash ^ hash >> 15;
}

/// The partition among `count` (above 0) that such a hash stands for.
constexpr std::int32_t murmur2_partition(std::uint32_t hash, std::int32_t count) {
  return static_cast<std::int32_t>(hash & 0x7fffffff) % count;
}

}  // namespace outrider
