// TopicRouter: from the route column's value to a topic that Kafka can have.
//
// Either one fixed topic, or the pattern's outcome; each name goes through the TopicSet. Owns a
// bounded memory of values already routed, so that a stream of few event types runs no pattern.
// Thread: loop. Errors: create() `configuration`, route() `poison`. Topics stay valid and keep
// their address for the router's life.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "route/topic_name.h"
#include "route/topic_pattern.h"

namespace outrider {

class TopicRouter {
 public:
  static constexpr std::size_t kRememberedValuesMax = 10'000;
  static constexpr std::size_t kRememberedBytesMax = 256;

  static Result<TopicRouter> create(const RouteConfig& route);

  /// The one topic of every row, if the configuration says so.
  std::optional<std::string_view> fixed_topic() const { return fixed_topic_; }

  Result<std::string_view> route(std::string_view value);

 private:
  explicit TopicRouter(std::size_t topics_max) : topics_(topics_max) {}

  std::optional<TopicPattern> pattern_;  ///< Absent with one fixed topic.
  TopicSet topics_;
  std::optional<std::string_view> fixed_topic_;
  std::unordered_map<std::string, std::string_view, TextHash, std::equal_to<>> remembered_;
};

}  // namespace outrider
