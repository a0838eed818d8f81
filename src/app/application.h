// Application: the process of `outrider run`. Builds the pipelines, turns the loop, ends with a
// code.
//
// Reads top-down as the block diagram of docs/ARCHITECTURE.md. A turn's order is fixed: signals,
// then each pipeline (Kafka's reports free space, then changes are pulled, then status), then the
// control socket, then HTTP.
// Thread: it is the loop thread. A second SIGTERM or SIGINT ends at once.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "app/control_commands.h"
#include "app/control_status.h"
#include "app/exit_code.h"
#include "app/pipeline.h"
#include "app/pipeline_metrics.h"
#include "outrider/config/config.h"
#include "outrider/control/control_server.h"
#include "outrider/loop/event_loop.h"
#include "outrider/observe/http_endpoint.h"
#include "outrider/observe/log.h"
#include "outrider/observe/metrics.h"
#include "outrider/observe/service_notify.h"

namespace outrider {

struct RunRequest {
  bool dry_run = false;
};

class Application {
 public:
  static Result<std::unique_ptr<Application>> create(const Config& config,
                                                     const RunRequest& request, Log& log,
                                                     const Clock& clock);
  ~Application();

  /// Until every pipeline has stopped or a second signal comes.
  ExitCode run();

 private:
  Application(Log& log, const Clock& clock)
      : log_(log), clock_(clock), metrics_(registry_, clock) {}

  Result<> open_control(const std::string& path);
  void add_routes();
  ExitCode turn_until_stopped();
  void find_service_manager();
  void tell_service_manager(Now now);
  bool all_stopped() const;
  bool handle_signals(Now now);
  std::optional<MonoTime> next_deadline(Now now) const;
  ExitCode verdict() const;
  std::string_view farewell(const Relay& relay) const;

  Log& log_;
  const Clock& clock_;
  MetricsRegistry registry_;
  PipelineMetrics metrics_;
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<HttpEndpoint> http_;
  std::vector<std::unique_ptr<Pipeline>> pipelines_;
  std::vector<std::unique_ptr<PipelineTarget>> targets_;
  std::unique_ptr<ControlServer> control_;
  std::unique_ptr<ControlCommands> commands_;
  std::unique_ptr<ServiceNotify> notify_;  ///< Null where no service manager wants to know.
  std::uint32_t stop_signals_ = 0;
  bool dry_run_ = false;
};

}  // namespace outrider
