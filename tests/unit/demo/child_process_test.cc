#include "demo/child_process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "demo/scratch_directory.h"

namespace outrider::demo {
namespace {

using namespace std::chrono_literals;

ChildCommand shell(const ScratchDirectory& directory, const std::string& script) {
  ChildCommand command;
  command.arguments = {"/bin/sh", "-c", script};
  command.environment = child_environment();
  command.directory = directory.path();
  command.output = directory.file("out");
  return command;
}

TEST(ChildProcess, GivesTheExitCodeAndTheOutput) {
  auto directory = ScratchDirectory::create(std::nullopt);
  ASSERT_TRUE(directory);
  auto child = ChildProcess::start(shell(*directory, "echo hello; exit 7"));
  ASSERT_TRUE(child);
  ASSERT_TRUE(child->wait(5s));
  EXPECT_EQ(child->exit_code(), 7);
  EXPECT_EQ(end_of_file(directory->file("out"), 5), "    hello\n");
}

TEST(ChildProcess, EndsWhatDoesNotListen) {
  auto directory = ScratchDirectory::create(std::nullopt);
  ASSERT_TRUE(directory);
  auto child =
      ChildProcess::start(shell(*directory, "trap '' TERM; echo ready; while :; do sleep 1; done"));
  ASSERT_TRUE(child);
  for (int i = 0; i < 500 && end_of_file(directory->file("out"), 1).empty(); ++i) {
    child->wait(10ms);
  }
  child->end(SIGTERM, 50ms);
  EXPECT_FALSE(child->running());
  EXPECT_EQ(child->exit_code(), 128 + SIGKILL);
}

TEST(ChildProcess, SaysThatAProgramCannotBeRun) {
  auto directory = ScratchDirectory::create(std::nullopt);
  ASSERT_TRUE(directory);
  ChildCommand command = shell(*directory, "");
  command.arguments = {"/nonexistent/program"};
  auto child = ChildProcess::start(command);
  ASSERT_TRUE(child);
  ASSERT_TRUE(child->wait(5s));
  EXPECT_EQ(child->exit_code(), 127);
}

TEST(ChildEnvironment, LeavesOutWhatWouldChangeARelay) {
  setenv("OUTRIDER_LOG__LEVEL", "debug", 1);
  for (const std::string& entry : child_environment()) {
    EXPECT_NE(entry.rfind("OUTRIDER_", 0), 0U) << entry;
  }
  unsetenv("OUTRIDER_LOG__LEVEL");
}

TEST(ScratchDirectory, GoesWithItsContent) {
  std::string path;
  {
    auto directory = ScratchDirectory::create(std::nullopt);
    ASSERT_TRUE(directory);
    path = directory->path();
    ASSERT_TRUE(write_file(directory->file("x"), "text\n"));
    EXPECT_EQ(end_of_file(path + "/x", 1), "    text\n");
  }
  EXPECT_EQ(end_of_file(path + "/x", 1), "");
}

}  // namespace
}  // namespace outrider::demo
