// Topics of the demo on a real broker: made before, removed after. The mock cluster needs neither.
//
// Blocks up to ten seconds. An existing topic is taken as it is.
#pragma once

#include <string>
#include <vector>

#include "outrider/base/result.h"

namespace outrider::demo {

Result<> create_topics(const std::string& bootstrap_servers, const std::vector<std::string>& topics,
                       int partitions);

Result<> remove_topics(const std::string& bootstrap_servers,
                       const std::vector<std::string>& topics);

}  // namespace outrider::demo
