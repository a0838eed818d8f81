#include "demo/relay_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider::demo {
namespace {

using testing::HasSubstr;
using testing::Not;

RelaySettings settings() {
  RelaySettings result;
  result.dsn = "host=/run/x password='it''s secret'";
  result.bootstrap_servers = "127.0.0.1:9092";
  result.name = "outrider";
  result.table = "public.outbox";
  result.topic_prefix = "outbox.event.";
  result.http_port = 4711;
  return result;
}

TEST(RelayConfiguration, QuotesWhatYamlWouldRead) {
  EXPECT_THAT(relay_configuration(settings()),
              HasSubstr("dsn: 'host=/run/x password=''it''''s secret'''\n"));
}

TEST(RelayConfiguration, KeepsASecretOutOfTheFile) {
  RelaySettings secret = settings();
  secret.dsn_is_secret = true;
  const std::string text = relay_configuration(secret);
  EXPECT_THAT(text, Not(HasSubstr("secret")));
  EXPECT_THAT(text, HasSubstr("dsn: '${env:"));
}

TEST(RelayConfiguration, RoutesByEventType) {
  EXPECT_THAT(relay_configuration(settings()),
              HasSubstr("replacement: 'outbox.event.${routedByValue}'\n"));
}

TEST(MemoryInStatus, ReadsBothLines) {
  const Memory memory =
      memory_in_status("Name:\toutrider\nVmHWM:\t   20480 kB\nVmRSS:\t 1024 kB\n");
  EXPECT_EQ(memory.resident_kb, 1024);
  EXPECT_EQ(memory.peak_kb, 20480);
}

TEST(MemoryInStatus, IsZeroForAProcessThatIsGone) {
  EXPECT_EQ(memory_in_status("").resident_kb, 0);
  EXPECT_EQ(memory_in_status("Name:\tx\n").peak_kb, 0);
}

}  // namespace
}  // namespace outrider::demo
