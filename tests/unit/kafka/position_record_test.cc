#include "kafka/position_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace outrider {
namespace {

using testing::HasSubstr;

const SlotIdentity kIdentity{"7301234567890123456", "shop \"eu\"", "outrider", 3};
const WallTime kTime{std::chrono::seconds(1'700'000'000)};

StoredPosition split_position() {
  StoredPosition position;
  position.identity = kIdentity;
  position.point.lsn = Lsn::from_wire(0x16B374D848);
  position.point.partial_commit_lsn = Lsn::from_wire(0x16B374E000);
  position.point.partial_rows = 100'001;
  position.point.retried_letter = 42;
  position.flushed = Lsn::from_wire(0x16B374D000);
  position.exactly_once = true;
  return position;
}

Error refused(std::string_view value) {
  const auto decoded = decode_position(value, kIdentity);
  return decoded ? Error{} : decoded.error();
}

TEST(PositionRecord, EncodesWhatTheAdrSays) {
  EXPECT_EQ(encode_position_key(kIdentity),
            R"({"v":1,"database":"shop \"eu\"","slot":"outrider"})");
  StoredPosition witness;
  witness.identity = kIdentity;
  witness.point.lsn = Lsn::from_wire(0x16B374D848);
  witness.flushed = Lsn::from_wire(0x16B2000000);
  witness.writer = "5eed";
  EXPECT_EQ(encode_position(witness, kTime),
            R"({"v":1,"kind":"witness","system_id":"7301234567890123456","timeline":3,)"
            R"("lsn":"16/B374D848","flushed_lsn":"16/B2000000","writer":"5eed",)"
            R"("written_at":"2023-11-14T22:13:20Z"})");
}

TEST(PositionRecord, WhatIsWrittenIsReadBack) {
  const StoredPosition position = split_position();
  const auto decoded = decode_position(encode_position(position, kTime), kIdentity);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->identity, position.identity);
  EXPECT_EQ(decoded->point, position.point);
  EXPECT_EQ(decoded->flushed, position.flushed);
  EXPECT_TRUE(decoded->exactly_once);
}

TEST(PositionRecord, KeyTellsOursFromOthersAndStrangers) {
  const auto judge = [](std::string_view key) {
    return judge_position_key(key, kIdentity).value();
  };
  EXPECT_EQ(judge(encode_position_key(kIdentity)), PositionKeyIs::ours);
  EXPECT_EQ(judge(R"( {"slot":"outrider","v":1,"database":"shop \"eu\""} )"), PositionKeyIs::ours);
  EXPECT_EQ(judge(R"({"v":1,"database":"shop","slot":"outrider"})"), PositionKeyIs::anothers);
  EXPECT_EQ(judge(R"({"v":9,"database":"shop","slot":"outrider"})"), PositionKeyIs::anothers);
  EXPECT_EQ(judge(""), PositionKeyIs::foreign);
  EXPECT_EQ(judge("key"), PositionKeyIs::foreign);
  EXPECT_EQ(judge(R"({"id":7})"), PositionKeyIs::foreign);
}

TEST(PositionRecord, NewerVersionsAreRefusedAndNamed) {
  const auto key = judge_position_key(R"({"v":2,"slot":"outrider","site":"eu"})", kIdentity);
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().kind, ErrorKind::configuration);
  EXPECT_THAT(key.error().message, HasSubstr("a newer Outrider wrote it (format 2"));
  const Error value = refused(R"({"v":7,"kind":"witness","new":[1]})");
  EXPECT_EQ(value.kind, ErrorKind::configuration);
  EXPECT_THAT(value.message, HasSubstr("format 7"));
}

TEST(PositionRecord, OfAnotherSystemIsReadLikeOurs) {
  StoredPosition position = split_position();
  position.identity.system_id = "1";
  position.identity.timeline = 9;
  const auto decoded = decode_position(encode_position(position, kTime), kIdentity);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(decoded->identity.system_id, "1");
  EXPECT_EQ(decoded->identity.timeline, 9u);
}

TEST(PositionRecord, AnythingElseIsRefused) {
  const std::string kind = R"({"v":1,"kind":"witness",)";
  const std::string named = kind + R"("system_id":"1","timeline":1,)";
  const std::string lsns = R"("lsn":"0/1","flushed_lsn":"0/1")";
  ASSERT_TRUE(decode_position(named + lsns + "}", kIdentity));
  for (const std::string& value :
       {std::string(), std::string("7"), std::string("{"), std::string(R"({"v":1})"),
        std::string(R"({"v":"1"})"), std::string(R"({"v":1,"v":1})"),
        R"({"v":1,"kind":"other","system_id":"1","timeline":1,)" + lsns + "}",
        kind + R"("system_id":1,"timeline":1,)" + lsns + "}",
        kind + R"("system_id":"1","timeline":-1,)" + lsns + "}",
        named + R"("lsn":"zero","flushed_lsn":"0/1"})", named + R"("lsn":"0/1"})",
        named + lsns + R"(,"x":1})", named + lsns + R"(,"partial_rows":3})",
        named + lsns + "} x"}) {
    EXPECT_EQ(refused(value).kind, ErrorKind::configuration) << value;
    EXPECT_THAT(refused(value).hint, HasSubstr("delivery.position_topic")) << value;
  }
}

}  // namespace
}  // namespace outrider
