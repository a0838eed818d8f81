#include "app/metrics_docs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace outrider {
namespace {

TEST(MetricsDocs, IsThePageInDocs) {
  std::ifstream file("../docs/METRICS.md");
  ASSERT_TRUE(file) << "run: outrider metrics-docs > docs/METRICS.md";
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(page, metrics_markdown())
      << "the metrics have changed; run: outrider metrics-docs > docs/METRICS.md";
}

}  // namespace
}  // namespace outrider
