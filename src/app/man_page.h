// The man page outrider(1), generated from the command line's own description.
//
// troff with the man macros, ASCII only. Pure.
#pragma once

#include <string>

#include "app/command_tree.h"

namespace outrider {

/// The version stands in the page's foot.
std::string man_page(const CommandTree& tree, const std::string& version);

}  // namespace outrider
