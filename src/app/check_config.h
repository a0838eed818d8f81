// `outrider check-config`: everything that is wrong with a configuration, told at once.
//
// Loads it and checks each pipeline as far as that goes without a connection. A secret that cannot
// be read here is a warning, since the machine that checks need not be the one that runs; the
// checks go on with a stand-in for it. Secrets are never shown.
#pragma once

#include <vector>

#include "outrider/base/result.h"
#include "outrider/config/config.h"
#include "outrider/config/load.h"

namespace outrider {

struct PipelineCheck {
  std::vector<Error> problems;
  std::vector<Error> missing_secrets;  ///< Variables and files that are not there.
};

/// What can be checked of a pipeline without a connection: patterns, table names, connection
/// string, brokers, client properties, secrets. Empty values are left to the loading.
PipelineCheck check_pipeline(const PipelineConfig& config);

/// The command; returns its exit code. `print`: show the effective values on standard output.
int check_config_command(const LoadRequest& request, bool print);

/// An error as every command tells it, on standard error; returns its exit code.
int report_error(const Error& error);

}  // namespace outrider
