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
#include "app/command_tree.h"
#include "app/completion_script.h"
#include "app/control_client.h"
#include "app/doctor_command.h"
#include "app/exit_code.h"
#include "app/forget_command.h"
#include "app/init_command.h"
#include "app/man_page.h"
#include "app/metrics_docs.h"
#include "app/teardown_command.h"
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
  ForgetFlags forget;
  DoctorFlags doctor;
  TeardownFlags teardown;
  CommandFlags control;
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
  init->add_flag(
      "--upgrade", flags.upgrade,
      "only bring Outrider's own schema to this release's version (prints; --apply runs)");
  init->footer(
      "A configuration is not needed, or may be incomplete: init looks at source and "
      "outbox only.\n");
  init->callback([&line] {
    auto done = init_command(request_of(line.flags), line.init);
    line.code = done ? kExitOk : report_error(done.error());
  });
}

void add_doctor(CLI::App& app, CommandLine& line) {
  CLI::App* doctor = app.add_subcommand(
      "doctor", "check server, slot, tables, brokers and topics, and say what repairs them");
  DoctorFlags& flags = line.doctor;
  add_config_flags(*doctor, line.flags);
  doctor->add_option("--pipeline", flags.pipeline, "this one only, if the file has several");
  doctor->add_option("--topic", flags.topics,
                     "a topic that rows go to, to be looked at as well (may be repeated)");
  doctor->add_flag("--json", flags.json, "one JSON object a pipeline in place of text for people");
  doctor->add_flag("--list", flags.list, "only name the checks; asks nobody");
  doctor->footer(
      "Changes nothing on any server. Exit code 0: nothing failed (there may be warnings). 1: a\n"
      "check failed; each says what to run. 78: the configuration cannot be read at all.\n");
  doctor->callback([&line] { line.code = doctor_command(request_of(line.flags), line.doctor); });
}

void add_teardown(CLI::App& app, CommandLine& line) {
  CLI::App* teardown = app.add_subcommand(
      "teardown", "drop the slot and the publication, after asking; the relay has to be stopped");
  TeardownFlags& flags = line.teardown;
  add_config_flags(*teardown, line.flags);
  teardown->add_option("--dsn", flags.dsn,
                       "an administrator's connection (default: the pipeline's source.dsn)");
  teardown->add_option("--pipeline", flags.pipeline, "which one, if the file has several");
  teardown->add_option("--slot", flags.slot, "name of the slot, in place of source.slot");
  teardown->add_option("--publication", flags.publication, "in place of source.publication");
  teardown->add_flag("--tables", flags.tables,
                     "also drop the outbox tables, and the dead-letter table if it is empty");
  teardown->add_flag("--yes", flags.yes, "do not ask");
  teardown->footer(
      "A slot that is left behind keeps WAL until the disk is full: removing the program does not\n"
      "remove it. Events that were not relayed yet are never relayed once the slot is gone.\n");
  teardown->callback([&line] {
    auto done = teardown_command(request_of(line.flags), line.teardown);
    line.code = done ? kExitOk : report_error(done.error());
  });
}

void add_forget(CLI::App& app, CommandLine& line) {
  CLI::App* forget = app.add_subcommand("forget-position",
                                        "after a planned move (pg_upgrade, another cluster): the "
                                        "next start adopts the slot as it is");
  add_config_flags(*forget, line.flags);
  forget->add_option("--pipeline", line.forget.pipeline, "which one, if the file has several");
  forget->add_option("--database", line.forget.database,
                     "the database's name (default: as source.dsn says)");
  forget->footer(
      "Removes what Kafka knows about the slot's position. Stop the relay first; do it only when\n"
      "you know why slot and position disagree: the relay cannot tell a gap from a move "
      "afterwards.\n");
  forget->callback([&line] {
    auto done = forget_command(request_of(line.flags), line.forget);
    line.code = done ? kExitOk : report_error(done.error());
  });
}

constexpr char kRunning[] = "A running relay";

CLI::App* add_control(CLI::App& parent, CommandLine& line, const char* name, const char* help,
                      const std::string& command) {
  CLI::App* added = parent.add_subcommand(name, help);
  add_config_flags(*added, line.flags);
  CommandFlags& flags = line.control;
  added->add_option("--socket", flags.socket,
                    "the relay's control socket (default: control.socket of the configuration)");
  added->add_option("--pipeline", flags.pipeline, "which one, if the relay has several");
  added->add_flag("--json", flags.json, "JSON lines for programs in place of text for people");
  added->callback([&line, command] {
    line.control.command = command;
    line.code = control_command(request_of(line.flags), line.control);
  });
  return added;
}

void add_filters(CLI::App& command, LetterFlags& flags) {
  command.add_option("--number", flags.numbers, "a letter by its number (may be repeated)");
  command.add_option("--id", flags.ids, "letters of this event id (may be repeated)");
  command.add_option("--reason", flags.reason, "one of " + letter_reasons());
  command.add_option("--type", flags.type, "letters of this event type");
  command.add_option("--aggregate-id", flags.aggregate_id, "letters of this aggregate");
  command.add_option("--key", flags.key, "letters that wait behind this parked key");
  command.add_option("--older-than", flags.older_than,
                     "last failed at least so long ago: 90s, 10m, 2h, 7d");
}

