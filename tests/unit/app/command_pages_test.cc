#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/command_tree.h"
#include "app/completion_script.h"
#include "app/man_page.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::Not;

CommandTree example() {
  CommandTree list{"list", "it's [one] line: a letter", "", "", {}, {}};
  list.options.push_back({{"-c", "--config"}, "", true, true, "file", ""});
  list.options.push_back({{"--json"}, "", false, false, "JSON", ""});
  CommandTree show{"show", "one letter", ".starts with a dot\n", "", {}, {}};
  show.options.push_back({{}, "NUMBER", true, false, "its number", ""});
  show.options.push_back({{"--type"}, "", true, false, "of this type", "any"});
  CommandTree letters{"dead-letters", "look", "", "", {}, {list, show}};
  CommandTree tree{"outrider", "relays", "Exit codes:\n  0 done\n", "", {}, {letters}};
  tree.options.push_back({{"--version"}, "", false, false, "the version", ""});
  return tree;
}

TEST(Completion, OfBashKnowsCommandsWithinCommands) {
  const std::string script = bash_completion(example());
  EXPECT_THAT(script, HasSubstr("'dead-letters/list') path='dead-letters list'"));
  EXPECT_THAT(script, HasSubstr("'dead-letters list') words='-c --config --json'"));
  EXPECT_THAT(script, HasSubstr("-c|--config)"));
  EXPECT_THAT(script, HasSubstr("--type) return"));
}

TEST(Completion, OfZshQuotesWhatItsFunctionsReadAsTheirOwn) {
  const std::string script = zsh_completion(example());
  EXPECT_THAT(script, HasSubstr("'list:it'\\''s \\[one\\] line\\: a letter'"));
  EXPECT_THAT(script, HasSubstr("_outrider_dead_letters_list"));
  EXPECT_THAT(script, HasSubstr("'*--config[file]:file:_files'"));
}

TEST(ManPage, NamesEverythingAndEscapesWhatTroffWouldRead) {
  const std::string page = man_page(example(), "1.2-3");
  EXPECT_THAT(page, HasSubstr(".SS \"outrider dead\\-letters show\""));
  EXPECT_THAT(page, HasSubstr("\\fB\\-c\\fR, \\fB\\-\\-config\\fR \\fIPATH\\fR"));
  EXPECT_THAT(page, HasSubstr("\\fINUMBER\\fR"));
  EXPECT_THAT(page, HasSubstr("(default: any)"));
  EXPECT_THAT(page, HasSubstr("\\&.starts with a dot"));
  EXPECT_THAT(page, HasSubstr("Exit codes:"));
  EXPECT_THAT(page, Not(HasSubstr("1.2-3")));
}

}  // namespace
}  // namespace outrider
