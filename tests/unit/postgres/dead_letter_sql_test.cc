#include "postgres/dead_letter_sql.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "postgres/binary_values.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using testing::Not;

const SlotIdentity kIdentity = {"7001", "app", "outrider", 1};

TEST(DeadLetterReason, EveryReasonHasAWordThatReadsBack) {
  for (const auto& [reason, word] : kDeadLetterReasons) {
    EXPECT_STREQ(to_string(reason), word);
    EXPECT_EQ(parse_dead_letter_reason(word), reason);
  }
  EXPECT_EQ(parse_dead_letter_reason("lost"), std::nullopt);
  EXPECT_EQ(parse_dead_letter_reason(""), std::nullopt);
}

DeadLetter letter_with(const KafkaRecord* record) {
  DeadLetter letter;
  letter.row = {Lsn::from_wire(0x16B3748), 3};
  letter.event = {"public.outbox", "e1", "order_placed", "o1"};
  letter.record = record;
  letter.reason = DeadLetterReason::too_large;
  letter.parked_key = "o1";
  return letter;
}

TEST(DeadLetterSql, CountsEveryByteOfTheRow) {
  KafkaRecord record;
  record.topic = "t";
  record.key = "kk";
  record.value = "vvv";
  record.headers = {{"h", "x"}, {"n", std::nullopt}};
  EXPECT_EQ(letter_bytes(letter_with(nullptr)), 13U + 2 + 12 + 2 + 2);
  EXPECT_EQ(letter_bytes(letter_with(&record)), 31U + 1 + 2 + 3 + 2 + 1);
  EXPECT_EQ(encode_letter(letter_with(&record)).bytes, 40U);
}

TEST(DeadLetterSql, InsertsAllLettersWithOneStatementThatKnowsTheirNames) {
  KafkaRecord record;
  record.topic = "t";
  const EncodedLetter mapped = encode_letter(letter_with(&record));
  DeadLetter follower = letter_with(nullptr);
  follower.attempts = 0;
  const EncodedLetter raw = encode_letter(follower);
  const Statement statement = insert_statement(
      kIdentity, {{&mapped, std::chrono::milliseconds(70)}, {&raw, {}}}, std::chrono::seconds(5));
  EXPECT_THAT(statement.sql, HasSubstr("ON CONSTRAINT dead_letters_row DO NOTHING"));
  EXPECT_THAT(statement.sql, HasSubstr("NULL::timestamptz)"));
  EXPECT_EQ(statement.parameters.size(), 3 + 2 * (mapped.columns.size() + 1));
  EXPECT_THAT(statement.sql, HasSubstr("$" + std::to_string(statement.parameters.size())));
  EXPECT_THAT(statement.sql, Not(HasSubstr("$" + std::to_string(statement.parameters.size() + 1))));
  EXPECT_EQ(*statement.parameters[2].bytes, "5000 milliseconds");
  EXPECT_THAT(statement.sql, Not(HasSubstr("order_placed")));
}

TEST(DeadLetterSql, AStatementKeepsItsParametersWhenItIsMoved) {
  Statement first = delete_statement(kIdentity, {1, 2});
  const Statement second = std::move(first);
  EXPECT_EQ(*second.parameters[0].bytes, "7001");
  EXPECT_EQ(*second.parameters[1].bytes, "outrider");
  EXPECT_EQ(*second.parameters[2].bytes, binary_int8_array({1, 2}));
}

