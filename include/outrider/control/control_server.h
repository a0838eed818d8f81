// ControlServer: the Unix socket through which commands reach a running relay.
//
// Takes one request a connection and hands it out by take_request(); whoever carries it out answers
// by the session's number, whenever it likes. Calls nobody. Owns: the socket, its file and all
// connections; the file goes with the server. Must not outlive the loop. Thread: loop; never
// blocks, but create() may for kFolderLockMax. Errors: create() says why the path cannot be had; a
// client's faults stay with it. Limits: the constants below; a client over one of them is dropped.
// Access: the file has mode 0600, and only the process's own user and root are served, whatever
// becomes of the mode.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/control/control_request.h"
#include "outrider/loop/event_loop.h"

namespace outrider {

/// Connections at once; one more is told so and closed.
inline constexpr std::size_t kControlClientsMax = 8;
/// From accept to the end of the request line.
inline constexpr std::chrono::seconds kControlRequestMax{5};
/// A client that takes no byte of a waiting answer for so long is dropped.
inline constexpr std::chrono::seconds kControlStallMax{30};
/// Bytes waiting for one client at which has_room() becomes false; one line may go beyond.
inline constexpr std::size_t kControlRoomBytes = std::size_t{256} * 1024;
/// sockaddr_un holds 108 bytes, the last one is zero (unix(7)).
inline constexpr std::size_t kControlPathBytesMax = 107;
/// Longest wait while another process looks at the same folder for its own socket.
inline constexpr std::chrono::milliseconds kFolderLockMax{1'000};

class ControlServer {
 public:
  /// The socket of a process that is gone is replaced, one that is answered is refused.
  static Result<std::unique_ptr<ControlServer>> create(EventLoop& loop, const std::string& path);
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

  /// Accept, read and write what can be, drop who is over a limit. Each turn.
  void drive(Now now);

  /// The next request, once; false when there is none.
  bool take_request(ControlRequest& request);

  /// The client is there and its request has no final answer yet.
  bool is_open(std::uint64_t session) const;
  /// Whoever has more to say waits while this is false.
  bool has_room(std::uint64_t session) const;
  /// One line of JSON, without the line break. Nothing happens when the client is gone.
  void write_line(std::uint64_t session, std::string_view json);
  /// The last line; the connection closes when the client has it.
  void finish(std::uint64_t session, std::string_view json);

  /// When drive() is due even if no descriptor becomes ready.
  std::optional<MonoTime> deadline() const;

  std::size_t clients() const { return sessions_.size(); }

 private:
  struct Session;
  struct Place;
  ControlServer(EventLoop& loop, std::unique_ptr<Place> place);

  void accept_clients(Now now);
  bool accept_one(Now now);
  void read_from(Session& session);
  void take_line(Session& session, std::size_t end);
  void write_to(Session& session, Now now);
  void refuse(Session& session, const Error& error);
  void judge_time(Session& session, Now now) const;
  void set_interest(Session& session) const;
  Session* find(std::uint64_t session) const;

  EventLoop& loop_;
  std::unique_ptr<Place> place_;
  std::map<std::uint64_t, std::unique_ptr<Session>> sessions_;
  std::uint64_t next_session_ = 1;
  std::deque<ControlRequest> requests_;
  std::optional<MonoTime> accept_again_;  ///< The process was out of descriptors.
};

}  // namespace outrider
