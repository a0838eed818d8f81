// Any pattern, replacement and value: refused or applied, never a crash. Input: the three texts,
// divided by zero bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "route/topic_name.h"
#include "route/topic_pattern.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  auto take = [&input] {
    std::size_t end = input.find('\0');
    std::string part(input.substr(0, end));
    input.remove_prefix(end == std::string_view::npos ? input.size() : end + 1);
    return part;
  };
  std::string pattern = take();
  std::string replacement = take();
  auto made = outrider::TopicPattern::create(pattern, replacement);
  if (!made) {
    return 0;
  }
  outrider::TopicSet topics(2);
  for (std::string_view value : {input, std::string_view("User"), std::string_view()}) {
    if (auto topic = made->apply(value)) {
      (void)topics.add(*topic).has_value();
    }
  }
  return 0;
}
