// Topic names: what Kafka allows, and the set of topics one pipeline has sent to.
//
// TopicSet owns each name once and hands out views of it that stay the same for its life, so that
// a sink may keep topic handles by the view's address. Thread: loop. Errors: `poison`, with the
// reason. Limits: `topics_max` names; a name that differs from an earlier one only by '.' and '_'
// is refused too, because a broker refuses to create it and its rows would wait for ever.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "outrider/base/result.h"

namespace outrider {

inline constexpr std::size_t kTopicBytesMax = 249;

/// Why Kafka has no such topic (org.apache.kafka.common.internals.Topic); empty if it may have.
std::string topic_name_fault(std::string_view topic);

/// Printable ASCII as it is, everything else as \xNN; cut, so that a value cannot flood a log.
std::string shown(std::string_view text);

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

class TopicSet {
 public:
  explicit TopicSet(std::size_t topics_max) : topics_max_(topics_max) {}

  /// The one view of this name; errors if the name is new and may not be added.
  Result<std::string_view> add(std::string_view topic);

 private:
  std::size_t topics_max_;
  std::unordered_set<std::string, TextHash, std::equal_to<>> topics_;
  /// By the name with '_' for each '.', which is how a broker compares.
  std::unordered_map<std::string, std::string_view> by_folded_;
};

}  // namespace outrider
