#include "route/topic_router.h"

#include <utility>

#include "outrider/base/check.h"

namespace outrider {
namespace {

Result<> check_fixed_topic(const std::string& topic) {
  if (std::string fault = topic_name_fault(topic); !fault.empty()) {
    return fail(ErrorKind::configuration,
                "route.topic \"" + shown(topic) + "\" is no topic name: " + fault,
                "set route.topic to a name that Kafka allows");
  }
  return {};
}

/// Text that is in every topic must be allowed in a topic: better said now than at each row.
Result<> check_literal_text(const std::string& literal) {
  // A name of dots alone becomes one by what the row adds.
  bool is_dots = literal.find_first_not_of('.') == std::string::npos;
  if (std::string fault = topic_name_fault(literal); !is_dots && !fault.empty()) {
    return fail(ErrorKind::configuration,
                "route.replacement cannot give a topic name, its fixed text is \"" +
                    shown(literal) + "\": " + fault,
                "use only characters that Kafka allows in a topic name outside of ${name} and $1");
  }
  return {};
}

}  // namespace

Result<TopicRouter> TopicRouter::create(const RouteConfig& route) {
  if (route.topics_max < 1) {
    return fail(ErrorKind::configuration,
                "route.topics_max is " + std::to_string(route.topics_max) + ", less than 1",
                "set route.topics_max to the number of topics that the outbox may use");
  }
  if (route.topic.empty() && route.by.empty()) {
    return fail(ErrorKind::configuration, "neither route.topic nor route.by is set",
                "set route.by to event_type, aggregate_type or a column's name");
  }
  TopicRouter router(static_cast<std::size_t>(route.topics_max));
  if (!route.topic.empty()) {
    OUTRIDER_TRY(check_fixed_topic(route.topic));
    OUTRIDER_TRY(router.fixed_topic_, router.topics_.add(route.topic));
    return router;
  }
  OUTRIDER_TRY(router.pattern_, TopicPattern::create(route.pattern, route.replacement));
  OUTRIDER_TRY(check_literal_text(router.pattern_->literal_text()));
  return router;
}

Result<std::string_view> TopicRouter::route(std::string_view value) {
  if (auto found = remembered_.find(value); found != remembered_.end()) {
    return found->second;
  }
  OUTRIDER_CHECK(pattern_.has_value(), "with one fixed topic no value is routed");
  OUTRIDER_TRY(std::string_view name, pattern_->apply(value));
  OUTRIDER_TRY(std::string_view topic, topics_.add(name));
  if (value.size() <= kRememberedBytesMax && remembered_.size() < kRememberedValuesMax) {
    remembered_.emplace(value, topic);
  }
  return topic;
}

}  // namespace outrider
