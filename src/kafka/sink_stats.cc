#include "kafka/sink_stats.h"

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

constexpr std::string_view kRest = "other";

void add_totals(ClientStatistics& sum, const ClientStatistics& one) {
  sum.retries += one.retries;
  sum.request_timeouts += one.request_timeouts;
  sum.connects += one.connects;
  sum.disconnects += one.disconnects;
  sum.sent_bytes += one.sent_bytes;
}

}  // namespace

void SinkStats::delivered(const void* handle, std::string_view topic, std::uint64_t bytes,
                          double seconds) {
  CacheLine& line = cache_[(reinterpret_cast<std::uintptr_t>(handle) >> 6) % cache_.size()];
  if (line.handle != handle || line.topic == nullptr) {
    line = CacheLine{handle, &topic_of(topic)};
  }
  ++line.topic->records;
  line.topic->bytes += bytes;
  produce_latency_.add(seconds);
}

SinkStats::Topic& SinkStats::topic_of(std::string_view name) {
  const auto named = [this](std::string_view wanted) {
    return std::find_if(topics_.begin(), topics_.end(),
                        [wanted](const Topic& each) { return each.name == wanted; });
  };
  auto found = named(name);
  if (found == topics_.end() && topics_.size() >= kTopicsMax) {
    name = kRest;
    found = named(name);
  }
  return found != topics_.end() ? *found : topics_.emplace_back(Topic{std::string(name), 0, 0});
}

void SinkStats::failed(const char* code) {
  const std::string_view name = code == nullptr ? "" : code;
  auto found = errors_.find(name);
  if (found == errors_.end()) {
    found = errors_.emplace(std::string(name), 0).first;
  }
  ++found->second;
}

void SinkStats::take(ClientStatistics statistics, MonoTime now) {
  statistics_ = std::move(statistics);
  statistics_at_ = now;
}

void SinkStats::client_gone() {
  cache_.fill(CacheLine{});
  if (statistics_) {
    add_totals(past_, *statistics_);
  }
  statistics_.reset();
}

ClientStatistics SinkStats::totals() const {
  ClientStatistics sum = past_;
  if (statistics_) {
    add_totals(sum, *statistics_);
  }
  return sum;
}

}  // namespace outrider
