#include "outrider/base/lsn.h"

#include <charconv>
#include <cstdio>

namespace outrider {
namespace {

std::optional<std::uint32_t> parse_half(std::string_view text) {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  auto [stopped_at, error] = std::from_chars(text.data(), end, value, 16);
  if (text.empty() || text.size() > 8 || error != std::errc{} || stopped_at != end) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::optional<Lsn> Lsn::parse(std::string_view text) {
  std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return std::nullopt;
  }
  auto high = parse_half(text.substr(0, slash));
  auto low = parse_half(text.substr(slash + 1));
  if (!high || !low) {
    return std::nullopt;
  }
  return Lsn((static_cast<std::uint64_t>(*high) << 32) | *low);
}

std::string Lsn::to_string() const {
  char text[20];
  std::snprintf(text, sizeof text, "%X/%X", static_cast<unsigned>(value_ >> 32),
                static_cast<unsigned>(value_ & 0xFFFFFFFFU));
  return text;
}

}  // namespace outrider
