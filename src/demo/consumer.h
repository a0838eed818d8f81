// Consumer: reads every partition of the demo's topics, as somebody else's service would.
//
// Independent of the relay and without a consumer group. Starts at the end that a topic has when it
// is created here, so that an earlier demo on the same broker does not count. Broker outages heal
// by themselves. Thread: main.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "demo/ledger.h"
#include "outrider/base/result.h"

namespace outrider::demo {

class Consumer {
 public:
  /// `quick_fetch`: for the mock cluster, which answers an empty fetch only after its whole wait.
  static Result<Consumer> create(const std::string& bootstrap_servers,
                                 const std::vector<std::string>& topics, int partitions,
                                 bool quick_fetch);

  ~Consumer();
  Consumer(Consumer&&) noexcept;
  Consumer& operator=(Consumer&&) noexcept;

  /// The next record, waiting for one at most so long.
  std::optional<ReadRecord> next(std::chrono::milliseconds wait);

 private:
  struct Client;
  explicit Consumer(std::unique_ptr<Client> client);

  std::unique_ptr<Client> client_;
};

}  // namespace outrider::demo
