#include "app/completion_script.h"

#include <algorithm>
#include <vector>

namespace outrider {
namespace {

/// One command with the words that lead to it.
struct Place {
  std::string path;  ///< "", "dead-letters", "dead-letters retry".
  const CommandTree* command = nullptr;
};

void collect(const CommandTree& command, const std::string& path, std::vector<Place>& places) {
  places.push_back({path, &command});
  for (const CommandTree& each : command.commands) {
    collect(each, path.empty() ? each.name : path + " " + each.name, places);
  }
}

std::vector<Place> places_of(const CommandTree& tree) {
  std::vector<Place> places;
  collect(tree, {}, places);
  return places;
}

std::string words_of(const CommandTree& command) {
  std::string words;
  for (const CommandTree& each : command.commands) words += (words.empty() ? "" : " ") + each.name;
  for (const CommandOption& option : command.options) {
    for (const std::string& name : option.names) words += (words.empty() ? "" : " ") + name;
  }
  return words;
}

/// "-c|--config" of the flags that take a value; `paths`: only those of files, or only the others.
std::string value_flags(const CommandTree& tree, bool paths) {
  std::vector<std::string> names;
  for (const Place& place : places_of(tree)) {
    for (const CommandOption& option : place.command->options) {
      if (!option.takes_value || option.is_path != paths) continue;
      for (const std::string& name : option.names) {
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
      }
    }
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : "|") + name;
  return text;
}

/// Text within single quotes, and without what _arguments and _describe read as their own.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c == ':' || c == '[' || c == ']') {
      out += std::string("\\") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string function_name(const std::string& path) {
  std::string name = "_outrider";
  for (const char c : path.empty() ? path : "_" + path) name += c == ' ' || c == '-' ? '_' : c;
  return name;
}

std::string zsh_option(const CommandOption& option) {
  const std::string value = !option.takes_value ? "" : option.is_path ? ":file:_files" : ":value:";
  if (option.names.empty()) return " \\\n    '*:" + zsh_text(option.argument) + ":'";
  std::string lines;
  for (const std::string& name : option.names) {
    lines += " \\\n    '*" + name + "[" + zsh_text(option.help) + "]" + value + "'";
  }
  return lines;
}

std::string zsh_function(const Place& place) {
  const CommandTree& command = *place.command;
  std::string text = function_name(place.path) + "() {\n";
  if (command.commands.empty()) {
    text += "  _arguments -S";
    for (const CommandOption& option : command.options) text += zsh_option(option);
    return text + "\n}\n\n";
  }
  text += "  local context state line\n  _arguments -C";
  for (const CommandOption& option : command.options) text += zsh_option(option);
  text +=
      " \\\n    '1:command:->command' '*::argument:->argument'\n  case $state in\n"
      "    command)\n      local -a commands=(\n";
  for (const CommandTree& each : command.commands) {
    text += "        '" + each.name + ":" + zsh_text(each.help) + "'\n";
  }
  text += "      )\n      _describe command commands ;;\n    argument)\n      case $line[1] in\n";
  for (const CommandTree& each : command.commands) {
    const std::string path = place.path.empty() ? each.name : place.path + " " + each.name;
    text += "        " + each.name + ") " + function_name(path) + " ;;\n";
  }
  return text + "      esac ;;\n  esac\n}\n\n";
}

}  // namespace

std::string bash_completion(const CommandTree& tree) {
  std::string text =
      "# bash completion of outrider, made by `outrider completion bash`\n"
      "_outrider() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} path= words= i\n"
      "  case $before in\n"
      "    " +
      value_flags(tree, true) +
      ")\n      COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n"
      "    " +
      value_flags(tree, false) +
      ") return ;;\n  esac\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case $path/${COMP_WORDS[i]} in\n";
  for (const Place& place : places_of(tree)) {
    if (place.path.empty()) continue;
    const std::size_t last = place.path.rfind(' ');
    const std::string parent = last == place.path.npos ? "" : place.path.substr(0, last);
    const std::string name = last == place.path.npos ? place.path : place.path.substr(last + 1);
    text += "      '" + parent + "/" + name + "') path='" + place.path + "' ;;\n";
  }
  text += "    esac\n  done\n  case $path in\n";
  for (const Place& place : places_of(tree)) {
    text += "    '" + place.path + "') words='" + words_of(*place.command) + "' ;;\n";
  }
  return text +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "}\n"
         "complete -F _outrider outrider\n";
}

std::string zsh_completion(const CommandTree& tree) {
  std::string text = "#compdef outrider\n# made by `outrider completion zsh`\n\n";
  for (const Place& place : places_of(tree)) text += zsh_function(place);
  return text +
         "if [ \"$funcstack[1]\" = _outrider ]; then\n  _outrider \"$@\"\nelse\n"
         "  compdef _outrider outrider\nfi\n";
}

}  // namespace outrider
