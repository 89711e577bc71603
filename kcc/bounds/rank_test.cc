#include "kcc/bounds/rank.h"

#include <gtest/gtest.h>

#include <array>

namespace kcc {
namespace {

TEST(Rank, ACertainOrderNeedsAMarginAboveTheSpan) {
  EXPECT_TRUE(OrderCertain(0.51, 0.5));
  EXPECT_FALSE(OrderCertain(0.5, 0.5));  // a tie can break either way
}

TEST(Rank, OverlapFloorCountsTokensFarAboveTheFirstOneOut) {
  const std::array<double, 5> z = {9, 7, 6.5, 6, 1};
  EXPECT_EQ(TopKOverlapFloor(z, 3, 0.0), 1.0);
  EXPECT_EQ(TopKOverlapFloor(z, 3, 0.5), 2.0 / 3);
  EXPECT_EQ(TopKOverlapFloor(z, 3, 1.0), 1.0 / 3);
  EXPECT_EQ(TopKOverlapFloor(z, 3, 3.0), 0.0);
  EXPECT_EQ(TopKOverlapFloor(z, 5, 100.0), 1.0);  // the whole vocabulary
}

TEST(Rank, TheFloorIsAttained) {
  // Span 2 in opposite directions: tokens 1 and 2 fall below token 3, and only they can.
  const std::array<double, 4> z = {9, 7, 6.5, 6};
  const std::array<double, 4> other = {8.01, 5.99, 5.49, 7.0};
  EXPECT_GT(other[3], other[1]);
  EXPECT_GT(other[0], other[3]);
  EXPECT_EQ(TopKOverlapFloor(std::span<const double>(z), 1, 2.02), 0.0);
  EXPECT_EQ(TopKOverlapFloor(std::span<const double>(z), 3, 2.02), 1.0 / 3);
}

}  // namespace
}  // namespace kcc
