// main: the command line. Each command is a few lines here and a room elsewhere.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "app/application.h"
#include "app/exit_code.h"
#include "app/init_command.h"
#include "app/version.h"
#include "outrider/config/docs.h"
#include "outrider/config/load.h"
#ifdef OUTRIDER_DEMO
#include "demo/demo.h"
#endif

namespace outrider {
namespace {

struct ConfigFlags {
  std::string path;
  std::vector<std::string> sets;
};

void add_config_flags(CLI::App& command, ConfigFlags& flags) {
  command.add_option("-c,--config", flags.path, "configuration file (YAML)");
  command.add_option("--set", flags.sets,
                     "one option, e.g. --set pipelines.0.source.slot=orders (may be repeated)");
}

Result<LoadedConfig> load(const ConfigFlags& flags) {
  LoadRequest request;
  if (!flags.path.empty()) {
    request.path = flags.path;
  }
  request.environment = environment_of(environ);
  request.sets = flags.sets;
  return load_config(request);
}

int report(const Error& error) {
  std::fprintf(stderr, "outrider: %s%s%s%s\n", error.message.c_str(),
               error.code.empty() ? "" : (" (" + error.code + ")").c_str(),
               error.hint.empty() ? "" : "\n  hint: ", error.hint.c_str());
  return exit_code_of(error.kind);
}

int run_command(const ConfigFlags& flags, const RunRequest& request) {
  auto loaded = load(flags);
  if (!loaded) {
    return report(loaded.error());
  }
  Log log(loaded->config.log);
  SystemClock clock;
  auto app = Application::create(loaded->config, request, log, clock);
  if (!app) {
    return report(app.error());
  }
  const int code = (*app)->run();
  // The sockets close with the process; tearing down a producer whose broker is gone could block.
  std::fflush(nullptr);
  std::_Exit(code);
}

int check_config_command(const ConfigFlags& flags, bool print) {
  auto loaded = load(flags);
  if (!loaded) {
    return report(loaded.error());
  }
  for (const PipelineConfig& pipeline : loaded->config.pipelines) {
    if (auto checked = check_pipeline(pipeline); !checked) {
      std::fprintf(stderr, "outrider: pipeline \"%s\": ", pipeline.name.c_str());
      return report(checked.error());
    }
  }
  if (print) {
    std::fputs(effective_config_text(*loaded).c_str(), stdout);
  } else {
    std::printf("configuration is right: %zu pipeline(s)\n", loaded->config.pipelines.size());
  }
  return kExitOk;
}

std::string exit_codes_text() {
  std::string text = "Exit codes:\n";
  for (const ExitCodeHelp& row : kExitCodes) {
    text += "  " + std::to_string(row.code) +
            std::string(row.code < 10    ? 4
                        : row.code < 100 ? 3
                                         : 2,
                        ' ') +
            row.meaning + "\n";
  }
  return text;
}

int command_line(int argc, char** argv) {
  CLI::App app{"outrider: relays committed outbox rows from PostgreSQL to Kafka, in commit order"};
  app.set_version_flag("--version", std::string("outrider ") + kVersion);
  app.require_subcommand(1);
  app.footer(exit_codes_text);
  int code = kExitOk;

  ConfigFlags flags;
  RunRequest request;
  CLI::App* run = app.add_subcommand("run", "relay until stopped (SIGTERM: drain and confirm)");
  add_config_flags(*run, flags);
  run->add_flag("--dry-run", request.dry_run,
                "print records as JSON lines; touch neither Kafka nor the slot's position");
  run->footer([] { return "\n" + options_help() + "\n" + exit_codes_text(); });
  run->callback([&] { code = run_command(flags, request); });

  bool print = false;
  CLI::App* check =
      app.add_subcommand("check-config", "check the configuration, connect to nothing");
  add_config_flags(*check, flags);
  check->add_flag("--print", print, "show the effective values and where each came from");
  check->callback([&] { code = check_config_command(flags, print); });

  InitFlags init_flags;
  CLI::App* init =
      app.add_subcommand("init", "print or apply the SQL that prepares a database for the relay");
  add_config_flags(*init, flags);
  init->add_option("--dsn", init_flags.dsn, "connect here (default: the pipeline's source.dsn)");
  init->add_option("--pipeline", init_flags.pipeline, "which one, if the file has several");
  init->add_option("--role", init_flags.role, "the relay's role; empty: make none");
  init->add_flag("--apply", init_flags.apply, "run the statements instead of printing them");
  init->callback([&] {
    std::function<Result<LoadedConfig>()> loader;
    if (!flags.path.empty() || !flags.sets.empty()) {
      loader = [&flags] { return load(flags); };
    }
    auto done = init_command(loader, init_flags);
    code = done ? kExitOk : report(done.error());
  });

  CLI::App* docs = app.add_subcommand("config-docs", "print docs/CONFIGURATION.md");
  docs->group("");
  docs->callback([] { std::fputs(configuration_markdown().c_str(), stdout); });

#ifdef OUTRIDER_DEMO
  DemoFlags demo_flags;
  CLI::App* demo = app.add_subcommand("demo", "show it all on a throw-away database and Kafka");
  demo->add_flag("--keep", demo_flags.keep, "leave everything running at the end");
  demo->add_option("--kafka", demo_flags.kafka, "use this broker (HOST:PORT) instead");
  demo->add_option("--dsn", demo_flags.dsn, "use this database instead, in a schema of its own");
  demo->callback([&] { code = run_demo(demo_flags); });
#endif

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return code;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) { return outrider::command_line(argc, argv); }
