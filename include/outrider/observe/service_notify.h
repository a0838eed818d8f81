// ServiceNotify: tells a service manager that we serve, live and stop (systemd's sd_notify(3)).
//
// The protocol is one datagram of `NAME=value` lines to the socket that NOTIFY_SOCKET names; the
// watchdog of systemd.service(5) wants WATCHDOG=1 within WATCHDOG_USEC, for the process
// WATCHDOG_PID. Everything goes out in beats, which the loop's turn makes: a loop that does not
// turn lets the watchdog bark, an outage of a server does not. Owns its socket. Thread: loop; a
// send never waits, and what did not go out goes with the next beat. Errors: create() only. Limits:
// a status is cut at kServiceStatusBytesMax and is one line.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "outrider/base/clock.h"
#include "outrider/base/result.h"

namespace outrider {

inline constexpr std::size_t kServiceStatusBytesMax = 512;
/// Longest pause between two beats; half of a shorter watchdog.
inline constexpr std::chrono::seconds kServiceBeatMax{5};

struct ServiceNotifySettings {
  std::string socket;  ///< A path, or a name that begins with "@"; empty: nobody wants to know.
  std::optional<std::chrono::microseconds> watchdog;

  /// From the environment that a service manager sets up. A watchdog meant for another process, or
  /// not a number, is none.
  static ServiceNotifySettings from_environment(
      const std::vector<std::pair<std::string, std::string>>& environment, long own_pid);
};

class ServiceNotify {
 public:
  /// Null when the settings name no socket.
  static Result<std::unique_ptr<ServiceNotify>> create(const ServiceNotifySettings& settings);
  ~ServiceNotify();
  ServiceNotify(const ServiceNotify&) = delete;
  ServiceNotify& operator=(const ServiceNotify&) = delete;

  /// Whether the next beat is due; the first one is at once.
  bool due(Now now) const { return now.mono >= next_beat_; }
  MonoTime deadline() const { return next_beat_; }

  /// READY=1 with the first, WATCHDOG=1 if one is set, STATUS= if it has changed.
  void beat(Now now, std::string_view status);

  /// STOPPING=1 goes with the next beat, which is due now.
  void stopping(Now now);

 private:
  ServiceNotify(int fd, std::string address, const ServiceNotifySettings& settings);
  bool send(const std::string& message) const;

  int fd_;
  std::string address_;  ///< Bytes of sun_path, an abstract name with its leading zero byte.
  bool watchdog_ = false;
  std::chrono::microseconds interval_ = kServiceBeatMax;
  MonoTime next_beat_{};
  bool ready_told_ = false;
  bool stopping_ = false;
  bool stopping_told_ = false;
  std::string status_told_;
};

}  // namespace outrider
