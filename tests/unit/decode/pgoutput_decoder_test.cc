#include "decode/pgoutput_decoder.h"

#include <gmock/gmock.h>

#include "unit/decode/decode_testing.h"

namespace outrider::testing {
namespace {

using ::testing::HasSubstr;

constexpr std::uint32_t kOid = 4'000'000'001;

std::string relation(const std::vector<Column>& columns, std::string_view table = "outbox",
                     std::uint32_t oid = kOid) {
  Bytes bytes('R');
  bytes.u32(oid).c_string("public").c_string(table).byte('d').u16(columns.size());
  for (const Column& column : columns) {
    bytes.u8(1).c_string(column.name).u32(column.type_oid).u32(0xFFFFFFFF);
  }
  return bytes.str();
}

Bytes insert(std::size_t columns) {
  Bytes bytes('I');
  bytes.u32(kOid).byte('N').u16(columns);
  return bytes;
}

const std::vector<Column> kColumns = {{"id", kInt8Oid}, {"payload", kTextOid}};

Session session_with(const std::vector<Column>& columns) {
  Session session(make_pgoutput_decoder());
  expect_change<Skipped>(session.decode(relation(columns)));
  return session;
}

std::uint64_t layout_of(Session& session, std::size_t columns) {
  Bytes bytes = insert(columns);
  for (std::size_t i = 0; i < columns; ++i) {
    bytes.byte('n');
  }
  Insert change = expect_change<Insert>(session.decode(bytes.str()));
  return change.relation == nullptr ? 0 : change.relation->layout_id;
}

std::vector<std::string> one_of_each() {
  return {
      Bytes('B').u64(0x100).u64(1).u32(7).str(),
      Bytes('C').u8(0).u64(0x100).u64(0x128).u64(1).str(),
      Bytes('O').u64(1).c_string("origin").str(),
      Bytes('Y').u32(9).c_string("public").c_string("mood").str(),
      relation(kColumns),
      insert(2).text("1").byte('n').str(),
      Bytes('U').u32(kOid).byte('N').u16(2).text("1").byte('u').str(),
      Bytes('U').u32(kOid).byte('K').u16(1).text("1").byte('N').u16(1).byte('n').str(),
      Bytes('D').u32(kOid).byte('O').u16(1).text("1").str(),
      Bytes('T').u32(2).u8(1).u32(kOid).u32(5).str(),
      Bytes('M').u8(1).u64(0x90).c_string("prefix").u32(3).raw("abc").str(),
  };
}

TEST(PgoutputDecoder, ReadsBegin) {
  Session session(make_pgoutput_decoder());
  Begin begin = expect_change<Begin>(
      session.decode(Bytes('B').u64(0x1'0000'0002).u64(1'500'000).u32(0xFFFFFFFE).str()));
  EXPECT_EQ(begin.commit_lsn, Lsn::from_wire(0x1'0000'0002));
  EXPECT_EQ(begin.xid, 0xFFFFFFFE);
  EXPECT_EQ(begin.commit_time.time_since_epoch().count(), 946'684'801'500'000);
}

TEST(PgoutputDecoder, ReadsCommitTimeBeforeItsEpoch) {
  Session session(make_pgoutput_decoder());
  std::uint64_t minus_one = ~std::uint64_t{0};
  Begin begin = expect_change<Begin>(session.decode(Bytes('B').u64(1).u64(minus_one).u32(1).str()));
  EXPECT_EQ(begin.commit_time.time_since_epoch().count(), 946'684'799'999'999);
}

TEST(PgoutputDecoder, RefusesCommitTimeThatWouldWrap) {
  Session session(make_pgoutput_decoder());
  std::string message = Bytes('B').u64(1).u64(0x7FFFFFFFFFFFFFFF).u32(1).str();
  EXPECT_THAT(expect_poison(session.decode(message)), HasSubstr("out of range"));
}

TEST(PgoutputDecoder, ReadsBothPositionsOfCommit) {
  Session session(make_pgoutput_decoder());
  Commit commit =
      expect_change<Commit>(session.decode(Bytes('C').u8(0).u64(0x100).u64(0x128).u64(9).str()));
  EXPECT_EQ(commit.commit_lsn, Lsn::from_wire(0x100));
  EXPECT_EQ(commit.commit_end_lsn, Lsn::from_wire(0x128));
}

TEST(PgoutputDecoder, ReadsInsertAsViewsIntoThePayload) {
  Session session = session_with(kColumns);
  Insert change =
      expect_change<Insert>(session.decode(insert(2).text("9223372036854775807").byte('n').str()));
  ASSERT_EQ(change.values.size(), 2U);
  EXPECT_EQ(change.values[0].text, "9223372036854775807");
  EXPECT_EQ(change.values[1].state, ColumnValue::State::null);
  EXPECT_EQ(change.root, nullptr);
  EXPECT_EQ(change.relation->columns, kColumns);
  EXPECT_EQ(change.relation->name, (QualifiedName{"public", "outbox"}));
}

TEST(PgoutputDecoder, TellsEmptyTextFromNull) {
  Session session = session_with(kColumns);
  Insert change = expect_change<Insert>(session.decode(insert(2).text("").byte('n').str()));
  ASSERT_EQ(change.values.size(), 2U);
  EXPECT_EQ(change.values[0].state, ColumnValue::State::text);
  EXPECT_EQ(change.values[1].state, ColumnValue::State::null);
}

TEST(PgoutputDecoder, KeepsZeroBytesAndUnchangedColumns) {
  Session session = session_with(kColumns);
  Insert change =
      expect_change<Insert>(session.decode(insert(2).text({"a\0b", 3}).byte('u').str()));
  ASSERT_EQ(change.values.size(), 2U);
  EXPECT_EQ(change.values[0].text, std::string_view("a\0b", 3));
  EXPECT_EQ(change.values[1].state, ColumnValue::State::unchanged_toast);
}

TEST(PgoutputDecoder, ReadsHugeColumn) {
  Session session = session_with(kColumns);
  std::string huge(5'000'000, 'x');
  Insert change = expect_change<Insert>(session.decode(insert(2).text(huge).byte('n').str()));
  ASSERT_EQ(change.values.size(), 2U);
  EXPECT_EQ(change.values[0].text, huge);
}

TEST(PgoutputDecoder, GivesByteaAsBareHexButNotADomainOverIt) {
  Session session = session_with({{"a", kByteaOid}, {"b", 4'000'000'123}, {"c", kByteaOid}});
  Insert change = expect_change<Insert>(
      session.decode(insert(3).text("\\xdeadbeef").text("\\x00ff").text("\\x").str()));
  ASSERT_EQ(change.values.size(), 3U);
  EXPECT_EQ(change.values[0].text, "deadbeef");
  EXPECT_EQ(change.values[1].text, "\\x00ff");
  EXPECT_EQ(change.values[2].text, "");
  EXPECT_EQ(change.values[2].state, ColumnValue::State::text);
}

TEST(PgoutputDecoder, RefusesByteaInEscapeForm) {
  Session session = session_with({{"blob", kByteaOid}});
  auto change = session.decode(insert(1).text("abc").str());
  EXPECT_THAT(expect_poison(change), HasSubstr("\"blob\""));
  EXPECT_THAT(change.error().hint, HasSubstr("bytea_output"));
}

TEST(PgoutputDecoder, RefusesColumnCountOfAnotherLayout) {
  Session session = session_with(kColumns);
  EXPECT_THAT(expect_poison(session.decode(insert(1).text("1").str())),
              HasSubstr("it has 1 columns, the relation \"public.outbox\" has 2"));
  EXPECT_THAT(expect_poison(session.decode(insert(3).byte('n').byte('n').byte('n').str())),
              HasSubstr("3 columns"));
}

TEST(PgoutputDecoder, RefusesBinaryColumnByName) {
  Session session = session_with(kColumns);
  std::string message = insert(2).byte('b').u32(1).raw("x").byte('n').str();
  EXPECT_THAT(expect_poison(session.decode(message)), HasSubstr("\"id\""));
}

TEST(PgoutputDecoder, RefusesUnknownKindsOfColumnAndTuple) {
  Session session = session_with(kColumns);
  expect_poison(session.decode(insert(2).byte('x').byte('n').str()));
  expect_poison(session.decode(Bytes('I').u32(kOid).byte('K').u16(0).str()));
  expect_poison(session.decode(Bytes('U').u32(kOid).byte('Z').u16(0).str()));
  expect_poison(session.decode(Bytes('D').u32(kOid).byte('N').u16(0).str()));
  expect_poison(session.decode(Bytes('D').u32(kOid).byte('K').u16(1).byte('x').str()));
}

TEST(PgoutputDecoder, RefusesRowOfUndescribedRelation) {
  Session session(make_pgoutput_decoder());
  EXPECT_THAT(expect_poison(session.decode(insert(0).str())), HasSubstr("OID 4000000001"));
}

TEST(PgoutputDecoder, KeepsLayoutIdOfRepeatedRelation) {
  Session session = session_with(kColumns);
  std::uint64_t before = layout_of(session, 2);
  expect_change<Skipped>(session.decode(relation(kColumns)));
  EXPECT_EQ(layout_of(session, 2), before);
}

TEST(PgoutputDecoder, NeverUsesALayoutIdTwice) {
  Session session = session_with(kColumns);
  std::vector<std::uint64_t> ids = {layout_of(session, 2)};
  std::vector<Column> retyped = {{"id", kInt8Oid}, {"payload", kJsonbOid}};
  for (const auto& message : {relation(retyped), relation(kColumns), relation(kColumns, "moved")}) {
    expect_change<Skipped>(session.decode(message));
    ids.push_back(layout_of(session, 2));
  }
  session.decoder().reset();
  expect_change<Skipped>(session.decode(relation(kColumns, "moved")));
  ids.push_back(layout_of(session, 2));
  EXPECT_THAT(ids, ::testing::ElementsAre(1, 2, 3, 4, 5));
}

TEST(PgoutputDecoder, ForgetsRelationsAtReset) {
  Session session = session_with(kColumns);
  session.decoder().reset();
  expect_poison(session.decode(insert(2).byte('n').byte('n').str()));
}

TEST(PgoutputDecoder, KeepsRelationsApartByOid) {
  Session session = session_with(kColumns);
  expect_change<Skipped>(session.decode(relation({{"x", kTextOid}}, "other", 5)));
  Insert other =
      expect_change<Insert>(session.decode(Bytes('I').u32(5).byte('N').u16(1).text("v").str()));
  EXPECT_EQ(to_row(other).table.table, "other");
  EXPECT_NE(layout_of(session, 2), 0U);
}

TEST(PgoutputDecoder, NamesTheSchemaThatTheServerLeavesOut) {
  Session session(make_pgoutput_decoder());
  expect_change<Skipped>(
      session.decode(Bytes('R').u32(kOid).c_string("").c_string("t").byte('d').u16(0).str()));
  EXPECT_EQ(to_row(expect_change<Insert>(session.decode(insert(0).str()))).table.schema,
            "pg_catalog");
}

TEST(PgoutputDecoder, SkipsWhatNeverBecomesAnEvent) {
  using What = Skipped::What;
  std::vector<std::string> messages = one_of_each();
  std::vector<std::pair<std::size_t, What>> expected = {
      {2, What::other},  {3, What::other},  {4, What::other},   {6, What::update},
      {7, What::update}, {8, What::remove}, {9, What::truncate}};
  Session session(make_pgoutput_decoder());
  for (auto [index, what] : expected) {
    EXPECT_EQ(expect_change<Skipped>(session.decode(messages[index])).what, what) << index;
  }
}

TEST(PgoutputDecoder, IgnoresUnrequestedStreamAndTwoPhaseMessages) {
  Session session(make_pgoutput_decoder());
  for (char type : std::string("SEcApbPKr")) {
    EXPECT_EQ(expect_change<Skipped>(session.decode(Bytes(type).u32(7).str())).what,
              Skipped::What::other)
        << type;
  }
}

TEST(PgoutputDecoder, ReadsLogicalMessage) {
  Session session(make_pgoutput_decoder());
  std::string content("a\0b", 3);
  LogicalMessage message = expect_change<LogicalMessage>(
      session.decode(Bytes('M').u8(0).u64(0x90).c_string("p").u32(3).raw(content).str()));
  EXPECT_FALSE(message.transactional);
  EXPECT_EQ(message.lsn, Lsn::from_wire(0x90));
  EXPECT_EQ(message.prefix, "p");
  EXPECT_EQ(message.content, content);
  message = expect_change<LogicalMessage>(session.decode(one_of_each().back()));
  EXPECT_TRUE(message.transactional);
}

TEST(PgoutputDecoder, RefusesEveryTruncation) {
  for (const std::string& message : one_of_each()) {
    Session session = session_with(kColumns);
    for (std::size_t size = 0; size < message.size(); ++size) {
      EXPECT_THAT(expect_poison(session.decode(message.substr(0, size))), HasSubstr("at byte "))
          << message[0] << " cut to " << size;
    }
    EXPECT_TRUE(session.decode(message).has_value()) << message[0];
  }
}

TEST(PgoutputDecoder, RefusesTrailingBytes) {
  Session session = session_with(kColumns);
  for (const std::string& message : one_of_each()) {
    EXPECT_THAT(expect_poison(session.decode(message + '\0')), HasSubstr("1 bytes follow"));
  }
}

TEST(PgoutputDecoder, KeepsTheOldLayoutWhenARelationIsCutShort) {
  Session session = session_with(kColumns);
  std::string changed = relation({{"only", kTextOid}});
  expect_poison(session.decode(changed.substr(0, changed.size() - 1)));
  EXPECT_EQ(layout_of(session, 2), 1U);
}

TEST(PgoutputDecoder, RefusesUnknownMessageType) {
  Session session(make_pgoutput_decoder());
  EXPECT_THAT(expect_poison(session.decode("{\"action\":\"B\"}")), HasSubstr("type '{'"));
  EXPECT_THAT(expect_poison(session.decode(std::string(1, '\x01'))), HasSubstr("type 0x01"));
}

}  // namespace
}  // namespace outrider::testing
