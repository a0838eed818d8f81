#include "outrider/observe/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::MatchesRegex;

constexpr std::size_t kTimeSize = sizeof("2026-11-30T19:01:02.123Z") - 1;

/// A datagram socket as stderr: each datagram is one write(2).
class LogTest : public testing::Test {
 protected:
  LogTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds_.data()), 0); }
  ~LogTest() override {
    close(fds_[0]);
    close(fds_[1]);
  }

  Log text_log(LogLevel level = LogLevel::info) { return Log({level, LogFormat::text}, fds_[1]); }
  Log json_log() { return Log({LogLevel::info, LogFormat::json}, fds_[1]); }

  std::vector<std::string> writes() {
    std::vector<std::string> result;
    std::string buffer(100000, '\0');
    for (;;) {
      const ssize_t size = recv(fds_[0], buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (size < 0) {
        return result;
      }
      result.push_back(buffer.substr(0, static_cast<std::size_t>(size)));
    }
  }

  /// The only write, without its time.
  std::string text_line() {
    auto lines = writes();
    EXPECT_EQ(lines.size(), 1U);
    return lines.empty() ? "" : lines[0].substr(kTimeSize + 1);
  }

  /// The only write, with its time left out.
  std::string json_line() {
    auto lines = writes();
    EXPECT_EQ(lines.size(), 1U);
    return lines.empty() ? "" : lines[0].erase(sizeof("{\"time\":\"") - 1, kTimeSize);
  }

  Now at(milliseconds offset) const { return Now{MonoTime(seconds(100)) + offset, WallTime{}}; }

  std::array<int, 2> fds_{-1, -1};
};

TEST_F(LogTest, WritesTimeInUtcWithMilliseconds) {
  Log log = text_log();
  log.write(LogLevel::info, "hello");
  EXPECT_THAT(writes(),
              ElementsAre(MatchesRegex("20[0-9][0-9]-[0-1][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:"
                                       "[0-6][0-9]\\.[0-9][0-9][0-9]Z info  hello\n")));
}

TEST_F(LogTest, WritesFieldsBehindTheMessage) {
  Log log = text_log();
  log.write(LogLevel::info, "stream started",
            {{"slot", "orders"}, {"lsn", Lsn::from_wire(0x16B3748)}});
  EXPECT_EQ(text_line(), "info  stream started slot=orders lsn=0/16B3748\n");
}

TEST_F(LogTest, AlignsLevels) {
  Log log = text_log(LogLevel::debug);
  log.write(LogLevel::debug, "a");
  log.write(LogLevel::warn, "b");
  log.write(LogLevel::error, "c");
  auto lines = writes();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].substr(kTimeSize), " debug a\n");
  EXPECT_EQ(lines[1].substr(kTimeSize), " warn  b\n");
  EXPECT_EQ(lines[2].substr(kTimeSize), " error c\n");
}

TEST_F(LogTest, QuotesValuesThatWouldReadAsSomethingElse) {
  Log log = text_log();
  log.write(LogLevel::info, "m",
            {{"a", "two words"}, {"b", "x=y"}, {"c", "say \"hi\""}, {"d", ""}, {"e", "ü"}});
  EXPECT_EQ(text_line(), "info  m a=\"two words\" b=\"x=y\" c=\"say \\\"hi\\\"\" e=\"ü\"\n")
      << "no value, no field";
}

TEST_F(LogTest, KeepsOneEventOnOneLine) {
  Log log = text_log();
  log.write(LogLevel::info, "first\nsecond {} {0}", {{"v", "a\nb\x1b[31m"}});
  EXPECT_EQ(text_line(), "info  first\\nsecond {} {0} v=\"a\\nb\\u001b[31m\"\n");
}

TEST_F(LogTest, WritesNumbersWithTheirOwnDigits) {
  Log log = text_log();
  log.write(LogLevel::info, "m",
            {{"a", -5},
             {"b", std::numeric_limits<std::uint64_t>::max()},
             {"c", std::numeric_limits<std::int64_t>::min()},
             {"d", 7U},
             {"e", 0.1},
             {"wait_ms", milliseconds(1500)}});
  EXPECT_EQ(text_line(),
            "info  m a=-5 b=18446744073709551615 c=-9223372036854775808 d=7 e=0.1 wait_ms=1500\n");
}

TEST_F(LogTest, WritesJsonObjectsWithNumbersAsNumbers) {
  Log log = json_log();
  log.write(LogLevel::warn, "slot \"x\" is busy", {{"slot", "x"}, {"attempt", 3}, {"r", 0.5}});
  EXPECT_EQ(json_line(),
            "{\"time\":\"\",\"level\":\"warn\",\"message\":\"slot \\\"x\\\" is busy\","
            "\"slot\":\"x\",\"attempt\":3,\"r\":0.5}\n");
}

