#include "outrider/relay/flow_gate.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(FlowGate, ClosesAtTheRecordLimitAndOpensAtHalf) {
  FlowGate gate(10, 1'000);
  EXPECT_TRUE(gate.update(9, 0));
  EXPECT_FALSE(gate.update(10, 0));
  EXPECT_FALSE(gate.update(6, 0));
  EXPECT_TRUE(gate.update(5, 0));
  EXPECT_EQ(gate.closings(), 1U);
}

TEST(FlowGate, ClosesAtTheByteLimitAndOpensAtHalf) {
  FlowGate gate(10, 1'000);
  EXPECT_FALSE(gate.update(1, 1'000));
  EXPECT_FALSE(gate.update(1, 501));
  EXPECT_TRUE(gate.update(1, 500));
}

TEST(FlowGate, ALimitOfOneStillLetsOneRecordThrough) {
  FlowGate gate(1, 1);
  EXPECT_TRUE(gate.update(0, 0));
  EXPECT_FALSE(gate.update(1, 500));
  EXPECT_TRUE(gate.update(0, 0));
}

}  // namespace
}  // namespace outrider
