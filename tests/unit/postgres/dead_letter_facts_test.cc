#include "postgres/dead_letter_facts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using testing::HasSubstr;

QueryResult facts_with(const std::string& changed, const std::string& value) {
  QueryResult facts;
  facts.columns = {"standby",     "read_only", "database",  "role",         "has_schema",
                   "has_version", "has_table", "is_logged", "schema.USAGE", "v.SELECT",
                   "d.SELECT",    "d.INSERT",  "d.DELETE",  "d.UPDATE"};
  facts.rows.push_back(
      {"f", "f", "shop", "relay", "t", "t", "t", "t", "t", "t", "t", "t", "t", "t"});
  if (!changed.empty()) {
    facts.rows[0][facts.column(changed)] = value;
  }
  return facts;
}

QueryResult version_of(const std::string& version) {
  QueryResult rows;
  rows.columns = {"version"};
  rows.rows.push_back({version});
  return rows;
}

TEST(DeadLetterFacts, ATableAsItWasMadeIsAccepted) {
  EXPECT_TRUE(judge_dead_letter_facts(facts_with("", ""), false));
  EXPECT_TRUE(judge_dead_letter_version(version_of("1"), facts_with("", ""), false));
}

TEST(DeadLetterFacts, EachFaultHasItsCodeAndACommand) {
  struct Case {
    const char* column;
    const char* value;
    const char* code;
    const char* hint;
  };
  const Case cases[] = {
      {"has_schema", "f", "3F000", "psql -d shop -v role=relay -f sql/dead_letters.sql"},
      {"has_table", "f", "42P01", "outrider init"},
      {"has_version", "f", "42P01", "psql"},
      {"schema.USAGE", "f", "42501", "psql"},
      {"d.UPDATE", "f", "42501", "psql"},
      {"d.DELETE", "f", "42501", "--role relay --apply"},
      {"standby", "t", "25006", "set dead_letters.dsn"},
      {"read_only", "t", "25006", "set dead_letters.dsn"},
      {"is_logged", "f", "", "SET LOGGED"},
  };
  for (const Case& each : cases) {
    const Result<> judged = judge_dead_letter_facts(facts_with(each.column, each.value), false);
    ASSERT_FALSE(judged) << each.column;
    EXPECT_EQ(judged.error().kind, ErrorKind::configuration) << each.column;
    EXPECT_EQ(judged.error().code, each.code) << each.column;
    EXPECT_THAT(judged.error().hint, HasSubstr(each.hint));
  }
}

TEST(DeadLetterFacts, ADsnOfItsOwnIsNamedInTheHint) {
  EXPECT_THAT(judge_dead_letter_facts(facts_with("standby", "t"), true).error().hint,
              HasSubstr("point dead_letters.dsn at the primary"));
  EXPECT_THAT(judge_dead_letter_facts(facts_with("has_table", "f"), true).error().hint,
              HasSubstr("in dead_letters.dsn run: psql"));
}

TEST(DeadLetterFacts, NamesStandInQuotesWhereTheShellNeedsThem) {
  EXPECT_THAT(dead_letter_install_hint(facts_with("database", "my db's"), false),
              HasSubstr("psql -d 'my db'\\''s' -v"));
}

TEST(DeadLetterFacts, AnotherVersionIsRefusedWithTheWayOut) {
  const QueryResult facts = facts_with("", "");
  EXPECT_THAT(judge_dead_letter_version(version_of("2"), facts, false).error().hint,
              HasSubstr("newer release"));
  EXPECT_THAT(judge_dead_letter_version(version_of("0"), facts, false).error().hint,
              HasSubstr("outrider init --upgrade --apply"));
  QueryResult none;
  none.columns = {"version"};
  EXPECT_THAT(judge_dead_letter_version(none, facts, false).error().message,
              HasSubstr("version none"));
}

}  // namespace
}  // namespace outrider
