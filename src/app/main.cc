// main: the command line. Each command is a few lines here and a room elsewhere.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include <CLI/CLI.hpp>

#include "app/application.h"
#include "app/check_config.h"
#include "app/exit_code.h"
#include "app/init_command.h"
#include "app/metrics_docs.h"
#include "app/version.h"
#include "config/suggest.h"
#include "outrider/config/docs.h"
#include "outrider/config/load.h"
#ifdef OUTRIDER_DEMO
#include "demo/demo.h"
#endif

namespace outrider {
namespace {

constexpr char kDocumentation[] = "Documentation";

struct ConfigFlags {
  std::string path;
  std::vector<std::string> sets;
};

void add_config_flags(CLI::App& command, ConfigFlags& flags) {
  command.add_option("-c,--config", flags.path, "configuration file (YAML)");
  command.add_option("--set", flags.sets,
                     "one option, e.g. --set pipelines.0.source.slot=orders (may be repeated)");
}

LoadRequest request_of(const ConfigFlags& flags) {
  LoadRequest request;
  if (!flags.path.empty()) {
    request.path = flags.path;
  }
  request.environment = environment_of(environ);
  request.sets = flags.sets;
  return request;
}

int run_command(const ConfigFlags& flags, const RunRequest& request) {
  auto loaded = load_config(request_of(flags));
  if (!loaded) {
    return report_error(loaded.error());
  }
  Log log(loaded->config.log);
  SystemClock clock;
  auto app = Application::create(loaded->config, request, log, clock);
  if (!app) {
    return report_error(app.error());
  }
  const int code = (*app)->run();
  // The sockets close with the process; tearing down a producer whose broker is gone could block.
  std::fflush(nullptr);
  std::_Exit(code);
}

std::string exit_codes_text() {
  std::string text = "Exit codes:\n";
  for (const ExitCodeHelp& each : kExitCodes) {
    const std::string code = std::to_string(each.code);
    text +=
        "  " + code + std::string(code.size() < 5 ? 5 - code.size() : 1, ' ') + each.meaning + "\n";
  }
#ifdef OUTRIDER_DEMO
  text += "outrider demo also: 1 when something was not as it should be, 130 when interrupted\n";
#endif
  return text;
}

/// Everything the commands write their flags to; outlives the parsing.
struct CommandLine {
  ConfigFlags flags;
  RunRequest request;
  bool print = false;
  InitFlags init;
#ifdef OUTRIDER_DEMO
  DemoFlags demo;
#endif
  int code = kExitOk;
};

void add_run(CLI::App& app, CommandLine& line) {
  CLI::App* run = app.add_subcommand("run", "relay until stopped (SIGTERM: drain and confirm)");
  add_config_flags(*run, line.flags);
  run->add_flag("--dry-run", line.request.dry_run,
                "print records as JSON lines until interrupted; touch neither Kafka nor the slot's "
                "position (the slot must be free)");
  run->footer([] {
    return exit_codes_text() + "\nEvery option of the file and of --set: outrider options\n";
  });
  run->callback([&line] { line.code = run_command(line.flags, line.request); });
}

void add_check_config(CLI::App& app, CommandLine& line) {
  CLI::App* check = app.add_subcommand(
      "check-config", "check the configuration, connect to nothing (a missing secret: a warning)");
  add_config_flags(*check, line.flags);
  check->add_flag("--print", line.print, "show the effective values and where each came from");
  check->footer(
      "A variable or file that a secret refers to and that is not there is a warning here, since\n"
      "the machine that checks need not be the one that runs; run stops at it.\n");
  check->callback(
      [&line] { line.code = check_config_command(request_of(line.flags), line.print); });
}

void add_init(CLI::App& app, CommandLine& line) {
  CLI::App* init =
      app.add_subcommand("init", "print or apply the SQL that prepares a database for the relay");
  InitFlags& flags = line.init;
  add_config_flags(*init, line.flags);
  init->add_option("--dsn", flags.dsn,
                   "an administrator's connection (default: the pipeline's source.dsn)");
  init->add_option("--pipeline", flags.pipeline, "which one, if the file has several");
  init->add_option("--role", flags.role, "the relay's role; empty: make none")
      ->capture_default_str();
  init->add_option("--slot", flags.slot, "name of the slot, in place of source.slot");
  init->add_option("--publication", flags.publication, "in place of source.publication");
  init->add_option("--table", flags.tables,
                   "an outbox table, in place of outbox.tables (may be repeated)");
  init->add_flag("--apply", flags.apply, "run the statements instead of printing them");
  init->footer(
      "A configuration is not needed, or may be incomplete: init looks at source and "
      "outbox only.\n");
  init->callback([&line] {
    auto done = init_command(request_of(line.flags), line.init);
    line.code = done ? kExitOk : report_error(done.error());
  });
}

void add_page(CLI::App& app, const char* name, const char* help, std::string (*page)()) {
  CLI::App* command = app.add_subcommand(name, help);
  command->group(kDocumentation);
  command->callback([page] { std::fputs(page().c_str(), stdout); });
}

void add_commands(CLI::App& app, CommandLine& line) {
  add_run(app, line);
  add_check_config(app, line);
  add_init(app, line);
#ifdef OUTRIDER_DEMO
  CLI::App* demo = app.add_subcommand("demo", "show it all on a throw-away database and Kafka");
  demo->add_flag("--keep", line.demo.keep, "leave everything running at the end");
  demo->add_option("--kafka", line.demo.kafka, "use this broker (HOST:PORT) instead");
  demo->add_option("--dsn", line.demo.dsn, "use this database instead, in a schema of its own");
  demo->callback([&line] { line.code = run_demo(line.demo); });
#endif
  add_page(app, "options", "every configuration option, with type and default", options_help);
  add_page(app, "config-docs", "print docs/CONFIGURATION.md", configuration_markdown);
  add_page(app, "metrics-docs", "print docs/METRICS.md", metrics_markdown);
}

/// What CLI11 would call an unexpected argument, with what was probably meant.
std::optional<std::string> likely_mistake(CLI::App& app, int argc, char** argv) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
  }
  const std::string first = argc > 1 ? argv[1] : "";
  if (first.empty() || first.front() == '-') {
    return std::nullopt;
  }
  if (std::find(names.begin(), names.end(), first) == names.end()) {
    const std::string near = nearest(first, names);
    return "unknown command \"" + first + "\"; " +
           (near.empty() ? "see outrider --help" : "did you mean \"" + near + "\"?");
  }
  for (const std::string& rest : app.remaining(true)) {
    CLI::App* command = app.get_subcommand(first);
    if (!rest.empty() && rest.front() != '-' && command->get_option_no_throw("--config")) {
      return "\"" + rest + "\" is no flag of " + first + "; for a configuration write: outrider " +
             first + " -c " + rest;
    }
  }
  return std::nullopt;
}

int command_line(int argc, char** argv) {
  CLI::App app{"outrider: relays committed outbox rows from PostgreSQL to Kafka, in commit order"};
  app.set_version_flag("--version", std::string("outrider ") + kVersion);
  app.require_subcommand(1);
  app.footer(exit_codes_text);
  CommandLine line;
  add_commands(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      if (auto mistake = likely_mistake(app, argc, argv)) {
        std::fprintf(stderr, "outrider: %s\n", mistake->c_str());
        return kExitUsage;
      }
    }
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  return line.code;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) { return outrider::command_line(argc, argv); }
