// Story: the steps of the demo, each with figures measured while it ran.
//
// One loop drives the application's side and the consumer in turn, on the main thread: the arrival
// of a record is noted at the latest when the transaction under way has returned, so a latency here
// is never too small. Errors are what keeps a step from running; a figure that does not hold goes
// to the report and the story goes on.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "demo/ledger.h"
#include "demo/report.h"
#include "demo/shop.h"
#include "demo/stage.h"
#include "outrider/base/result.h"

namespace outrider::demo {

class Story {
 public:
  Story(Stage& stage, Report& report)
      : stage_(stage), report_(report), shop_(stage.database(), ledger_, stage.topic_prefix()) {}

  Result<> tell();

 private:
  // story.cc
  Result<> orders_placed();
  Result<> steady_load();
  Result<> rolled_back();
  Result<> inserted_and_deleted();
  Result<> show_record(const std::string& id);

  // story_faults.cc
  Result<> killed();
  Result<> broker_down();
  Result<> load_while_down(std::int64_t& highest_kb, double& down_ms);
  Result<> summary();

  // story_loop.cc
  /// Place `count` orders at `per_second`, reading all the while; `placed` is told how many so far.
  /// It ends early when `placed` returns false.
  Result<> load(std::size_t count, double per_second,
                const std::function<Result<bool>(std::size_t)>& placed);
  /// Read for so long, or until `done`; true if it was.
  Result<bool> read_until(const std::function<bool()>& done, std::chrono::milliseconds limit);
  /// Wait for all that is committed.
  Result<bool> catch_up(std::chrono::milliseconds limit);
  void read_what_is_there(std::chrono::milliseconds wait);

  Stage& stage_;
  Report& report_;
  Ledger ledger_;
  Shop shop_;
  std::vector<std::string> timed_ids_;
};

double milliseconds_since(MonoTime began);

}  // namespace outrider::demo