void add_dry_run(CLI::App& command, LetterFlags& flags) {
  command.add_flag("--dry-run", flags.dry_run, "list the letters meant and change nothing");
}

void add_dead_letters(CLI::App& app, CommandLine& line) {
  CLI::App* group = app.add_subcommand(
      "dead-letters", "list, send again or remove the rows that could not be sent");
  group->group(kRunning);
  group->require_subcommand(1);
  LetterFlags& flags = line.control.letters;
  CLI::App* list =
      add_control(*group, line, "list", "one line a letter, without payload", "dead-letters.list");
  add_filters(*list, flags);
  CLI::App* show =
      add_control(*group, line, "show", "one letter with headers and payload", "dead-letters.show");
  show->add_option("NUMBER", flags.numbers, "the letter's number")->required()->expected(1);
  CLI::App* retry = add_control(*group, line, "retry", "send letters again, in the order they came",
                                "dead-letters.retry");
  add_filters(*retry, flags);
  add_dry_run(*retry, flags);
  retry->add_flag("--all", flags.all, "every letter of the pipeline");
  retry->add_option("--topic", flags.topic, "send to this topic in place of their own");
  CLI::App* discard =
      add_control(*group, line, "discard", "remove letters for good", "dead-letters.discard");
  add_filters(*discard, flags);
  add_dry_run(*discard, flags);
  discard->add_flag("--all", flags.all, "every letter of the pipeline");
  CLI::App* release = add_control(*group, line, "release",
                                  "send all letters of a parked key, then let its rows go on",
                                  "dead-letters.release");
  release->add_option("KEY", flags.key, "the parked key")->required()->expected(1);
  add_dry_run(*release, flags);
  for (CLI::App* changing : {retry, release}) {
    changing->footer("Exit code 65 when a letter was refused again; it stays a dead letter.\n");
  }
}

void add_running(CLI::App& app, CommandLine& line) {
  add_control(app, line, "status", "what a running relay does, by pipeline", "status")
      ->group(kRunning);
  add_control(app, line, "pause",
              "take no more rows; acknowledgements and retries go on, WAL is kept", "pause")
      ->group(kRunning);
  add_control(app, line, "resume", "go on after pause", "resume")->group(kRunning);
  add_dead_letters(app, line);
}

void add_page(CLI::App& app, const char* name, const char* help, std::string (*page)()) {
  CLI::App* command = app.add_subcommand(name, help);
  command->group(kDocumentation);
  command->callback([page] { std::fputs(page().c_str(), stdout); });
}

/// Made from the finished command line, so these come last.
void add_generated(CLI::App& app) {
  CLI::App* completion =
      app.add_subcommand("completion", "print the completion script of a shell: bash or zsh");
  completion->group(kDocumentation);
  completion->require_subcommand(1);
  completion->add_subcommand("bash", "for bash")->callback([&app] {
    std::fputs(bash_completion(command_tree(app)).c_str(), stdout);
  });
  completion->add_subcommand("zsh", "for zsh")->callback([&app] {
    std::fputs(zsh_completion(command_tree(app)).c_str(), stdout);
  });
  CLI::App* man = app.add_subcommand("man", "print the man page outrider(1)");
  man->group(kDocumentation);
  man->callback([&app] { std::fputs(man_page(command_tree(app), kVersion).c_str(), stdout); });
}

void add_commands(CLI::App& app, CommandLine& line) {
  add_run(app, line);
  add_check_config(app, line);
  add_init(app, line);
  add_doctor(app, line);
  add_teardown(app, line);
  add_forget(app, line);
  add_running(app, line);
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
  add_generated(app);
}

/// The word is no command of this one; says so, with what was probably meant.
std::optional<std::string> unknown_word(CLI::App& app, const std::string& word,
                                        const std::string& help) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) {
    names.push_back(command->get_name());
  }
  if (names.empty() || std::find(names.begin(), names.end(), word) != names.end()) {
    return std::nullopt;
  }
  const std::string near = nearest(word, names);
  return "unknown command \"" + word + "\"; " +
         (near.empty() ? "see " + help + " --help" : "did you mean \"" + near + "\"?");
}

/// What CLI11 would call an unexpected argument, with what was probably meant.
std::optional<std::string> likely_mistake(CLI::App& app, int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first.empty() || first.front() == '-') {
    return std::nullopt;
  }
  if (auto unknown = unknown_word(app, first, "outrider")) {
    return unknown;
  }
  const std::string second = argc > 2 ? argv[2] : "";
  if (!second.empty() && second.front() != '-') {
    if (auto unknown = unknown_word(*app.get_subcommand(first), second, "outrider " + first)) {
      return unknown;
    }
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
  CLI::App app{"outrider: relays committed outbox rows from PostgreSQL to Kafka, in commit order",
               "outrider"};
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
