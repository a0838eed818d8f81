// `outrider init`: print the SQL that prepares a database for the relay, or apply it.
//
// Printing connects only when a dsn is known, to learn the server's plugins and the database's
// name. Applying looks first what is there and whether the rest can be done at all, then runs
// statement after statement on one connection and says what each did. Blocks: it is a command of
// its own, not part of the loop.
#pragma once

#include <string>
#include <vector>

#include "outrider/base/result.h"
#include "outrider/config/load.h"

namespace outrider {

struct InitFlags {
  std::string dsn;
  std::string pipeline;
  std::string role = "outrider_relay";
  std::string slot;  ///< Empty, like publication and tables: the configuration's.
  std::string publication;
  std::vector<std::string> tables;
  bool apply = false;
  bool upgrade = false;  ///< Of Outrider's own schema, instead of all the rest.
};

/// The configuration may be incomplete or not there: the defaults stand for what is missing.
Result<> init_command(const LoadRequest& request, const InitFlags& flags);

/// The pipeline that is meant, with the names of the flags in place of its own.
Result<PipelineConfig> choose_pipeline(LoadRequest request, const InitFlags& flags);

}  // namespace outrider
