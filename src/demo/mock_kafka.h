// MockKafka: librdkafka's mock cluster with one broker, in a process of its own.
//
// Its own process because its calls block (up to a second for "up") and because the demo's loop
// must go on meanwhile. Listens on 127.0.0.1; any Kafka client can read from it, and it makes any
// topic it is asked about. Keeps 5 MB a partition, in memory. Fork it before any librdkafka thread
// exists.
#pragma once

#include <string>
#include <vector>

#include "demo/child_process.h"
#include "outrider/base/result.h"

namespace outrider::demo {

class MockKafka {
 public:
  static Result<MockKafka> start(const std::vector<std::string>& topics, int partitions);

  ~MockKafka();
  MockKafka(MockKafka&& other) noexcept;
  MockKafka& operator=(MockKafka&&) = delete;

  const std::string& bootstrap_servers() const { return bootstrap_servers_; }
  pid_t pid() const { return process_.pid(); }
  bool running() { return process_.running(); }

  /// Ask for the change and return at once; answered() says when it is done.
  Result<> ask_down();
  Result<> ask_up();
  bool answered();

  void stop();

 private:
  MockKafka(ChildProcess process, int control_fd)
      : process_(std::move(process)), control_fd_(control_fd) {}
  Result<> ask(char command);

  ChildProcess process_;
  int control_fd_;
  std::string bootstrap_servers_;
};

}  // namespace outrider::demo
