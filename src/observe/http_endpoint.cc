#include "outrider/observe/http_endpoint.h"

#include <microhttpd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "observe/listen_socket.h"

namespace outrider {
namespace {

struct DaemonDeleter {
  void operator()(MHD_Daemon* daemon) const { MHD_stop_daemon(daemon); }
};

struct ResponseDeleter {
  void operator()(MHD_Response* response) const { MHD_destroy_response(response); }
};

/// The library's own words about clients are of no use to an operator.
void discard_library_log(void*, const char*, va_list) {}

}  // namespace

struct HttpEndpoint::Server {
  std::unique_ptr<MHD_Daemon, DaemonDeleter> daemon;
  std::unique_ptr<FdWatch> watch;
  std::uint16_t port = 0;
  std::map<std::string, std::function<HttpResponse(const HttpRequest&)>, std::less<>> routes;
  std::unordered_map<MHD_Connection*, MonoTime> open_since;
  MonoTime now{};
  std::optional<MonoTime> library_deadline;
  bool closed_one = false;  ///< During this run.

  static MHD_Result on_request(void* self, MHD_Connection* connection, const char* url,
                               const char* method, const char* version, const char* upload_data,
                               size_t* upload_data_size, void** context);
  static void on_connection(void* self, MHD_Connection* connection, void** context,
                            MHD_ConnectionNotificationCode code);

  HttpResponse answer(const HttpRequest& request) const;
  HttpResponse not_found() const;
  void cut_off_old();
  void run();
};

MHD_Result HttpEndpoint::Server::on_request(void* self, MHD_Connection* connection, const char* url,
                                            const char* method, const char*, const char*, size_t*,
                                            void**) {
  const Server& server = *static_cast<Server*>(self);
  const std::string_view verb(method);
  const bool allowed = verb == "GET" || verb == "HEAD";
  const HttpResponse answer =
      allowed ? server.answer(HttpRequest{method, url})
              : HttpResponse{405, "text/plain; charset=utf-8", "only GET and HEAD\n"};
  const std::unique_ptr<MHD_Response, ResponseDeleter> response(MHD_create_response_from_buffer(
      answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY));
  if (response == nullptr) {
    return MHD_NO;
  }
  // One request a connection: then the age of a connection is the age of its request.
  const bool ready =
      MHD_add_response_header(response.get(), "Content-Type", answer.content_type.c_str()) ==
          MHD_YES &&
      MHD_add_response_header(response.get(), "Cache-Control", "no-store") == MHD_YES &&
      MHD_add_response_header(response.get(), "Connection", "close") == MHD_YES &&
      (allowed || MHD_add_response_header(response.get(), "Allow", "GET, HEAD") == MHD_YES);
  if (!ready) {
    return MHD_NO;
  }
  return MHD_queue_response(connection, static_cast<unsigned>(answer.status), response.get());
}

void HttpEndpoint::Server::on_connection(void* self, MHD_Connection* connection, void**,
                                         MHD_ConnectionNotificationCode code) {
  Server& server = *static_cast<Server*>(self);
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    server.open_since.emplace(connection, server.now);
  } else {
    server.open_since.erase(connection);
    server.closed_one = true;
  }
}

HttpResponse HttpEndpoint::Server::answer(const HttpRequest& request) const {
  auto route = routes.find(request.path);
  return route != routes.end() ? route->second(request) : not_found();
}

HttpResponse HttpEndpoint::Server::not_found() const {
  std::string body = "not found; there are:\n";
  for (const auto& route : routes) {
    body += route.first + "\n";
  }
  return HttpResponse{404, "text/plain; charset=utf-8", std::move(body)};
}

/// The library knows only silence; a client that sends one byte a second would stay for ever.
void HttpEndpoint::Server::cut_off_old() {
  for (auto& [connection, since] : open_since) {
    if (now - since < kHttpConnectionAgeMax) {
      continue;
    }
    const auto* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (info != nullptr) {
      // The library sees the end of the stream and closes; the descriptor stays its own.
      (void)shutdown(info->connect_fd, SHUT_RDWR);
    }
    since = now;  // Not again every turn, should it take the library more than one.
  }
}

