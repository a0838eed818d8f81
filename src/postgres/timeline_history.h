// The history of a timeline: where each of its ancestors ended.
//
// The server's answer to TIMELINE_HISTORY is a file of lines "timeline switch-point reason",
// separated by blanks or tabs, with comments behind "#" (server source: timeline.c). Pure; lines of
// another form are passed over.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "outrider/base/lsn.h"

namespace outrider {

std::map<std::uint32_t, Lsn> parse_timeline_history(std::string_view content);

}  // namespace outrider
