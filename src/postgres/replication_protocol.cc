#include "postgres/replication_protocol.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "outrider/base/byte_reader.h"

namespace outrider {
namespace {

constexpr std::chrono::microseconds kPostgresEpoch = std::chrono::seconds(946'684'800);

WallTime from_wire_time(std::int64_t microseconds) {
  // Unsigned arithmetic: a hostile value may wrap, but must not overflow.
  std::uint64_t since_1970 =
      static_cast<std::uint64_t>(microseconds) + static_cast<std::uint64_t>(kPostgresEpoch.count());
  return WallTime(std::chrono::microseconds(static_cast<std::int64_t>(since_1970)));
}

tl::unexpected<Error> malformed(const char* what, std::size_t size) {
  return fail(ErrorKind::fatal, std::string("replication message \"") + what +
                                    "\" cannot be read: " + std::to_string(size) + " bytes");
}

// XLogData: 'w' | u64 dataStart | u64 walEnd | i64 sendTime | payload to the end.
Result<ServerMessage> parse_xlog_data(std::span<char> message) {
  if (message.size() < kXLogDataHeaderBytes) {
    return malformed("XLogData", message.size());
  }
  ByteReader reader(std::string_view(message.data(), message.size()).substr(1));
  XLogData data;
  data.wal_start = Lsn::from_wire(reader.u64());
  data.wal_end = Lsn::from_wire(reader.u64());
  data.sent_at = from_wire_time(reader.i64());
  data.payload = message.subspan(kXLogDataHeaderBytes);
  return ServerMessage(data);
}

// Primary keepalive: 'k' | u64 walEnd | i64 sendTime | u8 replyRequested. Longer is accepted: a
// field added at the end does not change the ones we know.
Result<ServerMessage> parse_keepalive(std::span<char> message) {
  if (message.size() < kKeepaliveBytes) {
    return malformed("keepalive", message.size());
  }
  ByteReader reader(std::string_view(message.data(), message.size()).substr(1));
  PrimaryKeepalive keepalive;
  keepalive.wal_end = Lsn::from_wire(reader.u64());
  keepalive.sent_at = from_wire_time(reader.i64());
  keepalive.reply_requested = reader.u8() != 0;
  return ServerMessage(keepalive);
}

char* put_u64(char* at, std::uint64_t value) {
  for (int shift = 56; shift >= 0; shift -= 8) {
    *at++ = static_cast<char>(static_cast<unsigned char>(value >> shift));
  }
  return at;
}

}  // namespace

Result<ServerMessage> parse_server_message(std::span<char> message) {
  if (message.empty()) {
    return malformed("", 0);
  }
  switch (message.front()) {
    case 'w':
      return parse_xlog_data(message);
    case 'k':
      return parse_keepalive(message);
    default:
      return fail(ErrorKind::fatal,
                  "replication message of unknown kind " +
                      std::to_string(static_cast<unsigned char>(message.front())));
  }
}

// Standby status: 'r' | u64 written | u64 flushed | u64 applied | i64 clock | u8 replyRequested.
std::array<char, kStandbyStatusBytes> encode_standby_status(Lsn received_lsn, Lsn flushed_lsn,
                                                            WallTime now, bool reply_requested) {
  std::array<char, kStandbyStatusBytes> bytes{};
  char* at = bytes.data();
  *at++ = 'r';
  at = put_u64(at, received_lsn.to_wire());
  at = put_u64(at, flushed_lsn.to_wire());
  at = put_u64(at, flushed_lsn.to_wire());
  at = put_u64(at, static_cast<std::uint64_t>((now.time_since_epoch() - kPostgresEpoch).count()));
  *at = reply_requested ? '\1' : '\0';
  return bytes;
}

}  // namespace outrider
