// Notes for the operator: what the postgres room wants logged, without knowing the log.
//
// Thread: loop. Never holds a dsn, a secret or a payload.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "outrider/base/result.h"
#include "outrider/config/config.h"

namespace outrider {

struct SourceNote {
  LogLevel level = LogLevel::info;
  std::string message;
  std::vector<std::pair<std::string, std::string>> fields;
};

using NoteSink = std::function<void(const SourceNote&)>;

/// Yields the connection string with its secrets resolved; called at each connect.
using DsnProvider = std::function<Result<std::string>()>;

}  // namespace outrider
