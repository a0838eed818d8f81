// `outrider init`: print the SQL that prepares a database for the relay, or apply it.
//
// Printing connects only when a dsn is known, to learn the server's plugins and the database's
// name. Applying runs statement after statement on one connection and says what each did; every
// statement can be run twice. Blocks: it is a command of its own, not part of the loop.
#pragma once

#include <functional>
#include <string>

#include "outrider/base/result.h"
#include "outrider/config/load.h"

namespace outrider {

struct InitFlags {
  std::string dsn;
  std::string pipeline;
  std::string role = "outrider_relay";
  bool apply = false;
};

/// `load` null: no configuration, the defaults stand for everything.
Result<> init_command(const std::function<Result<LoadedConfig>()>& load, const InitFlags& flags);

}  // namespace outrider
