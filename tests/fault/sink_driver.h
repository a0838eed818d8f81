// SinkDriver: drives the real Kafka sink as the relay does, one turn after the other, on the test's
// thread, and collects what it reports.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kafka/producer.h"
#include "outrider/loop/event_loop.h"
#include "support/mock_broker.h"

namespace outrider::test {

using namespace std::chrono_literals;

constexpr const char* kTopic = "outbox.event.order";

inline const SlotIdentity kIdentity{"7301234567890123456", "shop", "outrider", 1};

inline Lsn lsn(std::uint64_t value) { return Lsn::from_wire(value); }

inline ResumePoint whole_at(std::uint64_t value) {
  ResumePoint point;
  point.lsn = lsn(value);
  return point;
}

class SinkDriver {
 public:
  explicit SinkDriver(const std::string& bootstrap_servers,
                      std::map<std::string, std::string> properties = {}) {
    auto loop = EventLoop::create();
    if (!loop) throw std::runtime_error(loop.error().message);
    loop_ = std::move(*loop);
    settings_.bootstrap_servers = bootstrap_servers;
    settings_.properties = std::move(properties);
    settings_.login_patience_ms = 300;
  }

  ProducerSettings& settings() { return settings_; }

  KafkaProducerSink& sink() {
    if (sink_ == nullptr) {
      auto made = KafkaProducerSink::create(
          *loop_, [this]() -> Result<ProducerSettings> { return settings_; },
          [this](LogLevel, std::string_view line) { log_.emplace_back(line); });
      if (!made) throw std::runtime_error(made.error().message);
      sink_ = std::move(*made);
    }
    return *sink_;
  }

  static Now now() {
    return {
        std::chrono::steady_clock::now(),
        std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now())};
  }

  void turn(std::chrono::milliseconds at_most = 20ms) {
    ++turns_;
    const MonoTime begin = std::chrono::steady_clock::now();
    if (auto driven = sink().drive(now()); !driven) end_ = driven.error();
    longest_drive_ms_ = std::max(longest_drive_ms_, since(begin));
    SinkReport report;
    while (sink().next_report(report)) take(report);
    MonoTime until = std::chrono::steady_clock::now() + at_most;
    if (auto due = sink().deadline()) until = std::min(until, *due);
    loop_->wait(until);
  }

  bool turn_until(const std::function<bool()>& done, std::chrono::milliseconds limit = 10s) {
    const MonoTime end = std::chrono::steady_clock::now() + limit;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      turn();
    }
    return true;
  }

  Result<ProduceStatus> try_produce(std::uint64_t sequence, std::string_view topic = kTopic,
                                    std::optional<std::int32_t> partition = {}) {
    const std::string number = std::to_string(sequence);
    KafkaRecord record;
    record.topic = topic;
    record.key = "key";
    record.value = number;
    record.headers = {{"id", number}};
    record.timestamp_ms = 1'700'000'000'000;
    record.partition = partition;
    return sink().produce(record, sequence, now());
  }

  /// Hand over [from, to), waiting while the sink is busy.
  bool produce_all(std::uint64_t from, std::uint64_t to) {
    std::uint64_t next = from;
    return turn_until([&] {
             while (next < to) {
               const auto status = try_produce(next);
               if (!status) {
                 end_ = status.error();
                 return true;
               }
               if (*status == ProduceStatus::busy) return false;
               ++next;
             }
             return true;
           }) &&
           next == to;
  }

  void take(const SinkReport& report) {
    if (const auto* delivered = std::get_if<Delivered>(&report)) {
      delivered_.push_back(delivered->sequence);
    } else if (const auto* refused = std::get_if<Refused>(&report)) {
      refused_.push_back(*refused);
    } else if (const auto* accepted = std::get_if<Accepted>(&report)) {
      accepted_.push_back(accepted->sequence);
    } else {
      lost_.push_back(std::get<SinkLost>(report).error);
    }
  }

  static double since(MonoTime begin) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
        .count();
  }

  void destroy_sink() { sink_.reset(); }

  /// Open a session and wait until it is open or the sink gives up.
  bool open_session(const SlotIdentity& identity = kIdentity) {
    sink().open_session(identity, now());
    return turn_until([&] { return sink().session_open() || end_ || !lost_.empty(); }) &&
           sink().session_open();
  }

  std::vector<std::uint64_t> delivered_;
  std::vector<std::uint64_t> accepted_;
  std::vector<Refused> refused_;
  std::vector<Error> lost_;
  std::optional<Error> end_;
  std::vector<std::string> log_;
  int turns_ = 0;
  double longest_drive_ms_ = 0;

 private:
  std::unique_ptr<EventLoop> loop_;
  ProducerSettings settings_;
  std::unique_ptr<KafkaProducerSink> sink_;
};

inline std::vector<std::uint64_t> stored_numbers(const MockBroker& broker) {
  std::vector<std::uint64_t> numbers;
  for (const auto& record : read_topic(broker.bootstrap_servers(), kTopic)) {
    numbers.push_back(std::stoull(record.value.value_or("0")));
  }
  return numbers;
}

inline std::vector<std::uint64_t> numbers_up_to(std::uint64_t end) {
  std::vector<std::uint64_t> numbers(end);
  for (std::uint64_t i = 0; i < end; ++i) numbers[i] = i;
  return numbers;
}

}  // namespace outrider::test
