#include "kafka/producer_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kafka/client_conf.h"

namespace outrider {
namespace {

using testing::HasSubstr;

ProducerSettings settings_with(std::map<std::string, std::string> properties) {
  ProducerSettings settings;
  settings.bootstrap_servers = "127.0.0.1:9092";
  settings.properties = std::move(properties);
  return settings;
}

std::string effective(const ProducerSettings& settings, const char* name) {
  const auto conf = make_producer_conf(settings);
  return conf ? get_property(conf->get(), name) : conf.error().message;
}

TEST(ProducerConfig, SetsTheDeliveryContract) {
  const ProducerSettings settings = settings_with({});
  EXPECT_EQ(effective(settings, "enable.idempotence"), "true");
  EXPECT_EQ(effective(settings, "acks"), "-1");
  EXPECT_EQ(effective(settings, "enable.gapless.guarantee"), "true");
  EXPECT_EQ(effective(settings, "message.timeout.ms"), "0");
  EXPECT_EQ(effective(settings, "partitioner"), "murmur2_random");
  EXPECT_EQ(effective(settings, "allow.auto.create.topics"), "false");
  EXPECT_EQ(effective(settings, "log.queue"), "true");
  EXPECT_EQ(effective(settings, "max.in.flight.requests.per.connection"), "5");
  EXPECT_EQ(effective(settings, "compression.codec"), "lz4");
  EXPECT_EQ(effective(settings, "bootstrap.servers"), "127.0.0.1:9092");
}

TEST(ProducerConfig, LeavesHeadRoomAboveTheFlowGate) {
  ProducerSettings settings = settings_with({});
  settings.in_flight_records_max = 20'000;
  settings.in_flight_bytes_max = 16 * 1024 * 1024;
  const auto conf = make_producer_conf(settings);
  ASSERT_TRUE(conf);
  EXPECT_GT(get_number(conf->get(), "queue.buffering.max.messages"), 20'000);
  EXPECT_GT(get_number(conf->get(), "queue.buffering.max.kbytes"), 16 * 1024 + 1'000);
}

TEST(ProducerConfig, HugeLimitsStayInLibrdkafkasRange) {
  ProducerSettings settings = settings_with({});
  settings.in_flight_records_max = 100'000'000;
  settings.in_flight_bytes_max = std::int64_t{1} << 50;
  EXPECT_TRUE(make_producer_conf(settings));
}

TEST(ProducerConfig, PassesOtherPropertiesThrough) {
  const ProducerSettings settings = settings_with(
      {{"linger.ms", "50"}, {"compression.type", "zstd"}, {"sasl.username", "relay"}});
  EXPECT_EQ(effective(settings, "linger.ms"), "50");
  EXPECT_EQ(effective(settings, "compression.codec"), "zstd");
  EXPECT_EQ(effective(settings, "sasl.username"), "relay");
}

TEST(ProducerConfig, AcceptsContractPropertiesAtTheirOnlyValue) {
  EXPECT_TRUE(check_producer_settings(settings_with({{"acks", "all"},
                                                     {"enable.idempotence", "true"},
                                                     {"max.in.flight", "1"},
                                                     {"partitioner", "consistent_random"}})));
}

TEST(ProducerConfig, RefusesEachPropertyThatBreaksTheContract) {
  const std::pair<const char*, const char*> refused[] = {
      {"acks", "1"},
      {"request.required.acks", "0"},
      {"enable.idempotence", "false"},
      {"enable.gapless.guarantee", "false"},
      {"delivery.report.only.error", "true"},
      {"message.timeout.ms", "5000"},
      {"delivery.timeout.ms", "5000"},
      {"retries", "0"},
      {"message.send.max.retries", "3"},
      {"max.in.flight", "6"},
      {"max.in.flight.requests.per.connection", "100"},
      {"queuing.strategy", "lifo"},
      {"partitioner", "random"},
      {"allow.auto.create.topics", "true"},
      {"log.queue", "false"},
      {"transactional.id", "t"},
      {"plugin.library.paths", "x"},
      {"test.mock.num.brokers", "3"},
      {"dr_msg_cb", "x"},
      {"enabled_events", "1"},
      {"sasl.mechanisms", "OAUTHBEARER"},
  };
  for (const auto& [name, value] : refused) {
    const auto checked = check_producer_settings(settings_with({{name, value}}));
    ASSERT_FALSE(checked) << name;
    EXPECT_EQ(checked.error().kind, ErrorKind::configuration) << name;
    EXPECT_THAT(checked.error().message, HasSubstr(name));
    EXPECT_THAT(checked.error().hint, HasSubstr(name));
  }
}

TEST(ProducerConfig, PointsFromBootstrapServersToItsOwnOption) {
  const auto checked = check_producer_settings(settings_with({{"bootstrap.servers", "a:1"}}));
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("kafka.bootstrap_servers"));
}

TEST(ProducerConfig, UnknownPropertyAndBogusCodecCarryTheLibrarysText) {
  const auto unknown = check_producer_settings(settings_with({{"lingr.ms", "1"}}));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().kind, ErrorKind::configuration);
  EXPECT_THAT(unknown.error().message, HasSubstr("No such configuration property"));
  const auto codec = check_producer_settings(settings_with({{"compression.codec", "bogus"}}));
  ASSERT_FALSE(codec);
  EXPECT_EQ(codec.error().kind, ErrorKind::configuration);
  EXPECT_THAT(codec.error().message, HasSubstr("compression.codec"));
}

TEST(ProducerConfig, ExactlyOnceSetsTransactionsAndATimeoutWithinThem) {
  ProducerSettings settings = settings_with({});
  settings.delivery.guarantee = Delivery::exactly_once;
  settings.delivery.transaction_timeout_ms = 45'000;
  const auto conf = make_producer_conf(settings, "outrider-1-shop-slot");
  ASSERT_TRUE(conf);
  EXPECT_EQ(get_property(conf->get(), "transactional.id"), "outrider-1-shop-slot");
  EXPECT_EQ(get_number(conf->get(), "transaction.timeout.ms"), 45'000);
  EXPECT_EQ(get_number(conf->get(), "message.timeout.ms"), 45'000);
  EXPECT_TRUE(check_producer_settings(settings));
  settings.delivery.transaction_max_ms = 45'000;
  const auto checked = check_producer_settings(settings);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().hint, HasSubstr("delivery.transaction_timeout_ms"));
}

TEST(ProducerConfig, ReaderReadsWhatIsCommittedAndJoinsNoGroup) {
  ProducerSettings settings = settings_with({{"sasl.username", "relay"}});
  const auto conf = make_reader_conf(settings);
  ASSERT_TRUE(conf);
  EXPECT_EQ(get_property(conf->get(), "isolation.level"), "read_committed");
  EXPECT_EQ(get_property(conf->get(), "enable.auto.commit"), "false");
  EXPECT_EQ(get_property(conf->get(), "group.id"), "");
  EXPECT_EQ(get_property(conf->get(), "sasl.username"), "relay");
}

TEST(ProducerConfig, PositionTopicNeedsALegalName) {
  ProducerSettings settings = settings_with({});
  settings.delivery.position_topic = "a b";
  EXPECT_EQ(check_producer_settings(settings).error().kind, ErrorKind::configuration);
  settings.delivery.witness = false;
  EXPECT_TRUE(check_producer_settings(settings)) << "not used";
}

TEST(ProducerConfig, NeedsBootstrapServers) {
  ProducerSettings settings = settings_with({});
  settings.bootstrap_servers.clear();
  EXPECT_EQ(check_producer_settings(settings).error().kind, ErrorKind::configuration);
}

}  // namespace
}  // namespace outrider
