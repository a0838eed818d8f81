// RelayProcess: the relay that the demo shows, `outrider run` of this very program as a child.
//
// Owns the process and remembers the peak memory of those before it. Its configuration and its log
// are files in the demo's directory, which must outlive it.
#pragma once

#include <cstdint>
#include <string>

#include "demo/child_process.h"
#include "demo/scratch_directory.h"
#include "outrider/base/result.h"

namespace outrider::demo {

/// Where the demo's relay keeps its position; removed with the other topics.
inline constexpr const char* kPositionTopic = "outrider-demo.positions";

struct RelaySettings {
  std::string dsn;
  bool dsn_is_secret = false;  ///< Then it goes through the environment, not into the file.
  std::string bootstrap_servers;
  std::string name;          ///< Of the slot and the publication.
  std::string table;         ///< The outbox table.
  std::string topic_prefix;  ///< Before the event type.
  int http_port = 0;
};

/// The configuration file of a relay with these settings.
std::string relay_configuration(const RelaySettings& settings);

struct Memory {
  std::int64_t resident_kb = 0;
  std::int64_t peak_kb = 0;
};

/// VmRSS and VmHWM of a /proc/PID/status; zeros where a line is missing.
Memory memory_in_status(const std::string& status);

class RelayProcess {
 public:
  /// Write the configuration and start.
  Result<> start(const ScratchDirectory& directory, const RelaySettings& settings);

  /// Start again with the same configuration.
  Result<> restart();

  pid_t pid() const { return process_.pid(); }
  const std::string& config_path() const { return config_path_; }
  bool running() { return process_.running(); }

  /// Nothing while it runs; else why it ended, with the end of its log.
  Result<> check_running();

  /// The end of its log, for a failure that is not its end.
  std::string end_of_log() const;

  Memory memory();
  /// The highest of all processes there were.
  std::int64_t peak_kb();

  /// kill -9.
  void kill();
  /// SIGTERM, then SIGKILL.
  void stop();

 private:
  ChildProcess process_;
  ChildCommand command_;
  std::string config_path_;
  std::int64_t peak_kb_ = 0;
};

}  // namespace outrider::demo
