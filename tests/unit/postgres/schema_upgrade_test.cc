#include "postgres/schema_upgrade.h"

#include <gtest/gtest.h>

#include "postgres/dead_letter_facts.h"

namespace outrider {
namespace {

TEST(SchemaUpgrade, GoesFromEachOlderVersionToThisOne) {
  for (int from = 0; from < kDeadLetterSchemaVersion; ++from) {
    const auto sql = schema_upgrade_sql(from);
    ASSERT_TRUE(sql);
    EXPECT_NE(
        sql->find("DO UPDATE SET version = " + std::to_string(kDeadLetterSchemaVersion) + ";"),
        std::string::npos);
  }
}

TEST(SchemaUpgrade, HasNothingToDoAtThisVersionAndRefusesANewerOne) {
  EXPECT_EQ(schema_upgrade_sql(kDeadLetterSchemaVersion).value(), "");
  const auto newer = schema_upgrade_sql(kDeadLetterSchemaVersion + 1);
  ASSERT_FALSE(newer);
  EXPECT_NE(newer.error().hint.find("newer release"), std::string::npos);
}

TEST(SchemaUpgrade, ReadsAVersionAndNothingElse) {
  EXPECT_EQ(parse_schema_version(std::nullopt).value(), 0);
  EXPECT_EQ(parse_schema_version("1").value(), 1);
  for (const char* wrong : {"", "-1", "1x", "one"}) EXPECT_FALSE(parse_schema_version(wrong));
}

}  // namespace
}  // namespace outrider
