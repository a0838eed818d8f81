#include "postgres/doctor_facts.h"

#include <gtest/gtest.h>

#include "postgres/dead_letter_schema.h"
#include "unit/postgres/fake_catalog.h"

namespace outrider {
namespace {

TEST(DoctorFacts, KnowsEveryColumnOfTheDeadLetterTable) {
  const std::string sql = dead_letter_objects_sql();
  const std::size_t begin = sql.find("CREATE TABLE IF NOT EXISTS outrider.dead_letters");
  const std::size_t end = sql.find("CONSTRAINT dead_letters_row");
  std::size_t lines = 0;
  for (std::size_t at = sql.find("\n  ", begin); at < end; at = sql.find("\n  ", at + 1)) ++lines;
  EXPECT_EQ(dead_letter_column_names().size(), lines - 1);  // The last line is the constraint.
  for (const std::string& name : dead_letter_column_names()) {
    EXPECT_LT(sql.find("\n  " + name + " ", begin), end) << name;
  }
}

TEST(DoctorFacts, NamesTheColumnsThatAreMissingAndFindsTheView) {
  std::vector<Row> rows;
  for (const std::string& name : dead_letter_column_names()) {
    if (name != "raw_row") rows.push_back({{"relname", "dead_letters"}, {"attname", name}});
  }
  DeadLetterColumns found = read_dead_letter_columns(rows_of(rows));
  EXPECT_EQ(found.missing, std::vector<std::string>{"raw_row"});
  EXPECT_FALSE(found.has_view);
  rows.push_back({{"relname", "outbox_dead_letters"}, {"attname", "number"}});
  EXPECT_TRUE(read_dead_letter_columns(rows_of(rows)).has_view);
}

TEST(DoctorFacts, ReadsWhatTheServerSays) {
  DoctorFacts facts;
  take_doctor_server(rows_of({{{"version", "15.20"},
                               {"clock_ms", "1700000000123"},
                               {"tls", "t"},
                               {"max_wal_size_mb", "1024"},
                               {"wal_bytes", "5000"},
                               {"wal_seconds", std::nullopt},
                               {"physical_slots", "2"},
                               {"sees_all_settings", "f"}}}),
                     facts);
  EXPECT_EQ(facts.clock_ms, 1700000000123);
  EXPECT_TRUE(facts.tls);
  EXPECT_EQ(facts.wal_seconds, 0);
  EXPECT_EQ(facts.physical_slots, 2);
  take_doctor_slot(rows_of({{{"retained_bytes", "10"},
                             {"unconfirmed_bytes", std::nullopt},
                             {"safe_wal_bytes", std::nullopt},
                             {"failover", "t"},
                             {"holder", "psql"},
                             {"sync_state", "async"}}}),
                   facts);
  EXPECT_EQ(facts.retained_bytes, 10);
  EXPECT_FALSE(facts.safe_wal_bytes);
  EXPECT_TRUE(facts.failover);
  EXPECT_EQ(facts.holder_application, "psql");
}

TEST(DoctorFacts, AsksForFailoverWhereItExists) {
  EXPECT_EQ(doctor_slot_statement(160000, "s").find("s.failover"), std::string::npos);
  EXPECT_NE(doctor_slot_statement(170000, "s").find("s.failover"), std::string::npos);
}

}  // namespace
}  // namespace outrider
