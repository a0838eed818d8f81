// HttpEndpoint: the small read-only web server of the relay, for /metrics, /livez and /readyz.
//
// It lives inside the loop: libmicrohttpd keeps its own epoll set, the loop watches that one
// descriptor, and drive() serves what is ready. No thread, no name look-up after create(), no TLS
// and no authentication: bind it to loopback or a private network. Anything but GET and HEAD is
// refused. Each connection carries one request and is closed.
// Owns: the listening socket and all connections. Must not outlive the loop. Thread: loop.
// Errors: create() says what cannot be bound and what to change; a client's faults stay with it.
// Limits: the constants below; a client over one of them is cut off and the relay does not wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"
#include "outrider/loop/event_loop.h"

namespace outrider {

inline constexpr unsigned kHttpConnectionsMax = 32;
/// From accept to the last byte of the answer, however busy the client keeps the connection.
inline constexpr std::chrono::seconds kHttpConnectionAgeMax{10};
/// Silence after which a connection is dropped.
inline constexpr std::chrono::seconds kHttpIdleMax{5};
/// Request line, headers and send buffer of one connection.
inline constexpr std::size_t kHttpConnectionBytesMax = std::size_t{16} * 1024;

struct HttpRequest {
  std::string method;  ///< "GET" or "HEAD"; the body of the answer to HEAD is dropped.
  std::string path;    ///< Decoded, without the query.
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

class HttpEndpoint {
 public:
  /// `listen` is "host:port", "[v6 address]:port" or ":port" (all addresses); port 0 takes a free
  /// one. A host name is looked up here, which may block: call it before the loop turns.
  static Result<std::unique_ptr<HttpEndpoint>> create(EventLoop& loop, const std::string& listen);
  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  /// Answer exactly this path. The handler runs inside drive() and must not block.
  void add_route(std::string path, std::function<HttpResponse(const HttpRequest&)> handler);

  /// Serve what is ready and cut off what is over its limits; cheap when nothing is.
  void drive(Now now);

  /// When drive() is due even if nothing becomes ready.
  std::optional<MonoTime> deadline() const;

  /// The port that is bound.
  std::uint16_t port() const;

 private:
  struct Server;
  explicit HttpEndpoint(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

}  // namespace outrider
