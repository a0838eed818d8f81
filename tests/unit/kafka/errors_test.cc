#include "kafka/errors.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace outrider {
namespace {

TEST(KafkaErrors, EveryRowHasOneCodeAHintAndAKindItKeeps) {
  std::set<int> codes;
  for (const KafkaErrorRow& row : kafka_error_table()) {
    EXPECT_TRUE(codes.insert(row.code).second) << rd_kafka_err2name(row.code);
    EXPECT_NE(std::string(row.hint), "") << rd_kafka_err2name(row.code);
    const Error error = kafka_error(row.code, "cannot send to topic \"t\"");
    EXPECT_EQ(error.kind, row.kind);
    EXPECT_EQ(error.hint, row.hint);
    EXPECT_EQ(error.code, rd_kafka_err2name(row.code));
    EXPECT_EQ(error.message,
              std::string("cannot send to topic \"t\": ") + rd_kafka_err2str(row.code));
    EXPECT_NE(error.message.back(), '.');
  }
}

TEST(KafkaErrors, FaultsOfTheRecordAndOnlyThoseArePoison) {
  const std::set<int> poison = {
      RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE,
      RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE,   RD_KAFKA_RESP_ERR_INVALID_RECORD,
      RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP,  RD_KAFKA_RESP_ERR_INVALID_MSG,
      RD_KAFKA_RESP_ERR__BAD_MSG,           RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION};
  for (const KafkaErrorRow& row : kafka_error_table()) {
    EXPECT_EQ(row.kind == ErrorKind::poison, poison.contains(row.code))
        << rd_kafka_err2name(row.code);
  }
}

TEST(KafkaErrors, GrantsAndLoginsAreConfiguration) {
  for (const auto code :
       {RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
        RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, RD_KAFKA_RESP_ERR__AUTHENTICATION,
        RD_KAFKA_RESP_ERR__SSL, RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION,
        RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED}) {
    EXPECT_EQ(kafka_error(code, "x").kind, ErrorKind::configuration) << rd_kafka_err2name(code);
  }
}

TEST(KafkaErrors, UnknownOutcomesAndUnlistedCodesAreTransient) {
  for (const auto code :
       {RD_KAFKA_RESP_ERR__PURGE_INFLIGHT, RD_KAFKA_RESP_ERR__MSG_TIMED_OUT,
        RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
        RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS}) {
    EXPECT_EQ(kafka_error(code, "x").kind, ErrorKind::transient) << rd_kafka_err2name(code);
    EXPECT_FALSE(kafka_error(code, "x").hint.empty());
  }
  EXPECT_EQ(find_kafka_error(RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS), nullptr);
}

TEST(KafkaErrors, PurgedRecordsAndMissingTopicsAreRecognised) {
  EXPECT_TRUE(is_purge(RD_KAFKA_RESP_ERR__PURGE_QUEUE));
  EXPECT_TRUE(is_purge(RD_KAFKA_RESP_ERR__PURGE_INFLIGHT));
  EXPECT_FALSE(is_purge(RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE));
  EXPECT_TRUE(is_missing_topic(RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC));
  EXPECT_TRUE(is_missing_topic(RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART));
}

}  // namespace
}  // namespace outrider
