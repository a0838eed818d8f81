#include "postgres/replication_protocol.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace outrider {
namespace {

using std::chrono::microseconds;
using std::chrono::seconds;
using namespace std::string_literals;

// 2000-01-01 00:00:01 UTC.
constexpr WallTime kOneSecondIn2000{seconds(946'684'801)};

std::string xlog_data(std::string_view payload) {
  return "w\x00\x00\x00\x01\x00\x00\x00\x10\x00\x00\x00\x01\x00\x00\x00\x20"s +
         "\x00\x00\x00\x00\x00\x0f\x42\x40"s + std::string(payload);
}

std::string keepalive(char reply) {
  return "k\x00\x00\x00\x01\x00\x00\x00\x20\x00\x00\x00\x00\x00\x0f\x42\x40"s + reply;
}

TEST(ReplicationProtocol, ReadsXLogData) {
  std::string bytes = xlog_data("abc");
  auto parsed = parse_server_message(bytes);
  ASSERT_TRUE(parsed);
  const auto& data = std::get<XLogData>(*parsed);
  EXPECT_EQ(data.wal_start.to_string(), "1/10");
  EXPECT_EQ(data.wal_end.to_string(), "1/20");
  EXPECT_EQ(data.sent_at, kOneSecondIn2000);
  EXPECT_EQ(std::string_view(data.payload.data(), data.payload.size()), "abc");
  EXPECT_EQ(data.payload.data(), bytes.data() + kXLogDataHeaderBytes);
}

TEST(ReplicationProtocol, ReadsXLogDataWithoutPayload) {
  std::string bytes = xlog_data("");
  auto parsed = parse_server_message(bytes);
  ASSERT_TRUE(parsed);
  EXPECT_TRUE(std::get<XLogData>(*parsed).payload.empty());
}

TEST(ReplicationProtocol, ReadsKeepaliveAndItsReplyBit) {
  for (bool reply : {false, true}) {
    std::string bytes = keepalive(reply ? '\1' : '\0');
    auto parsed = parse_server_message(bytes);
    ASSERT_TRUE(parsed);
    const auto& message = std::get<PrimaryKeepalive>(*parsed);
    EXPECT_EQ(message.wal_end.to_string(), "1/20");
    EXPECT_EQ(message.sent_at, kOneSecondIn2000);
    EXPECT_EQ(message.reply_requested, reply);
  }
}

TEST(ReplicationProtocol, RefusesEveryTruncation) {
  std::string data = xlog_data("");
  for (std::size_t size = 0; size < data.size(); ++size) {
    std::string cut = data.substr(0, size);
    auto parsed = parse_server_message(cut);
    ASSERT_FALSE(parsed) << size;
    EXPECT_EQ(parsed.error().kind, ErrorKind::fatal);
  }
  std::string alive = keepalive('\1');
  for (std::size_t size = 0; size < alive.size(); ++size) {
    std::string cut = alive.substr(0, size);
    EXPECT_FALSE(parse_server_message(cut)) << size;
  }
}

TEST(ReplicationProtocol, RefusesAnUnknownKind) {
  std::string bytes = "z" + xlog_data("abc");
  EXPECT_FALSE(parse_server_message(bytes));
}

TEST(ReplicationProtocol, SurvivesExtremeTimes) {
  for (char fill : {'\x7f', '\x80', '\xff'}) {
    std::string bytes = "k"s + std::string(8, '\0') + std::string(8, fill) + "\0"s;
    EXPECT_TRUE(parse_server_message(bytes));
  }
}

TEST(ReplicationProtocol, WritesStandbyStatus) {
  auto bytes = encode_standby_status(Lsn::from_wire(0x100000020), Lsn::from_wire(0x100000010),
                                     kOneSecondIn2000, true);
  EXPECT_EQ(std::string(bytes.data(), bytes.size()),
            "r\x00\x00\x00\x01\x00\x00\x00\x20\x00\x00\x00\x01\x00\x00\x00\x10"s +
                "\x00\x00\x00\x01\x00\x00\x00\x10\x00\x00\x00\x00\x00\x0f\x42\x40\x01"s);
  auto mute = encode_standby_status(Lsn(), Lsn(), kOneSecondIn2000, false);
  EXPECT_EQ(mute.back(), '\0');
}

}  // namespace
}  // namespace outrider
