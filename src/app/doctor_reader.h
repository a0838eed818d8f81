// read_input(): asks PostgreSQL and Kafka all that the checks of `outrider doctor` rest on.
//
// Reads only; what cannot be read is noted in the input and hides nothing else. Blocks: about a
// second where all is well, at most half a minute where nothing answers. Thread: its own command.
#pragma once

#include <string>
#include <vector>

#include "app/doctor_input.h"

namespace outrider {

struct DoctorFlags {
  std::string pipeline;             ///< Empty: every one.
  std::vector<std::string> topics;  ///< Of events, besides those that are known.
  bool json = false;
  bool list = false;
};

DoctorInput read_input(const Config& config, const PipelineConfig& pipeline,
                       const DoctorFlags& flags, std::vector<Error> problems);

/// The literal text that every routed topic begins with.
std::string topic_prefix(const RouteConfig& route);

}  // namespace outrider
