#include "app/check_config.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "app/exit_code.h"
#include "kafka/producer_config.h"
#include "outrider/config/secrets.h"
#include "outrider/route/record_mapper.h"
#include "postgres/conninfo.h"

namespace outrider {
namespace {

constexpr char kSomeBroker[] = "localhost:9092";

class PipelineChecker {
 public:
  explicit PipelineChecker(const PipelineConfig& config) : config_(config) {}

  PipelineCheck run() {
    rows();
    dsn();
    kafka();
    return std::move(check_);
  }

 private:
  void add(Result<> checked) {
    if (!checked) {
      check_.problems.push_back(std::move(checked).error());
    }
  }

  /// Nothing: its references are malformed, or what they stand for is not here.
  std::optional<std::string> resolved(const SecretText& secret, Result<std::string> value) {
    if (value) {
      return std::move(*value);
    }
    if (check_references(secret)) {
      check_.missing_secrets.push_back(std::move(value).error());
    } else {
      check_.problems.push_back(std::move(value).error());
    }
    return std::nullopt;
  }

  static Result<> map(const OutboxConfig& outbox, const RouteConfig& route) {
    OUTRIDER_TRY(make_record_mapper(outbox, route));
    return {};
  }

  // Each half with the other's defaults, so that one fault does not hide the other.
  void rows() {
    const std::size_t before = check_.problems.size();
    add(map(config_.outbox, {}));
    add(map({}, config_.route));
    if (check_.problems.size() == before) {
      add(map(config_.outbox, config_.route));
    }
  }

  void dsn() {
    const SecretText& dsn = config_.source.dsn;
    if (dsn.empty()) {
      return;
    }
    std::optional<std::string> conninfo = resolved(dsn, resolve_conninfo(dsn));
    if (!conninfo && !only_references(dsn.raw)) {
      if (auto stand_in = resolve_with_stand_ins(dsn)) {
        conninfo = std::move(*stand_in);
      }
    }
    if (conninfo) {
      if (auto parsed = connection_parameters(*conninfo, {}, 0); !parsed) {
        check_.problems.push_back(std::move(parsed).error());
      }
    }
  }

  std::string brokers() {
    const SecretText& servers = config_.kafka.bootstrap_servers;
    const std::optional<std::string> text = resolved(servers, resolve_secret(servers));
    // What is written out was judged with the place where it stands.
    if (text && *text != servers.raw) {
      if (auto checked = check_bootstrap_servers(*text); !checked) {
        Error error = std::move(checked).error();
        error.message = "kafka.bootstrap_servers: " + error.message;
        check_.problems.push_back(std::move(error));
      }
    }
    return text && !text->empty() ? *text : kSomeBroker;
  }

  // The client names the first property it refuses; without that one it names the next.
  void kafka() {
    ProducerSettings settings;
    settings.bootstrap_servers = brokers();
    for (const auto& [name, secret] : config_.kafka.properties) {
      if (std::optional<std::string> value = resolved(secret, resolve_secret(secret))) {
        settings.properties[name] = std::move(*value);
      }
    }
    settings.topics = config_.kafka.topics;
    settings.in_flight_records_max = config_.limits.in_flight_records_max;
    settings.in_flight_bytes_max = config_.limits.in_flight_bytes_max;
    for (;;) {
      auto checked = check_producer_settings(settings);
      if (checked) {
        return;
      }
      const std::string message = checked.error().message;
      check_.problems.push_back(std::move(checked).error());
      const auto culprit =
          std::find_if(settings.properties.begin(), settings.properties.end(),
                       [&](const auto& each) { return message.find(each.first) != message.npos; });
      if (culprit == settings.properties.end()) {
        return;
      }
      settings.properties.erase(culprit);
    }
  }

  const PipelineConfig& config_;
  PipelineCheck check_;
};

std::string named(const PipelineConfig& pipeline, const std::string& message) {
  return "pipeline \"" + pipeline.name + "\": " + message;
}

}  // namespace

PipelineCheck check_pipeline(const PipelineConfig& config) { return PipelineChecker(config).run(); }

int report_error(const Error& error) {
  std::fprintf(stderr, "outrider: %s%s%s%s\n", error.message.c_str(),
               error.code.empty() ? "" : (" (" + error.code + ")").c_str(),
               error.hint.empty() ? "" : "\n  hint: ", error.hint.c_str());
  return exit_code_of(error);
}

int check_config_command(const LoadRequest& request, bool print) {
  auto report = report_config(request);
  if (!report) {
    return report_error(report.error());
  }
  std::vector<std::string> lines = std::move(report->problems);
  std::size_t count = report->problem_count;
  std::size_t missing = 0;
  std::optional<Error> only;
  for (const PipelineConfig& pipeline : report->loaded.config.pipelines) {
    const PipelineCheck check = check_pipeline(pipeline);
    for (const Error& error : check.problems) {
      ++count;
      only = Error{error.kind, named(pipeline, error.message), error.hint, error.code};
      lines.push_back(only->message + (error.hint.empty() ? "" : "\n    hint: " + error.hint));
    }
    missing += check.missing_secrets.size();
    for (const Error& error : check.missing_secrets) {
      std::fprintf(stderr, "outrider: warning: %s, run would stop here\n  hint: %s\n",
                   named(pipeline, error.message).c_str(), error.hint.c_str());
    }
  }
  if (count == 1 && only) {
    return report_error(*only);
  }
  if (count > 0) {
    return report_error(problems_error(lines, count));
  }
  if (print) {
    std::fputs(effective_config_text(report->loaded).c_str(), stdout);
    return kExitOk;
  }
  std::printf("configuration is right: %zu pipeline(s)", report->loaded.config.pipelines.size());
  if (missing > 0) {
    std::printf(", but %zu secret(s) are not there", missing);
  }
  std::printf("\n");
  return kExitOk;
}

}  // namespace outrider
