// The exit codes of every command, one table: --help and docs/OPERATIONS come from it.
//
// 64, 65, 69, 75 and 78 are sysexits(3)'s numbers for the same ideas.
#pragma once

#include <array>

#include "outrider/base/result.h"

namespace outrider {

enum ExitCode : int {
  kExitOk = 0,
  kExitChecksFailed = 1,
  kExitUsage = 64,
  kExitPoison = 65,
  kExitFatal = 69,
  kExitUnconfirmed = 75,
  kExitFenced = 76,
  kExitConfiguration = 78,
};

struct ExitCodeHelp {
  int code;
  const char* meaning;
};

inline constexpr std::array<ExitCodeHelp, 9> kExitCodes = {{
    {kExitOk, "done; after a stop: every record is acknowledged and its position confirmed"},
    {kExitChecksFailed, "doctor only: a check failed"},
    {kExitUsage, "the command line is wrong"},
    {kExitPoison, "a row cannot be decoded, routed or sent; nothing after it was confirmed"},
    {kExitFatal, "slot, catalogue or server state is wrong; an operator has to decide"},
    {kExitUnconfirmed,
     "stopped before everything was confirmed (limit reached, or a second signal): nothing is "
     "lost, duplicates are possible after the next start"},
    {kExitFenced,
     "exactly once: another relay took over the slot's transactions; restart it as a standby"},
    {kExitConfiguration, "a setting, a grant or an object has to be changed first"},
    {134, "a bug was caught (SIGABRT); a restart continues from the confirmed position"},
}};

/// librdkafka's name of the error that tells a producer it was fenced.
inline constexpr const char* kFencedCode = "_FENCED";

inline ExitCode exit_code_of(const Error& error) {
  if (error.code == kFencedCode) {
    return kExitFenced;
  }
  switch (error.kind) {
    case ErrorKind::configuration:
      return kExitConfiguration;
    case ErrorKind::poison:
      return kExitPoison;
    case ErrorKind::transient:
    case ErrorKind::fatal:
      return kExitFatal;
  }
  return kExitFatal;
}

}  // namespace outrider