TEST_F(LogTest, WritesNumbersThatJsonDoesNotKnowAsText) {
  Log log = json_log();
  log.write(LogLevel::info, "m", {{"r", std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(json_line(), "{\"time\":\"\",\"level\":\"info\",\"message\":\"m\",\"r\":\"inf\"}\n");
}

/// What JSON makes of the bytes 0 to 255 in a row; from 128 on none of them is UTF-8.
std::string every_byte_in_json() {
  std::string result;
  for (int byte = 0; byte < 256; ++byte) {
    std::array<char, 8> escape{};
    std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(byte));
    if (byte == '\t' || byte == '\n' || byte == '\r') {
      result += byte == '\t' ? "\\t" : byte == '\n' ? "\\n" : "\\r";
    } else if (byte < 0x20 || byte == 0x7F) {
      result += escape.data();
    } else if (byte == '"' || byte == '\\') {
      result += {'\\', static_cast<char>(byte)};
    } else {
      result += byte < 0x80 ? std::string(1, static_cast<char>(byte)) : "\xEF\xBF\xBD";
    }
  }
  return result;
}

TEST_F(LogTest, WritesValidJsonForAnyByte) {
  Log log = json_log();
  std::string every_byte;
  for (int byte = 0; byte < 256; ++byte) {
    every_byte += static_cast<char>(byte);
  }
  log.write(LogLevel::info, every_byte, {{"value", every_byte}});
  EXPECT_EQ(json_line(), "{\"time\":\"\",\"level\":\"info\",\"message\":\"" + every_byte_in_json() +
                             "\",\"value\":\"" + every_byte_in_json() + "\"}\n");
}

TEST_F(LogTest, CutsAValueAtItsLimit) {
  Log log = text_log();
  log.write(LogLevel::info, "m", {{"v", std::string(kLogValueBytesMax, 'a')}});
  EXPECT_EQ(text_line(), "info  m v=" + std::string(kLogValueBytesMax, 'a') + "\n");
  log.write(LogLevel::info, "m", {{"v", std::string(kLogValueBytesMax + 1, 'a')}});
  EXPECT_EQ(text_line(), "info  m v=\"" + std::string(kLogValueBytesMax, 'a') + "…\"\n");
}

TEST_F(LogTest, HoldsBackWhatIsBelowItsLevel) {
  Log log = text_log(LogLevel::warn);
  EXPECT_FALSE(log.enabled(LogLevel::info));
  log.write(LogLevel::info, "no");
  EXPECT_TRUE(writes().empty());
  log.set_level(LogLevel::debug);
  EXPECT_TRUE(log.enabled(LogLevel::debug));
  log.write(LogLevel::debug, "yes");
  EXPECT_EQ(text_line(), "debug yes\n");
}

TEST_F(LogTest, LimitsLinesByKeyAndSaysHowManyItHeldBack) {
  Log log = text_log();
  for (int i = 0; i < 10; ++i) {
    log.write_limited(LogLevel::warn, "broker", at(milliseconds(i)), seconds(10), "broker down");
  }
  EXPECT_EQ(text_line(), "warn  broker down\n");
  log.write_limited(LogLevel::warn, "other", at(milliseconds(10)), seconds(10), "else");
  EXPECT_EQ(text_line(), "warn  else\n");
  log.write_limited(LogLevel::warn, "broker", at(seconds(10)), seconds(10), "broker down",
                    {{"broker", 1}});
  EXPECT_EQ(text_line(), "warn  broker down broker=1 suppressed=9\n");
  log.write_limited(LogLevel::warn, "broker", at(seconds(20)), seconds(10), "broker down");
  EXPECT_EQ(text_line(), "warn  broker down\n");
}

// An outage of five minutes at a thousand errors a second fits on a screen.
TEST_F(LogTest, StaysQuietInALongOutage) {
  Log log = text_log();
  std::size_t lines = 0;
  for (int ms = 0; ms < 300'000; ++ms) {
    log.write_limited(LogLevel::error, "down", at(milliseconds(ms)), seconds(10), "broker down");
    if (ms % 1000 == 0) {
      lines += writes().size();
    }
  }
  EXPECT_EQ(lines, 30U);
}

TEST_F(LogTest, SharesOneLimitAmongKeysOverTheBound) {
  Log log = text_log();
  std::size_t lines = 0;
  for (std::size_t i = 0; i < kLimitedKeysMax + 100; ++i) {
    log.write_limited(LogLevel::warn, "key" + std::to_string(i), at(seconds(0)), seconds(10), "m");
    lines += writes().size();
  }
  EXPECT_EQ(lines, kLimitedKeysMax + 1);
  // Keys whose interval is over make room for new ones.
  log.write_limited(LogLevel::warn, "late", at(seconds(10)), seconds(10), "m");
  EXPECT_EQ(text_line(), "warn  m\n");
  log.write_limited(LogLevel::warn, "late", at(seconds(11)), seconds(10), "m");
  EXPECT_TRUE(writes().empty());
}

TEST_F(LogTest, DropsLinesInsteadOfWaitingForAReaderThatDoesNotRead) {
  Log log = text_log();
  constexpr int kLines = 100000;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kLines; ++i) {
    log.write(LogLevel::error, "m");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(30));
  const std::size_t passed = writes().size();
  ASSERT_LT(passed, static_cast<std::size_t>(kLines));
  log.write(LogLevel::info, "again");
  EXPECT_EQ(text_line(), "info  again dropped=" + std::to_string(kLines - passed) + "\n");
  log.write(LogLevel::info, "again");
  EXPECT_EQ(text_line(), "info  again\n");
}

TEST_F(LogTest, SurvivesAClosedDescriptor) {
  Log log({LogLevel::info, LogFormat::text}, -1);
  log.write(LogLevel::error, "nobody reads this");
}

}  // namespace
}  // namespace outrider
