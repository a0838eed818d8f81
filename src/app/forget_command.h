// `outrider forget-position`: the next start adopts the slot as it is.
#pragma once

#include <string>

#include "outrider/base/result.h"
#include "outrider/config/load.h"

namespace outrider {

struct ForgetFlags {
  std::string pipeline;  ///< Needed if the configuration has several.
  std::string database;  ///< Empty: the one that source.dsn names.
};

/// Prints what was done.
Result<> forget_command(const LoadRequest& request, const ForgetFlags& flags);

}  // namespace outrider
