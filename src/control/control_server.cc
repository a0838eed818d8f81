#include "outrider/control/control_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "control/socket_file.h"

namespace outrider {
namespace {

/// New connections taken in one turn.
constexpr int kAcceptsMax = 16;
constexpr std::size_t kReadBytes = 4096;
constexpr std::chrono::seconds kAcceptPause{1};
/// Sent bytes are cut off the front of an answer by so many at once.
constexpr std::size_t kSentBytesKept = std::size_t{64} * 1024;

/// The peer has closed both directions: nobody will read. One that only stopped writing still may.
bool is_hung_up(int fd) {
  pollfd look{fd, 0, 0};
  return poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR)) != 0;
}

bool may_talk(const ucred& peer) { return peer.uid == geteuid() || peer.uid == 0; }

}  // namespace

struct ControlServer::Place {
  SocketFile file;
  std::unique_ptr<FdWatch> watch;  // Declared last: goes before the descriptor.
};

struct ControlServer::Session {
  Session(std::uint64_t session_number, int descriptor) : number(session_number), fd(descriptor) {}
  ~Session() {
    watch.reset();  // Before its descriptor.
    close(fd);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::size_t waiting() const { return output.size() - sent; }

  const std::uint64_t number;
  const int fd;
  std::unique_ptr<FdWatch> watch;
  std::uint32_t uid = 0;
  std::int32_t pid = 0;
  std::string input;
  std::string output;
  std::size_t sent = 0;  ///< Of output.
  MonoTime accepted_at{};
  MonoTime moved_at{};     ///< Bytes of the answer were last taken, or it was empty.
  bool asked = false;      ///< The request is whole.
  bool answered = false;   ///< The last line is in output.
  bool input_end = false;  ///< The client writes no more.
  bool gone = false;       ///< To be dropped.
};

Result<std::unique_ptr<ControlServer>> ControlServer::create(EventLoop& loop,
                                                             const std::string& path) {
  OUTRIDER_TRY(SocketFile file, SocketFile::open(path));
  std::unique_ptr<Place> place(new Place{std::move(file), nullptr});
  place->watch = loop.watch(place->file.fd(), true, false);
  return std::unique_ptr<ControlServer>(new ControlServer(loop, std::move(place)));
}

ControlServer::ControlServer(EventLoop& loop, std::unique_ptr<Place> place)
    : loop_(loop), place_(std::move(place)) {}

ControlServer::~ControlServer() = default;

void ControlServer::drive(Now now) {
  accept_clients(now);
  for (auto& [number, session] : sessions_) {
    if (session->watch->readable() && !session->gone) {
      read_from(*session);
    }
    session->watch->clear();
    if (!session->gone) {
      write_to(*session, now);
      judge_time(*session, now);
      set_interest(*session);
    }
  }
  std::erase_if(sessions_, [](const auto& each) { return each.second->gone; });
}

void ControlServer::accept_clients(Now now) {
  if (accept_again_ && now.mono >= *accept_again_) {
    accept_again_.reset();
    place_->watch->set_interest(true, false);
  } else if (accept_again_ || !place_->watch->readable()) {
    return;
  }
  place_->watch->clear();
  for (int i = 0; i < kAcceptsMax && accept_one(now); ++i) {
  }
}

bool ControlServer::accept_one(Now now) {
  const int fd = accept4(place_->file.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      // The client stays in the queue; without a pause it would wake every turn.
      place_->watch->set_interest(false, false);
      accept_again_ = now.mono + kAcceptPause;
      return false;
    }
    return errno == EINTR || errno == ECONNABORTED;
  }
  const bool full = sessions_.size() >= 2 * kControlClientsMax;
  auto session = std::make_unique<Session>(next_session_++, fd);
  if (full) {
    return true;  // Not even a word for one more.
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  const bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  session->uid = peer.uid;
  session->pid = peer.pid;
  session->accepted_at = session->moved_at = now.mono;
  session->watch = loop_.watch(fd, true, false);
  if (!known || !may_talk(peer)) {
    refuse(*session,
           {ErrorKind::configuration,
            "user " + std::to_string(peer.uid) + " may not command",
            "run the command as the relay's user (uid " + std::to_string(geteuid()) + ") or root",
            {}});
  } else if (sessions_.size() >= kControlClientsMax) {
    refuse(*session, {ErrorKind::transient,
                      "too many commands at once, at most " + std::to_string(kControlClientsMax),
                      "wait until one of the others is done",
                      {}});
  }
  read_from(*session);  // Most have sent their request before they are accepted.
  sessions_.emplace(session->number, std::move(session));
  return true;
}

void ControlServer::read_from(Session& session) {
  std::array<char, kReadBytes> bytes;
  // Enough for one whole request a turn; more is a fault.
  for (std::size_t taken = 0; taken <= kControlRequestBytesMax && !session.input_end;) {
    const ssize_t count = recv(session.fd, bytes.data(), bytes.size(), 0);
    if (count < 0) {
      session.gone = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
      break;
    }
    if (count == 0) {
      session.input_end = true;
      break;
    }
    taken += static_cast<std::size_t>(count);
    if (session.answered) {
      continue;  // Nobody listens any more.
    }
    if (session.asked) {
      refuse(session, {ErrorKind::configuration,
                       "bytes follow the request",
                       "send one request a connection",
                       {}});
      continue;
    }
    session.input.append(bytes.data(), static_cast<std::size_t>(count));
    if (const std::size_t end = session.input.find('\n'); end != std::string::npos) {
      take_line(session, end);
    } else if (session.input.size() > kControlRequestBytesMax) {
      refuse(session,
             {ErrorKind::configuration,
              "the request is longer than " + std::to_string(kControlRequestBytesMax) + " bytes",
              "name fewer letters at once",
              {}});
    }
  }
  if (session.input_end && !session.gone) {
    session.gone = is_hung_up(session.fd) || (!session.asked && session.input.empty());
    if (!session.asked && !session.answered && !session.gone) {
      take_line(session, session.input.size());  // A last line without its line break.
    }
  }
}

void ControlServer::take_line(Session& session, std::size_t end) {
  session.asked = true;
  const bool only = end + 1 >= session.input.size();
  if (!only || end > kControlRequestBytesMax) {
    refuse(session, {ErrorKind::configuration,
                     only ? "the request is too long" : "bytes follow the request",
                     "send one request of at most " + std::to_string(kControlRequestBytesMax) +
                         " bytes a connection",
                     {}});
    return;
  }
  Result<ControlRequest> request = parse_control_request({session.input.data(), end});
  if (!request) {
    refuse(session, request.error());
    return;
  }
  request->session = session.number;
  request->uid = session.uid;
  request->pid = session.pid;
  requests_.push_back(std::move(*request));
  session.input = std::string();
}

void ControlServer::refuse(Session& session, const Error& error) {
  session.output += control_error_line(error) + "\n";
  session.answered = true;
  session.input = std::string();
}

void ControlServer::write_to(Session& session, Now now) {
  if (session.waiting() == 0) {
    session.moved_at = now.mono;
  }
  while (session.waiting() > 0) {
    const ssize_t count = send(session.fd, session.output.data() + session.sent, session.waiting(),
                               MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0) {
      session.gone = errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
      break;
    }
    session.sent += static_cast<std::size_t>(count);
    session.moved_at = now.mono;
  }
  if (session.waiting() == 0) {
    session.output.clear();
    session.sent = 0;
    session.gone = session.gone || session.answered;
  } else if (session.sent > kSentBytesKept) {
    session.output.erase(0, session.sent);
    session.sent = 0;
  }
}

void ControlServer::judge_time(Session& session, Now now) const {
  const bool slow_to_ask =
      !session.asked && !session.answered && now.mono - session.accepted_at >= kControlRequestMax;
  const bool slow_to_read =
      session.waiting() > 0 && now.mono - session.moved_at >= kControlStallMax;
  session.gone = session.gone || slow_to_ask || slow_to_read;
}

void ControlServer::set_interest(Session& session) const {
  session.watch->set_interest(!session.input_end, session.waiting() > 0);
}

ControlServer::Session* ControlServer::find(std::uint64_t session) const {
  const auto found = sessions_.find(session);
  return found == sessions_.end() || found->second->gone ? nullptr : found->second.get();
}

bool ControlServer::take_request(ControlRequest& request) {
  while (!requests_.empty()) {
    request = std::move(requests_.front());
    requests_.pop_front();
    if (is_open(request.session)) {
      return true;
    }
  }
  return false;
}

bool ControlServer::is_open(std::uint64_t session) const {
  const Session* found = find(session);
  return found != nullptr && !found->answered;
}

bool ControlServer::has_room(std::uint64_t session) const {
  const Session* found = find(session);
  return found != nullptr && !found->answered && found->waiting() < kControlRoomBytes;
}

void ControlServer::write_line(std::uint64_t session, std::string_view json) {
  if (!is_open(session)) {
    return;
  }
  Session& open = *find(session);
  open.output.append(json).append("\n");
  set_interest(open);
}

void ControlServer::finish(std::uint64_t session, std::string_view json) {
  write_line(session, json);
  if (Session* open = find(session)) {
    open->answered = true;
  }
}

std::optional<MonoTime> ControlServer::deadline() const {
  std::optional<MonoTime> due = accept_again_;
  const auto consider = [&due](MonoTime time) { due = due ? std::min(*due, time) : time; };
  for (const auto& [number, session] : sessions_) {
    if (!session->asked && !session->answered) {
      consider(session->accepted_at + kControlRequestMax);
    }
    if (session->waiting() > 0) {
      consider(session->moved_at + kControlStallMax);
    }
  }
  return due;
}

}  // namespace outrider
