#include "decode/timestamp_text.h"

#include <cstddef>
#include <cstdint>
#include <limits>

namespace outrider {
namespace {

constexpr std::int64_t kMicrosecondsPerSecond = 1'000'000;
constexpr std::int64_t kSecondsPerDay = 86'400;
// Server limit: 294276-12-31.
constexpr std::size_t kYearDigitsMax = 6;

/// Walks over the text; after the first mismatch every step fails.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool literal(std::string_view expected) {
    if (!text_.starts_with(expected)) {
      return false;
    }
    text_.remove_prefix(expected.size());
    return true;
  }

  /// Between `least` and `most` digits, as many as there are; `digits` tells how many.
  bool number(std::size_t least, std::size_t most, std::int64_t& value, std::size_t& digits) {
    value = 0;
    digits = 0;
    while (digits < most && digits < text_.size() && text_[digits] >= '0' && text_[digits] <= '9') {
      value = value * 10 + (text_[digits] - '0');
      ++digits;
    }
    text_.remove_prefix(digits);
    return digits >= least;
  }

  bool two_digits(std::int64_t most, std::int64_t& value) {
    std::size_t digits = 0;
    return number(2, 2, value, digits) && value <= most;
  }

  bool at_end() const { return text_.empty(); }

 private:
  std::string_view text_;
};

bool is_leap(std::int64_t year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

std::int64_t days_of_month(std::int64_t year, std::int64_t month) {
  constexpr std::int64_t kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return kDays[month - 1] + (month == 2 && is_leap(year) ? 1 : 0);
}

std::int64_t floor_divide(std::int64_t value, std::int64_t by) {
  return value / by - (value % by < 0 ? 1 : 0);
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar; year 0 is 1 BC.
std::int64_t days_since_epoch(std::int64_t year, std::int64_t month, std::int64_t day) {
  constexpr std::int64_t kBeforeMonth[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  constexpr std::int64_t kDaysBefore1970 = 719'162;  // From 0001-01-01.
  std::int64_t past = year - 1;
  std::int64_t leap_days =
      floor_divide(past, 4) - floor_divide(past, 100) + floor_divide(past, 400);
  std::int64_t day_of_year =
      kBeforeMonth[month - 1] + (month > 2 && is_leap(year) ? 1 : 0) + day - 1;
  return past * 365 + leap_days + day_of_year - kDaysBefore1970;
}

bool scan_fraction(Scanner& scanner, std::int64_t& microseconds) {
  microseconds = 0;
  if (!scanner.literal(".")) {
    return true;
  }
  std::size_t digits = 0;
  if (!scanner.number(1, 6, microseconds, digits)) {
    return false;
  }
  for (; digits < 6; ++digits) {
    microseconds *= 10;
  }
  return true;
}

/// Seconds east of UTC.
bool scan_zone(Scanner& scanner, std::int64_t& offset) {
  bool west = scanner.literal("-");
  if (!west && !scanner.literal("+")) {
    return false;
  }
  std::int64_t hours = 0;
  std::int64_t minutes = 0;
  std::int64_t seconds = 0;
  if (!scanner.two_digits(15, hours)) {
    return false;
  }
  if (scanner.literal(":") && !scanner.two_digits(59, minutes)) {
    return false;
  }
  if (scanner.literal(":") && !scanner.two_digits(59, seconds)) {
    return false;
  }
  offset = hours * 3600 + minutes * 60 + seconds;
  offset = west ? -offset : offset;
  return true;
}

}  // namespace

std::optional<WallTime> parse_timestamptz(std::string_view text) {
  Scanner scanner(text);
  std::int64_t year = 0;
  std::int64_t month = 0;
  std::int64_t day = 0;
  std::int64_t hour = 0;
  std::int64_t minute = 0;
  std::int64_t second = 0;
  std::int64_t fraction = 0;
  std::int64_t zone = 0;
  std::size_t digits = 0;
  bool matches =
      scanner.number(4, kYearDigitsMax, year, digits) && scanner.literal("-") &&
      scanner.two_digits(12, month) && scanner.literal("-") && scanner.two_digits(31, day) &&
      scanner.literal(" ") && scanner.two_digits(23, hour) && scanner.literal(":") &&
      scanner.two_digits(59, minute) && scanner.literal(":") && scanner.two_digits(59, second) &&
      scan_fraction(scanner, fraction) && scan_zone(scanner, zone);
  if (!matches || year == 0) {
    return std::nullopt;
  }
  if (scanner.literal(" BC")) {
    year = 1 - year;
  }
  if (!scanner.at_end() || month == 0 || day == 0 || day > days_of_month(year, month)) {
    return std::nullopt;
  }
  std::int64_t seconds = days_since_epoch(year, month, day) * kSecondsPerDay + hour * 3600 +
                         minute * 60 + second - zone;
  constexpr std::int64_t kSecondsMax =
      std::numeric_limits<std::int64_t>::max() / kMicrosecondsPerSecond - 1;
  if (seconds > kSecondsMax || seconds < -kSecondsMax) {
    return std::nullopt;
  }
  return WallTime(std::chrono::microseconds(seconds * kMicrosecondsPerSecond + fraction));
}

}  // namespace outrider
