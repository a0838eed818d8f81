#include "observe/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace outrider {
namespace {

constexpr int kBacklogMax = 64;

tl::unexpected<Error> bad_address(const std::string& listen) {
  return fail(ErrorKind::configuration, "http.listen is not an address: \"" + listen + "\"",
              "write it as host:port, for example 127.0.0.1:9640 or [::1]:9640");
}

const char* hint_for(int error) {
  switch (error) {
    case EADDRINUSE:
      return "stop the process that holds this port, or set http.listen to a free one";
    case EADDRNOTAVAIL:
      return "set http.listen to an address of this machine, or to 0.0.0.0 for all of them";
    case EACCES:
      return "set http.listen to a port above 1023, or give the process CAP_NET_BIND_SERVICE";
    case EAFNOSUPPORT:
      return "set http.listen to an IPv4 address: this machine has no IPv6";
    default:
      return "set http.listen to an address and port that this process may bind";
  }
}

tl::unexpected<Error> cannot_listen(const std::string& listen, int error) {
  return fail(ErrorKind::configuration,
              "cannot listen on \"" + listen + "\": " + std::strerror(error), hint_for(error));
}

std::uint16_t bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 0;
  }
  if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &address, sizeof(v6));
    return ntohs(v6.sin6_port);
  }
  sockaddr_in v4{};
  std::memcpy(&v4, &address, sizeof(v4));
  return ntohs(v4.sin_port);
}

/// The descriptor, or the negative error number.
int try_listen(const addrinfo& candidate) {
  const int fd = socket(candidate.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return -errno;
  }
  // A quick restart finds connections of the one before in TIME_WAIT.
  const int on = 1;
  const bool bound = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                     bind(fd, candidate.ai_addr, candidate.ai_addrlen) == 0 &&
                     listen(fd, kBacklogMax) == 0;
  if (!bound) {
    const int error = errno;
    close(fd);
    return -error;
  }
  return fd;
}

}  // namespace

Result<ListenAddress> parse_listen_address(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string::npos) {
    return bad_address(listen);
  }
  ListenAddress address{listen.substr(0, colon), listen.substr(colon + 1)};
  const bool bracketed =
      address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']';
  if (bracketed) {
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find_first_of(":[]") != std::string::npos) {
    return bad_address(listen);
  }
  unsigned port = 0;
  const char* end = address.port.data() + address.port.size();
  auto [parsed, error] = std::from_chars(address.port.data(), end, port);
  if (error != std::errc() || parsed != end || port > 65535) {
    return bad_address(listen);
  }
  return address;
}

Result<ListenSocket> open_listen_socket(const std::string& listen) {
  OUTRIDER_TRY(const ListenAddress address, parse_listen_address(listen));
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int lookup = getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(),
                                 address.port.c_str(), &wanted, &found);
  if (lookup != 0) {
    return fail(ErrorKind::configuration,
                "cannot look up the host of http.listen \"" + listen +
                    "\": " + (lookup == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(lookup)),
                "set http.listen to an address of this machine, for example 127.0.0.1:9640");
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  // The first failure is the one to tell: later candidates are other families of the same name.
  int first_error = 0;
  for (const addrinfo* candidate = found; candidate != nullptr; candidate = candidate->ai_next) {
    const int fd = try_listen(*candidate);
    if (fd >= 0) {
      return ListenSocket{fd, bound_port(fd)};
    }
    first_error = first_error == 0 ? -fd : first_error;
  }
  return cannot_listen(listen, first_error);
}

}  // namespace outrider
