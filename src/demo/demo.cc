#include "demo/demo.h"

#include <chrono>
#include <cstdio>

#include "demo/interrupt.h"
#include "demo/report.h"
#include "demo/stage.h"
#include "demo/story.h"

namespace outrider {
namespace demo {
namespace {

using namespace std::chrono_literals;

constexpr int kExitFailed = 1;
constexpr int kExitInterrupted = 130;

/// Everything stays until a signal comes.
Result<> keep(Stage& stage, Report& report) {
  stage.drop_consumer();
  report.heading("Everything keeps running; Ctrl-C ends and removes it");
  stage.describe_reading(report);
  while (!interrupted()) {
    OUTRIDER_TRY(stage.check_running());
    if (!sleep_for(200ms)) break;
  }
  return {};
}

void print_error(const Error& error) {
  std::fflush(stdout);
  std::fprintf(stderr, "outrider demo: %s\n", error.message.c_str());
  if (!error.hint.empty()) std::fprintf(stderr, "  hint: %s\n", error.hint.c_str());
}

Result<> play(Stage& stage, Report& report, bool keep_running) {
  OUTRIDER_TRY(stage.build(report));
  stage.describe(report);
  Story story(stage, report);
  OUTRIDER_TRY(story.tell());
  report.line();
  if (report.failures().empty()) {
    report.line(
        "Next, your own database: outrider init --dsn 'postgresql://…' prints what it needs");
  } else {
    report.line(grouped(report.failures().size()) + " figure(s) did not hold:");
    for (const std::string& failure : report.failures()) report.line("   WRONG  " + failure);
  }
  return keep_running ? keep(stage, report) : Result<>();
}

}  // namespace
}  // namespace demo

int run_demo(const DemoFlags& flags) {
  demo::install_interrupt_handlers();
  demo::Report report;
  Result<> played;
  {
    demo::Stage stage(flags);
    played = demo::play(stage, report, flags.keep);
    if (!played && !demo::interrupted()) demo::print_error(played.error());
    if (demo::interrupted()) std::fputs("\noutrider demo: ending and removing it all\n", stderr);
    stage.close();
  }
  if (!report.failures().empty()) return demo::kExitFailed;
  if (played) return 0;
  return demo::interrupted() ? demo::kExitInterrupted : demo::kExitFailed;
}

}  // namespace outrider
