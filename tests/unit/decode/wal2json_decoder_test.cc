#include "decode/wal2json_decoder.h"

#include <gmock/gmock.h>

#include "unit/decode/decode_testing.h"

namespace outrider::testing {
namespace {

using ::testing::HasSubstr;

std::string insert(std::string_view columns, std::string_view table = "outbox") {
  return R"({"action":"I","timestamp":"2026-11-30 19:01:02+00","lsn":"0/1","schema":"public",)"
         R"("table":")" +
         std::string(table) + R"(","columns":[)" + std::string(columns) + "]}";
}

std::string column(std::string_view name, std::string_view type_oid, std::string_view value) {
  return R"({"name":")" + std::string(name) + R"(","typeoid":)" + std::string(type_oid) +
         R"(,"value":)" + std::string(value) + "}";
}

const std::string kBegin =
    R"({"action":"B","timestamp":"2026-11-30 19:01:02.1132+00","lsn":"1/A","nextlsn":"1/B"})";
const std::string kCommit =
    R"({"action":"C","timestamp":"2026-11-30 19:01:02+00","lsn":"1/A","nextlsn":"1/B0"})";
const std::string kMessage =
    R"({"action":"M","timestamp":null,"lsn":"0/90","transactional":false,"prefix":"p\"",)"
    R"("content":""})";
const std::string kTruncate = R"({"action":"T","lsn":"0/1","schema":"public","table":"outbox"})";

Session new_session() { return Session(make_wal2json_decoder()); }

std::optional<std::string> only_value(const Result<Change>& change) {
  Row row = to_row(expect_change<Insert>(change));
  EXPECT_EQ(row.values.size(), 1U);
  return row.values.empty() ? std::nullopt : row.values[0];
}

std::optional<std::string> value_of(std::string_view type_oid, std::string_view json) {
  Session session = new_session();
  return only_value(session.decode(insert(column("c", type_oid, json))));
}

std::uint64_t layout_of(Session& session, std::string_view columns,
                        std::string_view table = "outbox") {
  Insert change = expect_change<Insert>(session.decode(insert(columns, table)));
  return change.relation == nullptr ? 0 : change.relation->layout_id;
}

/// `message` without the member of that key.
std::string without(std::string message, const std::string& key) {
  std::size_t start = message.find("\"" + key + "\":");
  std::size_t end = message.find(",\"", start);
  if (end == std::string::npos) {
    message.erase(start - 1, message.size() - start);
  } else {
    message.erase(start, end + 1 - start);
  }
  return message;
}

