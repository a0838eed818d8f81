// ReplicationStream: the walsender's connection while it streams.
//
// Owns a Connection; once START_REPLICATION has been answered it pulls messages from the copy-both
// stream, sends statuses and ends the copy in order. Knows the frame of a message, not its content.
// Always a fresh connection: after the end of a copy a second START_REPLICATION on it would hang.
// Thread: loop. Errors close the connection. Limits: one read of libpq's buffer (16 KiB, or one
// message) a turn; while a backlog flows ReadPacer spaces the reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/relay/ports.h"
#include "postgres/connection.h"
#include "postgres/read_pacer.h"

namespace outrider {

class ReplicationStream {
 public:
  ReplicationStream(EventLoop& loop, ConnectionOptions options, std::chrono::microseconds pause);
  ~ReplicationStream();

  /// For everything before the copy: open, create the slot, START_REPLICATION.
  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }

  /// The copy has begun (connection().state() is copy_both).
  void begin(Now now);

  /// Flush what is unsent; notice a broken socket also while reading is off.
  Result<> drive(Now now);

  struct Pulled {
    enum class What : std::uint8_t { nothing, message, ended };
    What what = What::nothing;
    std::span<char> message;  ///< Stays until the next pull; may be changed in place.
  };
  Result<Pulled> pull(Now now);

  void set_reading(bool on);

  /// Queue a status. When the socket is full the newest one replaces the one that waits.
  Result<> send_status(const StandbyStatus& status, bool reply_requested, Now now);

  /// CopyDone after all queued statuses; data is thrown away until the server's CopyDone.
  Result<> finish();

  void close();

  bool has_buffered() const { return buffered_; }
  MonoTime last_heard() const { return last_heard_; }
  std::optional<MonoTime> deadline() const;

 private:
  struct FreeBuffer {
    void operator()(char* buffer) const;
  };

  bool may_read(Now now) const;
  void read(Now now);
  Result<Pulled> resolve_end(Now now);
  Result<> flush();
  Result<> put_pending();
  void update_interest();
  tl::unexpected<Error> lost();

  Connection connection_;
  ReadPacer pacer_;
  std::unique_ptr<char, FreeBuffer> buffer_;
  std::optional<std::string> pending_status_;
  MonoTime last_heard_{};
  bool reading_ = true;
  bool buffered_ = false;
  bool tls_more_ = false;
  bool broken_ = false;
  bool unflushed_ = false;
  bool ending_ = false;  ///< PQgetCopyData has said that the copy is over.
  bool finish_wanted_ = false;
  bool copy_done_sent_ = false;
};

}  // namespace outrider
