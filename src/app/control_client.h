// The commands that talk to a running relay: `outrider status`, `pause`, `resume`, `dead-letters`.
//
// Find the socket (--socket, or control.socket of the configuration), send one request, show what
// comes back until the last line. A process of its own, so it may block; it gives up when the relay
// says nothing for kSilenceMax. Errors: printed with their hint; the exit code follows exit_code.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outrider/base/result.h"
#include "outrider/config/load.h"
#include "outrider/control/control_request.h"

namespace outrider {

/// A relay that is alive says something once a second while a command is under way.
inline constexpr std::chrono::seconds kSilenceMax{30};

/// What `dead-letters` takes, as it is typed.
struct LetterFlags {
  std::vector<std::string> numbers;
  std::vector<std::string> ids;
  std::string reason;
  std::string type;
  std::string aggregate_id;
  std::string key;
  std::string older_than;  ///< "90s", "10m", "2h", "7d"
  std::string topic;
  bool all = false;
  bool dry_run = false;
};

struct CommandFlags {
  std::string command;  ///< "dead-letters.list", as on the wire.
  std::string socket;
  std::string pipeline;
  bool json = false;
  LetterFlags letters;
};

/// Run the command; the exit code.
int control_command(const LoadRequest& request, const CommandFlags& flags);

/// What goes over the wire. Errors: a duration or a reason that is none.
Result<ControlArguments> control_arguments(const CommandFlags& flags);

/// "10m" in seconds; nothing if it is no duration or zero.
std::optional<std::int64_t> parse_age(std::string_view text);

/// The words --reason takes, with commas.
std::string letter_reasons();

}  // namespace outrider