TEST(DeadLetterSql, MakesTextForAnyEncodingOfNamesAndKeepsMessagesShort) {
  DeadLetter letter = letter_with(nullptr);
  const std::string code = "_MSG\n\xc3\xa4";
  const std::string message(100'000, 'm');
  letter.code = code;
  letter.message = message;
  const auto columns = encode_letter(letter).columns;
  EXPECT_EQ(columns[19], "_MSG???");
  EXPECT_EQ(columns[20]->size(), 8192U);
}

TEST(DeadLetterSql, AFetchSeesOwnLettersOnlyAndAsksNothingThatIsNotInTheFilter) {
  const Statement all = fetch_statement(kIdentity, {{}, 41, 10, 5});
  EXPECT_THAT(all.sql, HasSubstr("system_id = $1 AND slot = $2 AND d.number > $3 ORDER BY"));
  EXPECT_THAT(all.sql, HasSubstr("LIMIT 10"));
  EXPECT_EQ(*all.parameters[2].bytes, binary_int8(41));
  EXPECT_EQ(all.parameters.size(), 3U);
}

TEST(DeadLetterSql, EveryFieldOfTheFilterIsACondition) {
  LetterFetch fetch;
  fetch.filter.reason = DeadLetterReason::too_large;
  fetch.filter.event_type = "t";
  fetch.filter.aggregate_id = "a";
  fetch.filter.parked_key = "k";
  fetch.filter.numbers = {1};
  fetch.filter.event_ids = {"e"};
  fetch.filter.older_than = std::chrono::hours(1);
  fetch.filter.due_only = true;
  const Statement statement = fetch_statement(kIdentity, fetch);
  for (const char* part :
       {"d.reason = $4", "d.event_type = $5", "d.aggregate_id = $6", "d.parked_key = $7",
        "sha256(d.parked_key) = sha256($8)", "d.number = ANY ($9)", "d.event_id = ANY ($10)",
        "d.last_failure <= statement_timestamp() - $11::interval", "d.attempts < $12"}) {
    EXPECT_THAT(statement.sql, HasSubstr(part));
  }
  EXPECT_EQ(*statement.parameters[10].bytes, "3600 seconds");
}

TEST(DeadLetterSql, ARefusalIsCountedOnceByItsToken) {
  const Statement statement =
      refusal_statement(kIdentity, {9, false, "C", "m", std::chrono::milliseconds(1500)}, 77);
  EXPECT_THAT(statement.sql, HasSubstr("attempts = attempts + 1"));
  EXPECT_THAT(statement.sql, HasSubstr("last_outcome IS DISTINCT FROM $3"));
  EXPECT_EQ(*statement.parameters[2].bytes, binary_int8(77));
}

QueryResult one_row(std::size_t header_values) {
  const std::vector<std::optional<std::string_view>> names = {"h"};
  const std::vector<std::optional<std::string_view>> values(header_values, std::nullopt);
  QueryResult rows;
  rows.columns = {"number",       "commit_lsn",   "index_in_transaction",
                  "commit_time",  "table_name",   "event_id",
                  "event_type",   "aggregate_id", "mapped",
                  "topic",        "partition",    "key",
                  "payload",      "header_names", "header_values",
                  "timestamp_ms", "raw_row",      "reason",
                  "parked_key",   "attempts",     "code",
                  "message",      "last_failure", "retry_after"};
  rows.rows.push_back({binary_int8(5),
                       binary_int8(0x16B3748),
                       binary_int8(2),
                       binary_timestamptz(WallTime{}),
                       "t",
                       "e",
                       "et",
                       "a",
                       binary_bool(true),
                       "topic",
                       binary_int4(4),
                       std::nullopt,
                       "",
                       binary_bytea_array(names),
                       binary_bytea_array(values),
                       binary_int8(-1),
                       "",
                       "a later word",
                       std::nullopt,
                       binary_int4(3),
                       "C",
                       "m",
                       binary_timestamptz(WallTime{}),
                       std::nullopt});
  return rows;
}

TEST(DeadLetterSql, ReadsALetterBack) {
  const auto letters = read_letters(one_row(1));
  ASSERT_TRUE(letters.has_value());
  const StoredLetter& letter = letters->at(0);
  EXPECT_EQ(letter.number, 5);
  EXPECT_EQ(letter.row, (RowPlace{Lsn::from_wire(0x16B3748), 2}));
  EXPECT_TRUE(letter.mapped);
  EXPECT_EQ(letter.partition, 4);
  EXPECT_EQ(letter.key, std::nullopt);
  EXPECT_EQ(letter.value, "");
  EXPECT_EQ(letter.headers.at(0).second, std::nullopt);
  EXPECT_EQ(letter.timestamp_ms, -1);
  EXPECT_EQ(letter.reason, DeadLetterReason::refused);
  EXPECT_EQ(letter.attempts, 3U);
  EXPECT_EQ(letter.code + letter.message, "Cm");
  EXPECT_EQ(letter.failed_at, WallTime{});
  EXPECT_EQ(letter.retry_after, std::nullopt);
}

TEST(DeadLetterSql, ARowChangedByHandIsNamed) {
  const auto letters = read_letters(one_row(2));
  ASSERT_FALSE(letters.has_value());
  EXPECT_EQ(letters.error().kind, ErrorKind::configuration);
  EXPECT_THAT(letters.error().message, HasSubstr("dead letter 5"));
}

TEST(DeadLetterSql, ReadsAParkedKeyWithItsFirstRow) {
  QueryResult rows;
  rows.columns = {"parked_key", "commit_lsn", "index_in_transaction"};
  rows.rows.push_back({"k", binary_int8(0x16B3748), binary_int8(2)});
  const auto keys = read_parked_keys(rows);
  ASSERT_TRUE(keys.has_value());
  EXPECT_EQ(keys->at(0).key, "k");
  EXPECT_EQ(keys->at(0).first, (RowPlace{Lsn::from_wire(0x16B3748), 2}));
  rows.rows[0][1] = "4 bytes";
  EXPECT_FALSE(read_parked_keys(rows).has_value());
}

}  // namespace
}  // namespace outrider
