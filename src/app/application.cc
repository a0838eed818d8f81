#include "app/application.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include <unistd.h>

#include "app/version.h"
#include "outrider/config/load.h"

namespace outrider {
namespace {

std::string guarantees_of(const Config& config) {
  std::string text;
  for (const PipelineConfig& pipeline : config.pipelines) {
    const std::string_view one =
        pipeline.delivery.guarantee == Delivery::exactly_once ? "exactly once" : "at least once";
    if (text.find(one) == std::string::npos) {
      text += (text.empty() ? "" : ", ") + std::string(one);
    }
  }
  return text;
}

}  // namespace

Result<std::unique_ptr<Application>> Application::create(const Config& config,
                                                         const RunRequest& request, Log& log,
                                                         const Clock& clock) {
  std::unique_ptr<Application> app(new Application(log, clock));
  app->dry_run_ = request.dry_run;
  OUTRIDER_TRY(app->loop_, EventLoop::create());
  // HTTP first: /readyz gives its reason before the first connection is made.
  // A dry run has no port: it is run by hand, often beside the relay that has it.
  if (!config.http.listen.empty() && !request.dry_run) {
    OUTRIDER_TRY(app->http_, HttpEndpoint::create(*app->loop_, config.http.listen));
    app->add_routes();
  }
  for (const PipelineConfig& pipeline : config.pipelines) {
    OUTRIDER_TRY(auto made, Pipeline::create(*app->loop_, log, clock, pipeline,
                                             request.dry_run ? stdout : nullptr));
    app->metrics_.add(*made);
    app->pipelines_.push_back(std::move(made));
  }
  if (!config.control.socket.empty() && !request.dry_run) {
    OUTRIDER_TRY(app->open_control(config.control.socket));
  }
  if (!request.dry_run) {
    app->find_service_manager();
  }
  log.write(
      LogLevel::info, "outrider starts",
      {{"version", kVersion},
       {"pipelines", config.pipelines.size()},
       {"http_port", app->http_ ? std::to_string(app->http_->port()) : "off"},
       {"control_socket", app->control_ ? config.control.socket : "off"},
       {"delivery", request.dry_run ? "dry run, nothing is confirmed" : guarantees_of(config)}});
  return app;
}

Application::~Application() = default;

Result<> Application::open_control(const std::string& path) {
  OUTRIDER_TRY(control_, ControlServer::create(*loop_, path));
  std::vector<ControlTarget*> targets;
  for (const auto& pipeline : pipelines_) {
    targets.push_back(targets_.emplace_back(std::make_unique<PipelineTarget>(*pipeline)).get());
  }
  commands_ = std::make_unique<ControlCommands>(*control_, log_, std::move(targets));
  return {};
}

void Application::add_routes() {
  http_->add_route("/metrics", [this](const HttpRequest&) {
    return HttpResponse{200, std::string(kMetricsContentType), registry_.text()};
  });
  // Served by the loop itself: an answer is the proof that the loop turns. Outages do not change
  // it.
  http_->add_route("/livez", [](const HttpRequest&) {
    return HttpResponse{200, "text/plain; charset=utf-8", "ok\n"};
  });
  http_->add_route("/readyz", [this](const HttpRequest&) {
    bool ready = true;
    std::string body;
    for (const auto& pipeline : pipelines_) {
      Pipeline::Readiness readiness = pipeline->readiness();
      ready = ready && readiness.ready;
      body += pipeline->name() + ": " + (readiness.ready ? "ready: " : "not ready: ") +
              readiness.reason + "\n";
    }
    return HttpResponse{ready ? 200 : 503, "text/plain; charset=utf-8", body};
  });
}

bool Application::all_stopped() const {
  return std::all_of(pipelines_.begin(), pipelines_.end(), [](const auto& pipeline) {
    return pipeline->relay().phase() == Phase::stopped;
  });
}

bool Application::handle_signals(Now now) {
  EventLoop::Signals signals = loop_->take_signals();
  if (signals.reload > 0) {
    log_.write(LogLevel::info,
               "SIGHUP: nothing is reloaded yet; secrets are read again at every "
               "connect, everything else needs a restart");
  }
  if (signals.stop == 0) {
    return true;
  }
  stop_signals_ += signals.stop;
  if (stop_signals_ > 1) {
    log_.write(LogLevel::warn, "second signal: ending at once, duplicates are possible");
    return false;
  }
  log_.write(LogLevel::info,
             "stopping: reading to the end of the transaction, waiting for acknowledgements; a "
             "second signal ends at once");
  for (const auto& pipeline : pipelines_) {
    pipeline->relay().request_stop(now);
  }
  if (notify_) {
    notify_->stopping(now);
  }
  return true;
}

void Application::find_service_manager() {
  auto made = ServiceNotify::create(
      ServiceNotifySettings::from_environment(environment_of(environ), getpid()));
  if (made) {
    notify_ = std::move(*made);
  } else {
    log_.write(LogLevel::warn, made.error().message, {{"hint", made.error().hint}});
  }
}

void Application::tell_service_manager(Now now) {
  if (!notify_ || !notify_->due(now)) {
    return;
  }
  std::string status;
  for (const auto& pipeline : pipelines_) {
    status += (status.empty() ? "" : "; ") + pipeline->name() + ": " + pipeline->readiness().reason;
  }
  notify_->beat(now, status);
}

std::optional<MonoTime> Application::next_deadline(Now now) const {
  std::optional<MonoTime> earliest;
  auto consider = [&earliest](std::optional<MonoTime> time) {
    if (time && (!earliest || *time < *earliest)) {
      earliest = time;
    }
  };
  for (const auto& pipeline : pipelines_) {
    consider(pipeline->relay().deadline(now));
  }
  if (control_) {
    consider(control_->deadline());
    consider(commands_->deadline());
  }
  if (http_) {
    consider(http_->deadline());
  }
  if (notify_) {
    consider(notify_->deadline());
  }
  return earliest;
}

ExitCode Application::run() {
  const ExitCode code = turn_until_stopped();
  // The process ends without destructors, and the socket's file has to go.
  commands_.reset();
  control_.reset();
  return code;
}

ExitCode Application::turn_until_stopped() {
  Now now = clock_.now();
  bool errors_told = false;
  while (!all_stopped()) {
    loop_->wait(next_deadline(now));
    now = clock_.now();
    if (!handle_signals(now)) {
      return kExitUnconfirmed;
    }
    for (const auto& pipeline : pipelines_) {
      pipeline->turn(now);
      // One pipeline that has to stop takes the process with it: half a relay is not healthy, and
      // the supervisor sees exit codes, not pipelines.
      if (pipeline->relay().stop_error() && !errors_told) {
        errors_told = true;
        for (const auto& other : pipelines_) {
          other->relay().request_stop(now);
        }
      }
    }
    if (control_) {
      control_->drive(now);
      commands_->turn(now);
    }
    if (http_) {
      http_->drive(now);
    }
    tell_service_manager(now);
    const Now after = clock_.now();
    metrics_.observe_turn(now, after);
    now = after;
  }
  return verdict();
}

ExitCode Application::verdict() const {
  ExitCode code = kExitOk;
  std::optional<ExitCode> failed;
  for (const auto& pipeline : pipelines_) {
    const Relay& relay = pipeline->relay();
    if (relay.stop_error() && !failed) {
      failed = exit_code_of(*relay.stop_error());
    }
    if (!relay.confirmed_all()) {
      code = kExitUnconfirmed;
    }
    log_.write(relay.confirmed_all() ? LogLevel::info : LogLevel::warn, farewell(relay),
               {{"pipeline", pipeline->name()},
                {"slot", pipeline->config().source.slot},
                {"confirmed_lsn", relay.confirmed_lsn()},
                {"in_flight", relay.tracker().in_flight_records()},
                {dry_run_ ? "printed" : "published", relay.counters().acknowledged}});
  }
  return failed.value_or(code);
}

std::string_view Application::farewell(const Relay& relay) const {
  if (dry_run_) {
    return "dry run ended, nothing was published or confirmed";
  }
  if (relay.stop_error()) {
    return "stopped because of the error above";
  }
  if (!relay.ever_streamed()) {
    return "stopped, this process never held the slot";
  }
  return relay.confirmed_all() ? "stopped, everything confirmed"
                               : "stopped before everything was confirmed: nothing is lost, "
                                 "duplicates are possible after the next start";
}

}  // namespace outrider