TEST(Wal2jsonDecoder, ReadsBegin) {
  Session session = new_session();
  Begin begin = expect_change<Begin>(session.decode(kBegin));
  EXPECT_EQ(begin.commit_lsn, Lsn::from_wire(0x1'0000'000A));
  EXPECT_EQ(begin.commit_time.time_since_epoch().count(), 1'796'065'262'113'200);
  EXPECT_EQ(begin.xid, 0U);
  std::string with_xid = R"({"action":"B","xid":4294967295,)" + kBegin.substr(14);
  EXPECT_EQ(expect_change<Begin>(session.decode(with_xid)).xid, 4294967295);
}

TEST(Wal2jsonDecoder, ReadsBothPositionsOfCommit) {
  Session session = new_session();
  Commit commit = expect_change<Commit>(session.decode(kCommit));
  EXPECT_EQ(commit.commit_lsn, Lsn::from_wire(0x1'0000'000A));
  EXPECT_EQ(commit.commit_end_lsn, Lsn::from_wire(0x1'0000'00B0));
}

TEST(Wal2jsonDecoder, ReadsLogicalMessageOutsideATransaction) {
  Session session = new_session();
  LogicalMessage message = expect_change<LogicalMessage>(session.decode(kMessage));
  EXPECT_FALSE(message.transactional);
  EXPECT_EQ(message.lsn, Lsn::from_wire(0x90));
  EXPECT_EQ(message.prefix, "p\"");
  EXPECT_EQ(message.content, "");
}

TEST(Wal2jsonDecoder, SkipsWhatNeverBecomesAnEvent) {
  using What = Skipped::What;
  Session session = new_session();
  std::string update = insert(column("id", "20", "1"));
  update.replace(update.find("\"I\""), 3, "\"U\"");
  std::string remove = R"({"action":"D","schema":"s","table":"t","identity":[{"name":"id"}]})";
  EXPECT_EQ(expect_change<Skipped>(session.decode(update)).what, What::update);
  EXPECT_EQ(expect_change<Skipped>(session.decode(remove)).what, What::remove);
  EXPECT_EQ(expect_change<Skipped>(session.decode(kTruncate)).what, What::truncate);
}

TEST(Wal2jsonDecoder, CopiesDigitsAsText) {
  EXPECT_EQ(value_of("20", "9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(value_of("20", "9007199254740993"), "9007199254740993");
  EXPECT_EQ(value_of("1700", "1.10"), "1.10");
  EXPECT_EQ(value_of("701", "-1e+300"), "-1e+300");
  std::string extreme = "-" + std::string(131'072, '9') + "." + std::string(16'383, '0');
  EXPECT_EQ(value_of("1700", extreme), extreme);
}

TEST(Wal2jsonDecoder, GivesCanonicalTextOfEachKindOfValue) {
  EXPECT_EQ(value_of("16", "true"), "t");
  EXPECT_EQ(value_of("16", "false"), "f");
  EXPECT_EQ(value_of("17", "\"deadbeef\""), "deadbeef");
  EXPECT_EQ(value_of("25", "\"\""), "");
  EXPECT_EQ(value_of("25", "null"), std::nullopt);
}

TEST(Wal2jsonDecoder, PassesEscapesOfAJsonColumnThrough) {
  EXPECT_EQ(value_of("114", R"("{\"a\":\"\\u0000\\ud800\"}")"), R"({"a":"\u0000\ud800"})");
  EXPECT_EQ(value_of("25", R"("a\u0000b\u0001")"), std::string("a\0b\x01", 4));
  EXPECT_EQ(value_of("25", "\"\xE2\x80\xA8\xEF\xBB\xBF\xF0\x9F\x98\x80\""),
            "\xE2\x80\xA8\xEF\xBB\xBF\xF0\x9F\x98\x80");
  EXPECT_EQ(value_of("25", "\"stray \xFF\xFE\""), "stray \xFF\xFE");
}

TEST(Wal2jsonDecoder, ReadsNegativeTypeOidAsUnsigned) {
  Session session = new_session();
  Row row = to_row(expect_change<Insert>(session.decode(insert(column("c", "-1294967293", "1")))));
  ASSERT_EQ(row.columns.size(), 1U);
  EXPECT_EQ(row.columns[0].type_oid, 3'000'000'003U);
}

TEST(Wal2jsonDecoder, RefusesTypeOidThatIsNone) {
  Session session = new_session();
  for (const char* type_oid : {"4294967296", "-2147483649", "1.5", "\"25\"", "null"}) {
    EXPECT_THAT(expect_poison(session.decode(insert(column("c", type_oid, "1")))),
                HasSubstr("typeoid"));
  }
}

TEST(Wal2jsonDecoder, NamesTheOptionThatIsMissing) {
  Session session = new_session();
  auto hint_without = [&session](const std::string& message, const std::string& key) {
    auto change = session.decode(without(message, key));
    EXPECT_THAT(expect_poison(change), HasSubstr("\"" + key + "\""));
    return change.has_value() ? std::string() : change.error().hint;
  };
  EXPECT_THAT(hint_without(kBegin, "action"), HasSubstr("format-version"));
  EXPECT_THAT(hint_without(kBegin, "lsn"), HasSubstr("include-lsn"));
  EXPECT_THAT(hint_without(kBegin, "timestamp"), HasSubstr("include-timestamp"));
  EXPECT_THAT(hint_without(kCommit, "lsn"), HasSubstr("include-lsn"));
  EXPECT_THAT(hint_without(kCommit, "nextlsn"), HasSubstr("include-lsn"));
  EXPECT_THAT(hint_without(kMessage, "lsn"), HasSubstr("include-lsn"));
  std::string row = insert(column("id", "20", "1"));
  EXPECT_THAT(hint_without(row, "schema"), HasSubstr("include-schemas"));
  EXPECT_THAT(hint_without(row, "table"), HasSubstr("format-version"));
  EXPECT_THAT(hint_without(row, "typeoid"), HasSubstr("include-type-oids"));
}

TEST(Wal2jsonDecoder, RefusesFormatVersionOne) {
  Session session = new_session();
  auto change = session.decode(R"({"change":[{"kind":"insert"}]})");
  expect_poison(change);
  EXPECT_THAT(change.error().hint, HasSubstr("format-version"));
}

TEST(Wal2jsonDecoder, RefusesFieldsThatCannotBeRead) {
  Session session = new_session();
  for (const char* message :
       {R"({"action":"X"})", R"({"action":1})", R"({"action":"B","lsn":"zz","timestamp":"x"})",
        R"({"action":"B","lsn":"0/1","timestamp":"yesterday"})",
        R"({"action":"B","xid":-1,"lsn":"0/1"})", R"({"action":"M","lsn":"0/1"})",
        R"({"action":"I","schema":"s","table":"t"})",
        R"({"action":"I","schema":"s","table":"t","columns":{}})",
        R"({"action":"I","schema":"s","table":"t","columns":[],"columns":[]})",
        R"({"action":"I","schema":"s","table":"t","columns":[1]})",
        R"({"action":"I","schema":"s","table":"t","columns":[{"name":"a","typeoid":25}]})",
        R"({"action":"I","schema":"s","table":"t","columns":[{"typeoid":25,"value":1}]})",
        R"({"action":"I","schema":"s","table":"t","columns":[)"
        R"({"name":"a","typeoid":25,"value":[]}]})"}) {
    SCOPED_TRACE(message);
    expect_poison(session.decode(message));
  }
}

TEST(Wal2jsonDecoder, IgnoresUnknownKeysAndTheOrderOfKnownOnes) {
  Session session = new_session();
  Row row = to_row(expect_change<Insert>(session.decode(
      R"( {"new":{"a":[1,{"b":null}]},"columns":[{"value":"v","position":1,"typeoid":25,)"
      R"("name":"c"}],"table":"t","schema":"s","action":"I"} )")));
  EXPECT_EQ(row.table, (QualifiedName{"s", "t"}));
  EXPECT_EQ(row.columns, (std::vector<Column>{{"c", kTextOid}}));
  EXPECT_EQ(row.values, (std::vector<std::optional<std::string>>{"v"}));
}

TEST(Wal2jsonDecoder, ReadsTableWithoutColumns) {
  Session session = new_session();
  EXPECT_TRUE(expect_change<Insert>(session.decode(insert(""))).values.empty());
}

TEST(Wal2jsonDecoder, ReadsHugeColumn) {
  std::string huge(5'000'000, 'x');
  EXPECT_EQ(value_of("25", "\"\\n" + huge + "\""), "\n" + huge);
}

TEST(Wal2jsonDecoder, RefusesEveryTruncation) {
  std::string row =
      insert(column("id", "20", "-1.5e7") + "," + column("b", "16", "true") + "," +
             column("t", "25", R"("a\n\u00e9\ud83d\ude00")") + "," + column("n", "25", "null"));
  for (const std::string& message : {kBegin, kCommit, kMessage, kTruncate, row}) {
    Session session = new_session();
    for (std::size_t size = 0; size < message.size(); ++size) {
      EXPECT_THAT(expect_poison(session.decode(message.substr(0, size))), HasSubstr("at byte "))
          << message.substr(0, size);
    }
    EXPECT_TRUE(session.decode(message).has_value()) << message;
  }
}

TEST(Wal2jsonDecoder, RefusesTrailingBytes) {
  Session session = new_session();
  expect_poison(session.decode(kBegin + "x"));
  expect_poison(session.decode(kBegin + '\0'));
  EXPECT_TRUE(session.decode(kBegin + "\n").has_value());
}

TEST(Wal2jsonDecoder, NeverUsesALayoutIdTwice) {
  Session session = new_session();
  std::string one = column("id", "20", "1");
  std::string two = one + "," + column("extra", "25", "\"x\"");
  EXPECT_EQ(layout_of(session, one), 1U);
  EXPECT_EQ(layout_of(session, column("id", "20", "2")), 1U);
  EXPECT_EQ(layout_of(session, two), 2U);
  EXPECT_EQ(layout_of(session, column("id", "23", "1")), 3U);
  EXPECT_EQ(layout_of(session, one, "other"), 4U);
  EXPECT_EQ(layout_of(session, two), 2U);
  session.decoder().reset();
  EXPECT_EQ(layout_of(session, one), 5U);
}

}  // namespace
}  // namespace outrider::testing
