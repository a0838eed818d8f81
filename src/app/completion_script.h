// Shell completion, generated from the command line's own description.
//
// The scripts know every command and flag and call nothing; file names are completed by the shell.
// Pure. bash 4 and later without its completion package; zsh 5 and later.
#pragma once

#include <string>

#include "app/command_tree.h"

namespace outrider {

std::string bash_completion(const CommandTree& tree);
std::string zsh_completion(const CommandTree& tree);

}  // namespace outrider
