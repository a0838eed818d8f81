// docs/METRICS.md, made from the families that a running relay registers.
//
// Pure: registers them in a registry of its own and reads them back, so that the page cannot tell
// of a metric that does not exist or leave one out.
#pragma once

#include <string>

namespace outrider {

/// The whole of docs/METRICS.md; `outrider metrics-docs` prints it.
std::string metrics_markdown();

}  // namespace outrider
