#include "outrider/observe/service_notify.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace outrider {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

using Environment = std::vector<std::pair<std::string, std::string>>;

Now at(milliseconds time) { return {MonoTime(time), WallTime(time)}; }

/// The other end: what systemd binds. An abstract name, so that nothing is left behind.
class Manager {
 public:
  explicit Manager(const std::string& name) : name_("@" + name + std::to_string(getpid())) {
    fd_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data() + 1, name_.size() - 1);
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
  }
  ~Manager() { close(fd_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  const std::string& name() const { return name_; }

  /// The next datagram, or "nothing".
  std::string next() {
    std::array<char, 4096> buffer{};
    const ssize_t got = recv(fd_, buffer.data(), buffer.size(), 0);
    return got < 0 ? "nothing" : std::string(buffer.data(), static_cast<std::size_t>(got));
  }

 private:
  std::string name_;
  int fd_;
};

std::unique_ptr<ServiceNotify> made(const Manager& manager,
                                    std::optional<microseconds> watchdog = std::nullopt) {
  auto notify = ServiceNotify::create({manager.name(), watchdog});
  EXPECT_TRUE(notify);
  return std::move(*notify);
}

TEST(ServiceNotify, NothingIsAskedForOutsideAServiceManager) {
  auto notify = ServiceNotify::create({});
  ASSERT_TRUE(notify);
  EXPECT_EQ(*notify, nullptr);
}

TEST(ServiceNotify, ReadyComesOnceAndWithTheFirstStatus) {
  Manager manager("outrider-ready-");
  auto notify = made(manager);
  EXPECT_TRUE(notify->due(at(seconds(0))));
  notify->beat(at(seconds(1)), "shop: streaming");
  EXPECT_EQ(manager.next(), "READY=1\nSTATUS=shop: streaming\n");
  EXPECT_FALSE(notify->due(at(milliseconds(5999))));
  EXPECT_TRUE(notify->due(at(seconds(6))));
  EXPECT_EQ(notify->deadline(), at(seconds(6)).mono);
  notify->beat(at(seconds(6)), "shop: streaming");
  EXPECT_EQ(manager.next(), "nothing") << "nothing has changed and there is no watchdog";
  notify->beat(at(seconds(11)), "shop: backing off");
  EXPECT_EQ(manager.next(), "STATUS=shop: backing off\n");
}

TEST(ServiceNotify, TheWatchdogIsFedWithinHalfItsTime) {
  Manager manager("outrider-watchdog-");
  auto notify = made(manager, milliseconds(3000));
  notify->beat(at(seconds(1)), "s");
  EXPECT_EQ(manager.next(), "READY=1\nWATCHDOG=1\nSTATUS=s\n");
  EXPECT_EQ(notify->deadline(), at(milliseconds(2500)).mono);
  notify->beat(at(milliseconds(2500)), "s");
  EXPECT_EQ(manager.next(), "WATCHDOG=1\n");
}

TEST(ServiceNotify, ALongWatchdogIsFedAsOftenAsTheStatus) {
  Manager manager("outrider-long-");
  auto notify = made(manager, seconds(600));
  notify->beat(at(seconds(1)), "s");
  EXPECT_EQ(notify->deadline(), at(seconds(6)).mono);
}

TEST(ServiceNotify, StoppingIsToldOnceAndAtOnceAndTheWatchdogGoesOn) {
  Manager manager("outrider-stop-");
  auto notify = made(manager, seconds(10));
  notify->beat(at(seconds(1)), "s");
  manager.next();
  notify->stopping(at(seconds(2)));
  EXPECT_TRUE(notify->due(at(seconds(2))));
  notify->beat(at(seconds(2)), "draining");
  EXPECT_EQ(manager.next(), "STOPPING=1\nWATCHDOG=1\nSTATUS=draining\n");
  notify->beat(at(seconds(7)), "draining");
  EXPECT_EQ(manager.next(), "WATCHDOG=1\n");
}

TEST(ServiceNotify, WhatDidNotGoOutGoesWithTheNextBeat) {
  std::string name;
  std::unique_ptr<ServiceNotify> notify;
  {
    Manager early("outrider-late-");
    name = early.name();
    notify = made(early);
  }
  notify->beat(at(seconds(1)), "s");  // Nobody listens.
  Manager manager("outrider-late-");
  ASSERT_EQ(manager.name(), name);
  notify->beat(at(seconds(6)), "s");
  EXPECT_EQ(manager.next(), "READY=1\nSTATUS=s\n");
}

TEST(ServiceNotify, AManagerThatDoesNotReadCostsNothing) {
  Manager manager("outrider-full-");
  auto notify = made(manager, seconds(10));
  for (int i = 0; i < 5000; ++i) {
    notify->beat(at(seconds(i)), "status " + std::to_string(i));
  }
  EXPECT_EQ(manager.next(), "READY=1\nWATCHDOG=1\nSTATUS=status 0\n");
}

TEST(ServiceNotify, AStatusIsOneLineAndNotTooLong) {
  Manager manager("outrider-line-");
  auto notify = made(manager);
  notify->beat(at(seconds(1)), "topic \"a\nREADY=0\" is missing");
  EXPECT_EQ(manager.next(), "READY=1\nSTATUS=topic \"a READY=0\" is missing\n");
  notify->beat(at(seconds(6)), std::string(kServiceStatusBytesMax - 1, 'x') + "\u20ac and more");
  EXPECT_EQ(manager.next(), "STATUS=" + std::string(kServiceStatusBytesMax - 1, 'x') + "\n");
}

TEST(ServiceNotify, ASocketIsAPathOrAnAbstractName) {
  for (const std::string name : {"relative", "@", "/", "vsock:2:1234"}) {
    auto notify = ServiceNotify::create({name, std::nullopt});
    ASSERT_FALSE(notify) << name;
    EXPECT_NE(notify.error().message.find("\"" + name + "\""), std::string::npos);
  }
  EXPECT_FALSE(ServiceNotify::create({"/" + std::string(107, 'x'), std::nullopt}));
  EXPECT_TRUE(ServiceNotify::create({"/" + std::string(106, 'x'), std::nullopt}));
}

TEST(ServiceNotify, SettingsComeFromTheEnvironment) {
  const Environment all = {{"NOTIFY_SOCKET", "/run/systemd/notify"},
                           {"WATCHDOG_USEC", "60000000"},
                           {"WATCHDOG_PID", "42"},
                           {"OTHER", "1"}};
  auto settings = ServiceNotifySettings::from_environment(all, 42);
  EXPECT_EQ(settings.socket, "/run/systemd/notify");
  EXPECT_EQ(settings.watchdog, microseconds(60'000'000));
  EXPECT_EQ(ServiceNotifySettings::from_environment(all, 43).watchdog, std::nullopt)
      << "meant for another process";
  EXPECT_EQ(ServiceNotifySettings::from_environment({{"WATCHDOG_USEC", "5"}}, 1).watchdog,
            microseconds(5));
  for (const char* bad : {"", "0", "-1", "1s", "99999999999999999999"}) {
    EXPECT_EQ(ServiceNotifySettings::from_environment({{"WATCHDOG_USEC", bad}}, 1).watchdog,
              std::nullopt)
        << bad;
  }
  EXPECT_TRUE(ServiceNotifySettings::from_environment({}, 1).socket.empty());
}

}  // namespace
}  // namespace outrider
