// What an operator reads about the options, made from the one table in src/config/options.cc.
//
// Pure functions of the table: no file is read, nothing can fail.
#pragma once

#include <string>

namespace outrider {

/// The whole of docs/CONFIGURATION.md; `outrider config-docs` prints it.
std::string configuration_markdown();

/// Every option with type, default and help for a terminal of 100 columns.
std::string options_help();

}  // namespace outrider
