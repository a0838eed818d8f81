// ControlCommands: carries out what comes over the control socket, a piece a turn.
//
// Commands: status, pause, resume, dead-letters.list|show|retry|discard|release; the arguments and
// answers of each are in docs/adr/0016-control-socket.md. Owns the jobs under way, bounded by the
// server's clients. Server, log and targets outlive it. Thread: loop. Errors: told to the client.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/control_target.h"
#include "app/letter_jobs.h"
#include "outrider/control/control_server.h"
#include "outrider/observe/log.h"

namespace outrider {

class ControlCommands {
 public:
  ControlCommands(ControlServer& server, Log& log, std::vector<ControlTarget*> targets);

  /// Take new requests and go on with what is under way. Each turn, after the server's drive().
  void turn(Now now);

  /// When turn() is due even if no descriptor becomes ready.
  std::optional<MonoTime> deadline() const;

 private:
  struct Running {
    ControlTarget* target;
    std::unique_ptr<LetterJob> job;
  };

  Result<> begin(const ControlRequest& request, Now now);
  void status(const ControlRequest& request, const std::vector<ControlTarget*>& targets, Now now);
  void set_paused(const ControlRequest& request, const std::vector<ControlTarget*>& targets,
                  Now now);
  Result<> begin_letters(const ControlRequest& request, LetterCommand command, Now now);
  Result<std::vector<ControlTarget*>> targets_of(const ControlRequest& request) const;
  std::string names() const;

  ControlServer& server_;
  Log& log_;
  std::vector<ControlTarget*> targets_;
  std::list<Running> running_;
  std::optional<MonoTime> started_;
};

/// "dead-letters.list" and the like; nothing for other commands.
std::optional<LetterCommand> letter_command_of(std::string_view name);

/// The letters a command means. Errors: an argument that is unknown or makes no sense.
Result<LetterOrder> letter_order_of(LetterCommand command, const ControlArguments& arguments);

}  // namespace outrider
