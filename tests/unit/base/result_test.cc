#include "outrider/base/result.h"

#include <memory>

#include <gtest/gtest.h>

namespace outrider {
namespace {

Result<std::unique_ptr<int>> number(bool good) {
  if (!good) {
    return fail(ErrorKind::poison, "no number", "give one", "42");
  }
  return std::make_unique<int>(7);
}

Result<int> doubled(bool good) {
  OUTRIDER_TRY(auto value, number(good));
  return *value * 2;
}

Result<> checked(bool good) {
  OUTRIDER_TRY(doubled(good));
  return {};
}

TEST(Result, TryPassesValuesOnAndErrorsUp) {
  EXPECT_EQ(doubled(true).value(), 14);
  EXPECT_TRUE(checked(true));
  auto failed = checked(false);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::poison);
  EXPECT_EQ(describe(failed.error()), "no number (42); hint: give one");
}

TEST(Result, EveryKindHasAName) {
  EXPECT_STREQ(to_string(ErrorKind::transient), "transient");
  EXPECT_STREQ(to_string(ErrorKind::configuration), "configuration");
  EXPECT_STREQ(to_string(ErrorKind::poison), "poison");
  EXPECT_STREQ(to_string(ErrorKind::fatal), "fatal");
}

}  // namespace
}  // namespace outrider
