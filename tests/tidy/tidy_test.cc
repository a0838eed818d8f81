// The house's rules as a test: the first half reads the whole tree, the second half shows each rule
// a file that breaks it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tidy/tidy_rules.h"

namespace outrider::tidy {
namespace {

namespace fs = std::filesystem;

bool is_text(const fs::path& path) {
  static constexpr std::array<std::string_view, 14> kEndings = {
      ".cc",   ".h",   ".txt", ".md",  ".sql",  ".py", ".json",
      ".yaml", ".yml", ".xml", ".ini", ".conf", ".sh", ".toml"};
  const std::string ending = path.extension().string();
  return std::find(kEndings.begin(), kEndings.end(), ending) != kEndings.end();
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Every text file of ours: the folders of the top level and the single files beside them.
const std::vector<SourceFile>& tree() {
  static const std::vector<SourceFile> files = [] {
    const fs::path root = OUTRIDER_SOURCE_DIR;
    std::vector<SourceFile> found;
    const auto add = [&](const fs::path& path) {
      found.push_back({fs::relative(path, root).generic_string(), read(path)});
    };
    for (const char* folder : {"src", "include", "tests", "sql", "docker", "docs", "packaging",
                               "monitoring", "deploy", "cmake"}) {
      if (!fs::exists(root / folder)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
        if (entry.is_regular_file() && is_text(entry.path())) add(entry.path());
      }
    }
    for (const char* name :
         {"dev", "README.md", "CMakeLists.txt", "CMakePresets.json", ".ci/run"}) {
      if (fs::exists(root / name)) add(root / name);
    }
    return found;
  }();
  return files;
}

using Rule = Findings (*)(const SourceFile&);

Findings over_tree(Rule rule) {
  Findings all;
  for (const SourceFile& file : tree()) {
    const Findings findings = rule(file);
    all.insert(all.end(), findings.begin(), findings.end());
  }
  return all;
}

TEST(Tidy, TheTreeIsRead) { EXPECT_GT(tree().size(), 40U); }
TEST(Tidy, IncludesFollowTheRoomTable) {
  EXPECT_THAT(over_tree(check_includes), testing::IsEmpty());
}
TEST(Tidy, NoThreadsOutsideTheLoop) { EXPECT_THAT(over_tree(check_threads), testing::IsEmpty()); }
TEST(Tidy, LinesFunctionsAndFilesFitTheirLimits) {
  EXPECT_THAT(over_tree(check_sizes), testing::IsEmpty());
}
TEST(Tidy, UnfinishedWorkHasANumber) { EXPECT_THAT(over_tree(check_marks), testing::IsEmpty()); }
TEST(Tidy, HeadersSayWhatTheyAre) { EXPECT_THAT(over_tree(check_header_form), testing::IsEmpty()); }
TEST(Tidy, NoBannedCalls) { EXPECT_THAT(over_tree(check_banned_calls), testing::IsEmpty()); }
TEST(Tidy, NoPathsOfOneMachine) { EXPECT_THAT(over_tree(check_machine_paths), testing::IsEmpty()); }
TEST(Tidy, EveryTestIsBuilt) { EXPECT_THAT(check_dead_tests(tree()), testing::IsEmpty()); }

// Each rule sees what it is for ----------------------------------------------------------------

TEST(TidyRules, RefuseAHeaderOfAForeignRoom) {
  EXPECT_EQ(check_includes({"src/route/router.cc", "#include \"outrider/relay/relay.h\"\n"}).size(),
            1U);
  EXPECT_EQ(check_includes({"src/relay/relay.cc", "#include \"route/topic.h\"\n"}).size(), 1U);
  EXPECT_EQ(check_includes({"src/kafka/a.cc", "#include \"outrider/relay/relay.h\"\n"}).size(), 1U);
}

TEST(TidyRules, AllowWhatTheTableAllows) {
  EXPECT_THAT(check_includes({"src/kafka/producer.cc",
                              "#include \"kafka/producer.h\"\n#include <librdkafka/rdkafka.h>\n"
                              "#include <vector>\n#include <sys/eventfd.h>\n"
                              "#include \"outrider/relay/ports.h\"\n"
                              "#include \"outrider/config/config.h\"\n"}),
              testing::IsEmpty());
}

TEST(TidyRules, RefuseALibraryInTheWrongRoomOrInAHeader) {
  EXPECT_EQ(check_includes({"src/relay/relay.cc", "#include <libpq-fe.h>\n"}).size(), 1U);
  EXPECT_EQ(check_includes({"src/route/pattern.h", "#include <pcre2.h>\n"}).size(), 1U);
  EXPECT_EQ(check_includes({"src/decode/a.cc", "#include <rapidjson/reader.h>\n"}).size(), 1U);
  EXPECT_EQ(check_includes({"src/route/a.cc", "#include <boost/any.hpp>\n"}).size(), 1U);
}

TEST(TidyRules, RefuseThreadsOutsideTheLoop) {
  EXPECT_EQ(check_threads({"src/kafka/producer.cc", "#include <mutex>\n"}).size(), 1U);
  EXPECT_EQ(check_threads({"src/loop/event_loop.cc", "#include <atomic>\n"}).size(), 0U);
}

TEST(TidyRules, CountTheLinesOfAFunction) {
  std::string body;
  for (std::size_t i = 0; i < kFunctionLinesMax; ++i) body += "  x = \"{\";  // {\n";
  EXPECT_EQ(check_sizes({"src/a.cc", "void f(int x) {\n" + body + "}\n"}).size(), 1U);
  EXPECT_EQ(check_sizes({"src/a.cc", "namespace n {\n" + body + "}\n"}).size(), 0U);
}

TEST(TidyRules, CountColumnsInCharacters) {
  std::string line;
  for (std::size_t i = 0; i < kColumnsMax; ++i) line += "é";
  EXPECT_EQ(check_sizes({"src/a.cc", line + "\n"}).size(), 0U);
  EXPECT_EQ(check_sizes({"src/a.cc", line + "x\n"}).size(), 1U);
}

TEST(TidyRules, RefuseAMarkWithoutANumber) {
  const std::string mark = std::string("TO") + "DO";
  EXPECT_EQ(check_marks({"src/a.cc", "// " + mark + ": later\n"}).size(), 1U);
  EXPECT_EQ(check_marks({"src/a.cc", "// " + mark + "(#12): later\n"}).size(), 0U);
}

TEST(TidyRules, RefuseBannedCallsButNotTheirNamesInText) {
  EXPECT_EQ(check_banned_calls({"src/a.cc", "int i = sprintf(b, \"x\");\n"}).size(), 1U);
  EXPECT_EQ(check_banned_calls({"src/a.cc", "std::regex r;\n"}).size(), 1U);
  EXPECT_EQ(check_banned_calls({"src/a.cc", "snprintf(b, 2, \"sprintf(\"); // gets(\n"}).size(),
            0U);
}

TEST(TidyRules, RefuseAHeaderWithoutItsForm) {
  EXPECT_EQ(check_header_form({"src/a.h", "int f();\n"}).size(), 2U);
}

TEST(TidyRules, FindATestThatNoListBuilds) {
  const std::vector<SourceFile> files = {
      {"tests/sim/CMakeLists.txt", "add_executable(sim a_test.cc)"},
      {"tests/sim/a_test.cc", ""},
      {"tests/sim/b_test.cc", ""},
      {"tests/unit/attic/c_test.cc", ""},
  };
  EXPECT_EQ(check_dead_tests(files).size(), 2U);
}

}  // namespace
}  // namespace outrider::tidy
