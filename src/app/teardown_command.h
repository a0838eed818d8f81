// `outrider teardown`: drop the slot and the publication of a pipeline, after asking.
//
// Refuses while somebody reads the slot. Says what goes with it (events not relayed are never
// relayed afterwards) and what stays: a slot that is left behind keeps WAL until the disk is full.
// Tables stay unless they are asked for; a dead-letter table that holds letters stays in any case.
// Blocks; a command of its own. Errors: configuration, with what to do first.
#pragma once

#include <string>

#include "outrider/base/result.h"
#include "outrider/config/load.h"

namespace outrider {

struct TeardownFlags {
  std::string dsn;
  std::string pipeline;
  std::string slot;  ///< Empty, like publication: the configuration's.
  std::string publication;
  bool yes = false;
  bool tables = false;
};

Result<> teardown_command(const LoadRequest& request, const TeardownFlags& flags);

}  // namespace outrider
