// TopicPattern: from the value of the route column to a topic name, with the meaning that Kafka
// Connect's RegexRouter has in Debezium's outbox router.
//
// If the pattern matches the WHOLE value, the topic is the value with the FIRST find replaced
// (which may be shorter than the whole match), else the value unchanged. Owns the compiled pattern
// and the memory of the last topic. Thread: loop. Errors: create() `configuration`, apply()
// `poison` (not UTF-8, or more steps than kMatchStepsMax).
// How Java's syntax becomes PCRE2's, and what differs still: java_pattern.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "outrider/base/result.h"

namespace outrider {

class TopicPattern {
 public:
  /// A value needs two matches at most, so a hostile pattern holds the loop for a few milliseconds.
  static constexpr std::uint32_t kMatchStepsMax = 100'000;
  static constexpr std::uint32_t kMatchDepthMax = 10'000;
  static constexpr std::uint32_t kMatchHeapKibMax = 4'096;

  static Result<TopicPattern> create(const std::string& pattern, const std::string& replacement);

  TopicPattern(TopicPattern&&) noexcept;
  TopicPattern& operator=(TopicPattern&&) noexcept;
  ~TopicPattern();

  /// The view is of `value` or of own memory, valid until the next call.
  Result<std::string_view> apply(std::string_view value);

  /// The literal text of the replacement: part of every topic that the pattern makes.
  const std::string& literal_text() const;

 private:
  struct Compiled;
  explicit TopicPattern(std::unique_ptr<Compiled> compiled);

  std::unique_ptr<Compiled> compiled_;
};

}  // namespace outrider
