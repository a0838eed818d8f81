// CommandTree: the commands and flags of the command line as plain data.
//
// Read from CLI11's own description, so that completion and man page cannot miss a flag. Pure.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace outrider {

struct CommandOption {
  std::vector<std::string> names;  ///< "-c", "--config"; empty for a positional argument.
  std::string argument;            ///< What a positional argument is called.
  bool takes_value = false;
  bool is_path = false;  ///< Its value names a file.
  std::string help;
  std::string standard;  ///< The default, as text.
};

struct CommandTree {
  std::string name;
  std::string help;
  std::string footer;
  std::string group;
  std::vector<CommandOption> options;
  std::vector<CommandTree> commands;
};

CommandTree command_tree(const CLI::App& app);

}  // namespace outrider
