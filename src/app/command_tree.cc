#include "app/command_tree.h"

#include <algorithm>
#include <array>

#include <CLI/CLI.hpp>

namespace outrider {
namespace {

CommandOption option_of(const CLI::Option& option) {
  CommandOption out;
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  if (out.names.empty()) out.argument = option.get_name();
  out.takes_value = option.get_items_expected_max() > 0;
  constexpr std::array<const char*, 2> kPaths = {"--config", "--socket"};
  out.is_path = std::any_of(kPaths.begin(), kPaths.end(), [&](const char* path) {
    return std::find(out.names.begin(), out.names.end(), path) != out.names.end();
  });
  out.help = option.get_description();
  out.standard = option.get_default_str();
  return out;
}

}  // namespace

CommandTree command_tree(const CLI::App& app) {
  CommandTree tree;
  tree.name = app.get_name();
  tree.help = app.get_description();
  tree.footer = app.get_footer();
  tree.group = app.get_group();
  for (const CLI::Option* option : app.get_options({})) tree.options.push_back(option_of(*option));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    tree.commands.push_back(command_tree(*command));
  }
  return tree;
}

}  // namespace outrider
