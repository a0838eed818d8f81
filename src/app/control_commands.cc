#include "app/control_commands.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "app/version.h"

namespace outrider {
namespace {

constexpr char kSeeHelp[] = "see outrider dead-letters --help";
constexpr std::size_t kValuesMax = 1'000;
constexpr std::int64_t kSecondsMax = 10LL * 365 * 24 * 3600;

struct CommandRow {
  std::string_view name;
  LetterCommand command;
};

constexpr std::array<CommandRow, 5> kLetterCommands = {{
    {"dead-letters.list", LetterCommand::list},
    {"dead-letters.show", LetterCommand::show},
    {"dead-letters.retry", LetterCommand::retry},
    {"dead-letters.discard", LetterCommand::discard},
    {"dead-letters.release", LetterCommand::release},
}};

tl::unexpected<Error> refused(std::string what) {
  return fail(ErrorKind::configuration, std::move(what), kSeeHelp);
}

Result<std::int64_t> whole_number(const std::string& name, const std::string& text,
                                  std::int64_t max) {
  std::int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [parsed, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc{} || parsed != end || number < 1 || number > max) {
    return refused("\"" + text + "\" is no " + name + ": a whole number from 1");
  }
  return number;
}

/// Writes each argument into its place in the order.
class OrderReader {
 public:
  OrderReader(LetterOrder& order, const ControlArguments& arguments)
      : order_(order), arguments_(arguments) {}

  Result<> read() {
    for (const auto& [name, values] : arguments_) {
      if (values.empty() || values.size() > kValuesMax) {
        return refused("argument \"" + name + "\" needs 1 to " + std::to_string(kValuesMax) +
                       " values");
      }
      OUTRIDER_TRY(argument(name, values));
    }
    return {};
  }
  bool all() const { return all_; }
  bool filtered() const { return filtered_; }

 private:
  Result<> argument(const std::string& name, const std::vector<std::string>& values) {
    DeadLetterFilter& filter = order_.filter;
    if (name == "pipeline") {
      return {};  // Was judged first.
    }
    if (name == "all" || name == "dry_run") {
      return flag(name == "all" ? all_ : order_.dry_run, name, values);
    }
    if (name == "topic") {
      return one(order_.topic, name, values);
    }
    filtered_ = true;
    if (name == "number") {
      for (const std::string& text : values) {
        OUTRIDER_TRY(filter.numbers.emplace_back(),
                     whole_number("number of a letter", text, INT64_MAX));
      }
      return {};
    }
    if (name == "id") {
      filter.event_ids = values;
      return {};
    }
    if (name == "older_than_s") {
      OUTRIDER_TRY(const std::int64_t seconds,
                   whole_number("number of seconds", values.front(), kSecondsMax));
      filter.older_than = std::chrono::seconds(seconds);
      return {};
    }
    if (name == "reason") {
      filter.reason = parse_dead_letter_reason(values.front());
      return filter.reason ? Result<>()
                           : Result<>(refused("\"" + values.front() + "\" is no reason"));
    }
    return text_filter(name, values);
  }

  Result<> text_filter(const std::string& name, const std::vector<std::string>& values) {
    DeadLetterFilter& filter = order_.filter;
    if (name == "type") {
      return one(filter.event_type, name, values);
    }
    if (name == "aggregate_id") {
      return one(filter.aggregate_id, name, values);
    }
    if (name == "key") {
      return one(filter.parked_key, name, values);
    }
    return refused("argument \"" + name + "\" is unknown");
  }

  static Result<> one(std::string& place, const std::string& name,
                      const std::vector<std::string>& values) {
    if (values.size() != 1 || values.front().empty()) {
      return refused("argument \"" + name + "\" needs one text");
    }
    place = values.front();
    return {};
  }

  static Result<> flag(bool& place, const std::string& name,
                       const std::vector<std::string>& values) {
    if (values.size() != 1 || (values.front() != "true" && values.front() != "false")) {
      return refused("argument \"" + name + "\" is true or false");
    }
    place = values.front() == "true";
    return {};
  }

