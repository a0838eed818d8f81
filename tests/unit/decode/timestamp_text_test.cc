#include "decode/timestamp_text.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace outrider {
namespace {

std::int64_t micros(std::string_view text) {
  auto time = parse_timestamptz(text);
  EXPECT_TRUE(time.has_value()) << text;
  return time ? time->time_since_epoch().count() : -1;
}

TEST(TimestampText, ReadsZeroToSixDigitsOfFraction) {
  EXPECT_EQ(micros("1970-01-01 00:00:00+00"), 0);
  EXPECT_EQ(micros("1970-01-01 00:00:00.1+00"), 100'000);
  EXPECT_EQ(micros("1970-01-01 00:00:08.1132+00"), 8'113'200);
  EXPECT_EQ(micros("1970-01-01 00:00:00.000001+00"), 1);
  EXPECT_EQ(micros("2026-11-30 19:01:02.123456+00"), 1'796'065'262'123'456);
}

TEST(TimestampText, ReadsZonesOfHoursMinutesAndSeconds) {
  EXPECT_EQ(micros("1970-01-01 05:30:00+05:30"), 0);
  EXPECT_EQ(micros("1969-12-31 21:00:00-03"), 0);
  EXPECT_EQ(micros("1969-12-31 20:26:08-03:33:52"), 0);
  EXPECT_EQ(micros("2026-11-30 19:01:02.232843+05:30"), 1'796'045'462'232'843);
}

TEST(TimestampText, CountsTheFractionForwardBeforeTheEpoch) {
  EXPECT_EQ(micros("1969-12-31 23:59:59.25+00"), -750'000);
}

TEST(TimestampText, ReadsYearsFarFromNow) {
  EXPECT_EQ(micros("0001-01-01 00:00:00+00"), -62'135'596'800'000'000);
  EXPECT_EQ(micros("0001-12-31 23:59:59+00 BC"), -62'135'596'801'000'000);
  EXPECT_EQ(micros("4714-11-24 00:00:00+00 BC"), -210'866'803'200'000'000);
  EXPECT_EQ(micros("10000-01-01 00:00:00+00"), 253'402'300'800'000'000);
  EXPECT_FALSE(parse_timestamptz("294276-12-31 23:59:59.999999+00"));
}

TEST(TimestampText, AgreesWithTheCalendarOnEveryDay) {
  using std::chrono::days;
  for (std::chrono::sys_days day{days(-150'000)}; day < std::chrono::sys_days{days(150'000)};
       day += days(1)) {
    std::chrono::year_month_day date(day);
    if (int(date.year()) < 1 || int(date.year()) > 9999) {
      continue;
    }
    char text[64];
    std::snprintf(text, sizeof text, "%04d-%02u-%02u 00:00:00+00", int(date.year()),
                  unsigned(date.month()), unsigned(date.day()));
    ASSERT_EQ(parse_timestamptz(text), WallTime(day)) << text;
  }
}

TEST(TimestampText, KnowsLeapDays) {
  EXPECT_TRUE(parse_timestamptz("2000-02-29 00:00:00+00"));
  EXPECT_FALSE(parse_timestamptz("1900-02-29 00:00:00+00"));
  EXPECT_FALSE(parse_timestamptz("2026-02-29 00:00:00+00"));
  EXPECT_TRUE(parse_timestamptz("0001-02-29 00:00:00+00 BC"));
}

TEST(TimestampText, RefusesEveryOtherForm) {
  for (std::string_view text : {"",
                                "infinity",
                                "-infinity",
                                "2026-11-30",
                                "2026-11-30 19:01:02",
                                "2026-11-30T19:01:02+00",
                                "2026-11-30 19:01:02.+00",
                                "2026-11-30 19:01:02.1234567+00",
                                "2026-11-30 19:01:02+0",
                                "2026-11-30 19:01:02+00:",
                                "2026-11-30 19:01:02+00 AD",
                                "2026-11-30 19:01:02 IST",
                                "2026-13-01 00:00:00+00",
                                "2026-00-01 00:00:00+00",
                                "2026-01-00 00:00:00+00",
                                "2026-04-31 00:00:00+00",
                                "2026-01-01 24:00:00+00",
                                "2026-01-01 00:60:00+00",
                                "0000-01-01 00:00:00+00",
                                "30.11.2026 19:01:02+00",
                                " 2026-11-30 19:01:02+00",
                                "9999999-01-01 00:00:00+00"}) {
    EXPECT_FALSE(parse_timestamptz(text)) << text;
  }
}

}  // namespace
}  // namespace outrider
