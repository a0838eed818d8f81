#include "outrider/observe/service_notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace outrider {
namespace {

std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  auto [parsed, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || parsed != end || text.empty()) {
    return std::nullopt;
  }
  return number;
}

/// One line, without control bytes, and no character of UTF-8 cut in two.
std::string status_line(std::string_view status) {
  std::string line(status.substr(0, kServiceStatusBytesMax));
  if (status.size() > line.size()) {
    while (!line.empty() && (static_cast<unsigned char>(status[line.size()]) & 0xC0U) == 0x80U) {
      line.pop_back();
    }
  }
  std::replace_if(
      line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20U; }, ' ');
  return line;
}

}  // namespace

ServiceNotifySettings ServiceNotifySettings::from_environment(
    const std::vector<std::pair<std::string, std::string>>& environment, long own_pid) {
  ServiceNotifySettings settings;
  std::optional<std::int64_t> watchdog_us;
  bool for_us = true;
  for (const auto& [name, value] : environment) {
    if (name == "NOTIFY_SOCKET") {
      settings.socket = value;
    } else if (name == "WATCHDOG_USEC") {
      watchdog_us = number_of(value);
    } else if (name == "WATCHDOG_PID") {
      for_us = number_of(value) == own_pid;
    }
  }
  if (watchdog_us && *watchdog_us > 0 && for_us) {
    settings.watchdog = std::chrono::microseconds(*watchdog_us);
  }
  return settings;
}

Result<std::unique_ptr<ServiceNotify>> ServiceNotify::create(
    const ServiceNotifySettings& settings) {
  if (settings.socket.empty()) {
    return std::unique_ptr<ServiceNotify>();
  }
  constexpr const char* kHint =
      "start the process by systemd, or without NOTIFY_SOCKET in its environment";
  const bool abstract = settings.socket.front() == '@';
  if ((!abstract && settings.socket.front() != '/') || settings.socket.size() < 2 ||
      settings.socket.size() >= sizeof(sockaddr_un::sun_path)) {
    return fail(ErrorKind::configuration,
                "NOTIFY_SOCKET is not a socket's path: \"" + settings.socket + "\"", kHint);
  }
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    return fail(ErrorKind::fatal,
                std::string("no socket for the service manager: ") + std::strerror(errno), kHint);
  }
  std::string address = settings.socket;
  if (abstract) {
    address.front() = '\0';
  }
  return std::unique_ptr<ServiceNotify>(new ServiceNotify(fd, std::move(address), settings));
}

ServiceNotify::ServiceNotify(int fd, std::string address, const ServiceNotifySettings& settings)
    : fd_(fd), address_(std::move(address)), watchdog_(settings.watchdog.has_value()) {
  if (settings.watchdog) {
    interval_ = std::min(interval_, *settings.watchdog / 2);
  }
}

ServiceNotify::~ServiceNotify() { close(fd_); }

void ServiceNotify::stopping(Now now) {
  stopping_ = true;
  next_beat_ = now.mono;
}

void ServiceNotify::beat(Now now, std::string_view status) {
  next_beat_ = now.mono + interval_;
  std::string message;
  if (!ready_told_) {
    message += "READY=1\n";
  }
  if (stopping_ && !stopping_told_) {
    message += "STOPPING=1\n";
  }
  if (watchdog_) {
    message += "WATCHDOG=1\n";
  }
  std::string line = status_line(status);
  if (line != status_told_) {
    message += "STATUS=" + line + "\n";
  }
  if (message.empty() || !send(message)) {
    return;
  }
  ready_told_ = true;
  stopping_told_ = stopping_;
  status_told_ = std::move(line);
}

bool ServiceNotify::send(const std::string& message) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, address_.data(), address_.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  const ssize_t sent = sendto(fd_, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                              reinterpret_cast<const sockaddr*>(&address), size);
  return sent == static_cast<ssize_t>(message.size());
}

}  // namespace outrider
