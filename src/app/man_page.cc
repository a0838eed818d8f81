#include "app/man_page.h"

namespace outrider {
namespace {

/// As text that troff prints as it stands.
std::string escaped(const std::string& text) {
  std::string out;
  bool at_line_start = true;
  for (const char c : text) {
    if (at_line_start && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
    at_line_start = c == '\n';
  }
  return out;
}

std::string upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

std::string value_name(const CommandOption& option) { return option.is_path ? "PATH" : "VALUE"; }

std::string options_text(const CommandTree& command) {
  std::string text;
  for (const CommandOption& option : command.options) {
    text += ".TP\n";
    if (option.names.empty()) {
      text += "\\fI" + escaped(option.argument) + "\\fR\n";
    } else {
      std::string names;
      for (const std::string& name : option.names) {
        names += (names.empty() ? "" : ", ") + ("\\fB" + escaped(name) + "\\fR");
      }
      text += names + (option.takes_value ? " \\fI" + value_name(option) + "\\fR" : "") + "\n";
    }
    text += escaped(option.help) +
            (option.standard.empty() ? "" : " (default: " + escaped(option.standard) + ")") + "\n";
  }
  return text;
}

void add_command(const CommandTree& command, const std::string& path, std::string& text) {
  text += ".SS \"outrider " + escaped(path) + "\"\n" + escaped(command.help) + ".\n" +
          options_text(command);
  if (!command.footer.empty() && command.commands.empty() &&
      command.footer.find("Exit codes:") == std::string::npos) {
    text += ".P\n" + escaped(command.footer) + (command.footer.back() == '\n' ? "" : "\n");
  }
  for (const CommandTree& each : command.commands) add_command(each, path + " " + each.name, text);
}

}  // namespace

std::string man_page(const CommandTree& tree, const std::string& version) {
  std::string text = ".TH " + upper(tree.name) + " 1 \"\" \"outrider " + escaped(version) +
                     "\" \"User Commands\"\n.SH NAME\noutrider \\- relays committed outbox rows "
                     "from PostgreSQL to Kafka\n.SH SYNOPSIS\n\\fBoutrider\\fR \\fICOMMAND\\fR "
                     "[\\fIFLAGS\\fR]\n.SH DESCRIPTION\n" +
                     escaped(tree.help) +
                     ".\nEvery option of the configuration file: \\fBoutrider options\\fR.\n"
                     ".SH OPTIONS\n" +
                     options_text(tree) + ".SH COMMANDS\n";
  for (const CommandTree& command : tree.commands) add_command(command, command.name, text);
  return text + ".SH EXIT STATUS\n.nf\n" + escaped(tree.footer) +
         ".fi\n.SH SEE ALSO\n\\fBpsql\\fR(1)\n";
}

}  // namespace outrider
