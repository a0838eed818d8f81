// Stage: everything that runs during a demo, built in order and taken down in the opposite one.
//
// Owns the directory, the servers that are ours, the relay, the application's connection and the
// consumer. With a real database or broker it touches only what is named outrider_demo (schema,
// slot, publication) or outrider-demo.… (topics), and close() removes them again. Thread: main.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "demo/consumer.h"
#include "demo/database.h"
#include "demo/demo.h"
#include "demo/mock_kafka.h"
#include "demo/relay_process.h"
#include "demo/report.h"
#include "demo/scratch_directory.h"
#include "demo/throwaway_postgres.h"
#include "outrider/base/result.h"

namespace outrider::demo {

class Stage {
 public:
  explicit Stage(const DemoFlags& flags) : flags_(flags) {}
  ~Stage() { close(); }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Build all of it; returns when the relay streams. What was built before an error stays for
  /// close().
  Result<> build(Report& report);

  /// End and remove all of it; problems are printed, and nothing is left out because of one.
  void close();

  /// Where each part runs and how to reach it.
  void describe(Report& report);
  void describe_reading(Report& report) const;

  /// An error if one of our processes ended by itself.
  Result<> check_running();
  /// Wait for the slot to be streamed from.
  Result<> wait_for_relay();

  bool has_mock() const { return mock_.has_value(); }
  MockKafka& mock() { return *mock_; }
  Database& database() { return *database_; }
  Consumer& consumer() { return *consumer_; }
  void drop_consumer() { consumer_.reset(); }
  RelayProcess& relay() { return relay_; }
  const std::string& slot() const { return relay_settings_.name; }
  const std::string& topic_prefix() const { return relay_settings_.topic_prefix; }

 private:
  Result<> start_kafka(Report& report);
  Result<> start_postgres(Report& report);
  Result<> start_relay(Report& report);
  std::vector<std::string> topics() const;
  Result<> remove_database_objects();

  DemoFlags flags_;
  ScratchDirectory directory_;
  std::optional<MockKafka> mock_;
  std::optional<ThrowawayPostgres> postgres_;
  std::optional<Database> database_;
  RelayProcess relay_;
  std::optional<Consumer> consumer_;
  RelaySettings relay_settings_;
  std::optional<UserId> postgres_user_;
  PostgresBinaries postgres_binaries_;
  bool topics_made_ = false;
  bool objects_made_ = false;
};

}  // namespace outrider::demo