  LetterOrder& order_;
  const ControlArguments& arguments_;
  bool all_ = false;
  bool filtered_ = false;
};

}  // namespace

std::optional<LetterCommand> letter_command_of(std::string_view name) {
  for (const CommandRow& row : kLetterCommands) {
    if (row.name == name) {
      return row.command;
    }
  }
  return std::nullopt;
}

Result<LetterOrder> letter_order_of(LetterCommand command, const ControlArguments& arguments) {
  LetterOrder order;
  order.command = command;
  OrderReader reader(order, arguments);
  OUTRIDER_TRY(reader.read());
  const bool changes = command == LetterCommand::retry || command == LetterCommand::discard;
  if (changes && !reader.filtered() && !reader.all()) {
    return fail(ErrorKind::configuration, "no letter is named",
                "give a filter, --number or --id, or --all for every letter of the pipeline");
  }
  if (changes && reader.filtered() && reader.all()) {
    return fail(ErrorKind::configuration, "--all and a filter contradict each other",
                "give one of the two");
  }
  if (command == LetterCommand::show && order.filter.numbers.size() != 1) {
    return refused("show needs the number of one letter");
  }
  if (command == LetterCommand::release && order.filter.parked_key.empty()) {
    return refused("release needs a key");
  }
  if (!order.topic.empty() && command != LetterCommand::retry) {
    return refused("only retry takes a topic");
  }
  return order;
}

ControlCommands::ControlCommands(ControlServer& server, Log& log,
                                 std::vector<ControlTarget*> targets)
    : server_(server), log_(log), targets_(std::move(targets)) {}

void ControlCommands::turn(Now now) {
  started_ = started_ ? started_ : now.mono;
  ControlRequest request;
  while (server_.take_request(request)) {
    const bool asks_only = request.command == "status" || request.command == "dead-letters.list" ||
                           request.command == "dead-letters.show";
    log_.write(asks_only ? LogLevel::debug : LogLevel::info, "command received",
               {{"command", request.command}, {"uid", request.uid}, {"pid", request.pid}});
    if (Result<> begun = begin(request, now); !begun) {
      server_.finish(request.session, control_error_line(begun.error()));
    }
  }
  std::set<const ControlTarget*> taken;
  running_.remove_if([&](Running& each) {
    const bool reads = each.job->reads();
    const bool at_place = !reads || taken.insert(each.target).second;
    return each.job->step(at_place, now);
  });
}

std::optional<MonoTime> ControlCommands::deadline() const {
  std::optional<MonoTime> due;
  for (const Running& each : running_) {
    due = due ? std::min(*due, each.job->deadline()) : each.job->deadline();
  }
  return due;
}

Result<> ControlCommands::begin(const ControlRequest& request, Now now) {
  if (const std::optional<LetterCommand> command = letter_command_of(request.command)) {
    return begin_letters(request, *command, now);
  }
  const bool sets = request.command == "pause" || request.command == "resume";
  if (!sets && request.command != "status") {
    return fail(ErrorKind::configuration, "this relay has no command \"" + request.command + "\"",
                "use the outrider of the same version as the running relay");
  }
  OUTRIDER_TRY(const std::vector<ControlTarget*> targets, targets_of(request));
  for (const auto& [name, values] : request.arguments) {
    if (name != "pipeline") {
      return refused("argument \"" + name + "\" is unknown");
    }
  }
  if (sets) {
    set_paused(request, targets, now);
  } else {
    status(request, targets, now);
  }
  return {};
}

void ControlCommands::status(const ControlRequest& request,
                             const std::vector<ControlTarget*>& targets, Now now) {
  JsonWriter json;
  json.open_object().name("result").open_object();
  json.name("version").text(kVersion).name("pid").number(std::int64_t{getpid()});
  json.name("uptime_s")
      .number(std::int64_t{
          std::chrono::duration_cast<std::chrono::seconds>(now.mono - *started_).count()});
  json.name("pipelines").open_array();
  for (const ControlTarget* target : targets) {
    target->append_status(json, now);
  }
  json.close_array().close_object().close_object();
  server_.finish(request.session, json.json());
}

void ControlCommands::set_paused(const ControlRequest& request,
                                 const std::vector<ControlTarget*>& targets, Now now) {
  const bool paused = request.command == "pause";
  JsonWriter json;
  json.open_object().name("result").open_object().name("pipelines").open_array();
  for (ControlTarget* target : targets) {
    paused ? target->pause(now) : target->resume(now);
    log_.write(LogLevel::warn,
               paused ? "paused by an operator: no row is taken until outrider resume"
                      : "resumed by an operator",
               {{"pipeline", target->name()}, {"uid", request.uid}});
    json.open_object().name("name").text(target->name());
    json.name("paused_by_operator").boolean(paused).close_object();
  }
  json.close_array().close_object().close_object();
  server_.finish(request.session, json.json());
}

Result<> ControlCommands::begin_letters(const ControlRequest& request, LetterCommand command,
                                        Now now) {
  OUTRIDER_TRY(LetterOrder order, letter_order_of(command, request.arguments));
  OUTRIDER_TRY(const std::vector<ControlTarget*> targets, targets_of(request));
  if (targets.size() != 1) {
    return fail(ErrorKind::configuration, "there are several pipelines: " + names(),
                "name one with --pipeline");
  }
  ControlTarget& target = *targets.front();
  if (target.letters() == nullptr) {
    return fail(target.no_letters());
  }
  if (!target.letters()->ready()) {
    const std::string trouble = target.letters()->trouble();
    return fail(ErrorKind::transient,
                "the dead letters cannot be read yet" + (trouble.empty() ? "" : ": " + trouble),
                "ask the relay that holds the slot, or wait until this one is ready");
  }
  running_.push_back(
      {&target, make_letter_job(server_, request.session, target, std::move(order), now)});
  return {};
}

Result<std::vector<ControlTarget*>> ControlCommands::targets_of(
    const ControlRequest& request) const {
  const auto wanted = request.arguments.find("pipeline");
  if (wanted == request.arguments.end()) {
    return targets_;
  }
  if (wanted->second.size() != 1) {
    return refused("argument \"pipeline\" needs one name");
  }
  for (ControlTarget* target : targets_) {
    if (target->name() == wanted->second.front()) {
      return std::vector<ControlTarget*>{target};
    }
  }
  return fail(ErrorKind::configuration,
              "there is no pipeline named \"" + wanted->second.front() + "\"",
              "this relay has: " + names());
}

std::string ControlCommands::names() const {
  std::string text;
  for (const ControlTarget* target : targets_) {
    text += (text.empty() ? "" : ", ") + target->name();
  }
  return text;
}

}  // namespace outrider