void HttpEndpoint::Server::run() {
  watch->clear();
  cut_off_old();
  closed_one = false;
  (void)MHD_run(daemon.get());  // Fails only for a daemon with threads of its own.
  if (closed_one) {
    // At its limit of connections the library stops listening; it begins again only in the run
    // after the one that closed a connection, and does not ask for that run.
    library_deadline = now;
    return;
  }
  MHD_UNSIGNED_LONG_LONG timeout_ms = 0;
  library_deadline.reset();
  if (MHD_get_timeout(daemon.get(), &timeout_ms) == MHD_YES) {
    const auto timeout = std::min<std::chrono::milliseconds>(
        std::chrono::milliseconds(static_cast<std::int64_t>(
            std::min<unsigned long long>(timeout_ms, static_cast<unsigned long long>(INT32_MAX)))),
        kHttpIdleMax);
    library_deadline = now + timeout;
  }
}

Result<std::unique_ptr<HttpEndpoint>> HttpEndpoint::create(EventLoop& loop,
                                                           const std::string& listen) {
  OUTRIDER_TRY(const ListenSocket socket, open_listen_socket(listen));
  auto server = std::make_unique<Server>();
  server->port = socket.port;
  const auto seconds = [](std::chrono::seconds value) {
    return static_cast<unsigned>(value.count());
  };
  // From here the descriptor is the library's, also when the start fails.
  server->daemon.reset(MHD_start_daemon(
      MHD_USE_EPOLL | MHD_USE_ERROR_LOG, 0, nullptr, nullptr, &Server::on_request, server.get(),
      MHD_OPTION_EXTERNAL_LOGGER, &discard_library_log, nullptr, MHD_OPTION_LISTEN_SOCKET,
      socket.fd, MHD_OPTION_CONNECTION_LIMIT, kHttpConnectionsMax, MHD_OPTION_CONNECTION_TIMEOUT,
      seconds(kHttpIdleMax), MHD_OPTION_CONNECTION_MEMORY_LIMIT, kHttpConnectionBytesMax,
      MHD_OPTION_NOTIFY_CONNECTION, &Server::on_connection, server.get(), MHD_OPTION_END));
  if (server->daemon == nullptr) {
    return fail(ErrorKind::fatal, "cannot start the web server on \"" + listen + "\"",
                "raise the limits on open files and memory for this process and start it again");
  }
  const MHD_DaemonInfo* info = MHD_get_daemon_info(server->daemon.get(), MHD_DAEMON_INFO_EPOLL_FD);
  if (info == nullptr || info->epoll_fd < 0) {
    return fail(ErrorKind::fatal, "cannot start the web server on \"" + listen + "\": no epoll",
                "install a libmicrohttpd that was built with epoll");
  }
  server->watch = loop.watch(info->epoll_fd, true, false);
  return std::unique_ptr<HttpEndpoint>(new HttpEndpoint(std::move(server)));
}

HttpEndpoint::HttpEndpoint(std::unique_ptr<Server> server) : server_(std::move(server)) {}

HttpEndpoint::~HttpEndpoint() {
  // The watch leaves the loop before the library closes its descriptor, and the connections are
  // closed while the server that hears of it is whole.
  server_->watch.reset();
  server_->daemon.reset();
}

void HttpEndpoint::add_route(std::string path,
                             std::function<HttpResponse(const HttpRequest&)> handler) {
  server_->routes.insert_or_assign(std::move(path), std::move(handler));
}

void HttpEndpoint::drive(Now now) {
  server_->now = now.mono;
  const std::optional<MonoTime> due = deadline();
  if (server_->watch->readable() || (due && *due <= now.mono)) {
    server_->run();
  }
}

std::optional<MonoTime> HttpEndpoint::deadline() const {
  std::optional<MonoTime> due = server_->library_deadline;
  for (const auto& entry : server_->open_since) {
    const MonoTime end = entry.second + kHttpConnectionAgeMax;
    due = due ? std::min(*due, end) : end;
  }
  return due;
}

std::uint16_t HttpEndpoint::port() const { return server_->port; }

}  // namespace outrider
