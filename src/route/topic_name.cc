#include "route/topic_name.h"

#include <algorithm>

namespace outrider {
namespace {

constexpr std::size_t kShownBytesMax = 80;
constexpr std::string_view kHexDigits = "0123456789ABCDEF";

constexpr bool is_topic_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

/// "U+00E9" for the character at the start of `text`, "byte 0xFF" where there is none.
std::string character_code(std::string_view text) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  std::size_t size = byte(0) < 0x80   ? 1
                     : byte(0) < 0xC2 ? 0
                     : byte(0) < 0xE0 ? 2
                     : byte(0) < 0xF0 ? 3
                     : byte(0) < 0xF5 ? 4
                                      : 0;
  std::uint32_t code = size < 2 ? byte(0) : byte(0) & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if (i >= text.size() || (byte(i) & 0xC0) != 0x80) {
      size = 0;
      break;
    }
    code = code << 6 | (byte(i) & 0x3FU);
  }
  if (size == 0) {
    return std::string("byte 0x") + kHexDigits[byte(0) >> 4] + kHexDigits[byte(0) & 0xF];
  }
  std::string digits;
  for (; code != 0 || digits.size() < 4; code >>= 4) {
    digits.insert(digits.begin(), kHexDigits[code & 0xF]);
  }
  return "U+" + digits;
}

std::string folded(std::string_view topic) {
  std::string text(topic);
  std::replace(text.begin(), text.end(), '.', '_');
  return text;
}

}  // namespace

std::string topic_name_fault(std::string_view topic) {
  if (topic.empty()) {
    return "it is empty";
  }
  if (topic == "." || topic == "..") {
    return "\".\" and \"..\" are no names";
  }
  auto bad = std::find_if_not(topic.begin(), topic.end(), is_topic_character);
  if (bad != topic.end()) {
    auto at = static_cast<std::size_t>(bad - topic.begin());
    return "character " + character_code(topic.substr(at)) + " at byte " + std::to_string(at) +
           " is none of a-z, A-Z, 0-9, '.', '_' and '-'";
  }
  if (topic.size() > kTopicBytesMax) {
    return "it has " + std::to_string(topic.size()) + " bytes, more than " +
           std::to_string(kTopicBytesMax);
  }
  return {};
}

std::string shown(std::string_view text) {
  std::string out;
  for (char c : text.substr(0, kShownBytesMax)) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7E || c == '"' || c == '\\') {
      out += "\\x";
      out += kHexDigits[byte >> 4];
      out += kHexDigits[byte & 0xF];
    } else {
      out += c;
    }
  }
  return text.size() > kShownBytesMax ? out + "..." : out;
}

Result<std::string_view> TopicSet::add(std::string_view topic) {
  if (auto found = topics_.find(topic); found != topics_.end()) {
    return std::string_view(*found);
  }
  if (std::string fault = topic_name_fault(topic); !fault.empty()) {
    return fail(ErrorKind::poison, "\"" + shown(topic) + "\" is no topic name: " + fault,
                "correct the row's route column, or make route.pattern and route.replacement give "
                "a name that Kafka allows");
  }
  std::string fold = folded(topic);
  if (auto other = by_folded_.find(fold); other != by_folded_.end()) {
    return fail(ErrorKind::poison,
                "topic \"" + shown(topic) + "\" differs from topic \"" + shown(other->second) +
                    "\" only by '.' and '_', which no broker allows",
                "use '.' or '_' alike in the values of the route column");
  }
  if (topics_.size() >= topics_max_) {
    return fail(ErrorKind::poison,
                "topic \"" + shown(topic) + "\" would be one more than route.topics_max allows (" +
                    std::to_string(topics_max_) + ")",
                "raise route.topics_max if so many topics are meant, else correct the route "
                "column's values");
  }
  std::string_view added = *topics_.emplace(topic).first;
  by_folded_.emplace(std::move(fold), added);
  return added;
}

}  // namespace outrider
