#include "kafka/client_statistics.h"

#include <gtest/gtest.h>

#include "kafka/sink_stats.h"

namespace outrider {
namespace {

/// As librdkafka 2.0.2 prints it, shortened to what matters and what could confuse.
constexpr const char* kDocument = R"({ "name": "outrider#producer-1", "client_id": "outrider",
 "type": "producer", "ts":5016483227792, "time":1527060869, "replyq":0, "msg_cnt":22710,
 "msg_size":704010, "msg_max":500000, "brokers":{
 "GroupCoordinator": { "name":"GroupCoordinator", "nodeid":-1, "state":"INIT", "txretries":0,
   "disconnects":0, "rtt":{"avg":0, "p99":0} },
 "h:9092/2": { "name":"h:9092/2", "nodeid":2, "nodename":"h:9092", "state":"UP", "outbuf_cnt":0,
   "tx":320, "txbytes":84283332, "txerrs":0, "txretries":3, "txidle":0, "req_timeouts":1,
   "connects":2, "disconnects":1, "int_latency":{"avg":9, "p99":9},
   "rtt": { "min":1580, "max":3389, "avg":2349, "sum":79868, "p50":2319, "p99":3391 },
   "throttle": { "min":0, "max":0, "avg":20, "p99":0 },
   "req":{"Produce":320}, "toppars":{ "t-1": { "topic":"t", "partition":1} } },
 "h:9093/3": { "nodeid":3, "state":"DOWN", "txbytes":1, "txretries":4, "disconnects":5,
   "rtt": {"avg":0} } },
 "topics":{ "t": { "topic":"t", "partitions": { "0": { "msg_cnt": 7 },
   "1": {}, "-1": {} } } }, "tx":631 })";

TEST(ClientStatistics, ReadsQueueBrokersAndTotals) {
  const auto read = read_client_statistics(kDocument);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->queue_records, 22'710U);
  EXPECT_EQ(read->queue_bytes, 704'010U);
  EXPECT_EQ(read->retries, 7U);
  EXPECT_EQ(read->request_timeouts, 1U);
  EXPECT_EQ(read->disconnects, 6U);
  EXPECT_EQ(read->sent_bytes, 84'283'333U);
  ASSERT_EQ(read->brokers.size(), 2U) << "the coordinator's connection is no broker";
  EXPECT_EQ(read->brokers[0].id, 2);
  EXPECT_TRUE(read->brokers[0].up);
  EXPECT_DOUBLE_EQ(read->brokers[0].rtt_avg_s, 0.002349);
  EXPECT_DOUBLE_EQ(read->brokers[0].rtt_p99_s, 0.003391);
  EXPECT_DOUBLE_EQ(read->brokers[0].throttle_avg_s, 0.02);
  EXPECT_FALSE(read->brokers[1].up);
  ASSERT_EQ(read->partitions.size(), 1U);
  EXPECT_EQ(read->partitions.at("t"), 2) << "without -1";
}

TEST(ClientStatistics, WhatIsNoDocumentIsNothing) {
  for (const char* text : {"", "7", "[]", "{\"msg_cnt\":", "{\"brokers\":{\"a\":{\"nodeid\":"}) {
    EXPECT_FALSE(read_client_statistics(text)) << text;
  }
}

TEST(ClientStatistics, TopicsOfALongDocumentAreLeftOut) {
  std::string text = R"({"msg_cnt":1,"topics":{"t":{"partitions":{"0":{}},"x":")";
  text += std::string(ClientStatistics::kTopicsBytesMax, 'x') + "\"}}}";
  const auto read = read_client_statistics(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->queue_records, 1U);
  EXPECT_TRUE(read->partitions.empty());
}

TEST(ClientStatistics, BrokersHaveALimit) {
  std::string text = "{\"brokers\":{";
  for (std::size_t i = 0; i < ClientStatistics::kBrokersMax + 10; ++i) {
    text += (i > 0 ? ",\"b" : "\"b") + std::to_string(i) + "\":{\"nodeid\":" + std::to_string(i) +
            ",\"txretries\":1}";
  }
  const auto read = read_client_statistics(text + "}}");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->brokers.size(), ClientStatistics::kBrokersMax);
  EXPECT_EQ(read->retries, ClientStatistics::kBrokersMax + 10) << "totals are of all of them";
}

TEST(SinkStats, CountsByTopicAndForgetsHandlesWithTheClient) {
  SinkStats stats;
  int handle = 0;
  stats.delivered(&handle, "a", 10, 0.002);
  stats.delivered(&handle, "a", 5, 0.002);
  stats.client_gone();
  stats.delivered(&handle, "b", 1, 0.002);  // The same address, another topic.
  ASSERT_EQ(stats.topics().size(), 2U);
  EXPECT_EQ(stats.topics()[0].records, 2U);
  EXPECT_EQ(stats.topics()[0].bytes, 15U);
  EXPECT_EQ(stats.topics()[1].name, "b");
  EXPECT_DOUBLE_EQ(stats.produce_latency().sum(), 0.006);
}

TEST(SinkStats, TopicsHaveALimitAndTheRestSharesOne) {
  SinkStats stats;
  std::vector<int> handles(SinkStats::kTopicsMax + 7);
  for (std::size_t i = 0; i < handles.size(); ++i) {
    stats.delivered(&handles[i], "topic-" + std::to_string(i), 1, 0);
  }
  EXPECT_EQ(stats.topics().size(), SinkStats::kTopicsMax + 1);
  EXPECT_EQ(stats.topics().back().name, "other");
  EXPECT_EQ(stats.topics().back().records, 7U);
}

TEST(SinkStats, TotalsGoOnOverANewClientAndItsStateDoesNot) {
  SinkStats stats;
  ClientStatistics first;
  first.retries = 5;
  stats.take(first, MonoTime{} + std::chrono::seconds(1));
  stats.client_gone();
  EXPECT_FALSE(stats.statistics());
  EXPECT_EQ(stats.totals().retries, 5U);
  ClientStatistics second;
  second.retries = 2;
  stats.take(second, MonoTime{} + std::chrono::seconds(9));
  stats.take(second, MonoTime{} + std::chrono::seconds(14));
  EXPECT_EQ(stats.totals().retries, 7U);
}

}  // namespace
}  // namespace outrider
