// Heights, factors and the values they were derived for.
#include "kcc/bounds/reduction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kcc {
namespace {

TEST(TreeHeight, CountsTheAdditionsOnTheLongestPath) {
  const struct {
    Schedule schedule;
    int64_t terms, block, height;
  } rows[] = {
      {Schedule::kSequential, 4096, 1, 4095}, {Schedule::kAnyOrder, 4096, 1, 4095},
      {Schedule::kPairwise, 4096, 1, 12},     {Schedule::kPairwise, 4097, 1, 13},
      {Schedule::kTiled, 4096, 16, 259},      {Schedule::kTiled, 8, 16, 3},
      {Schedule::kSplitK, 4096, 4, 1026},     {Schedule::kSplitK, 3, 8, 2},
      {Schedule::kSequential, 1, 1, 0},       {Schedule::kPairwise, 1, 1, 0},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(TreeHeight(row.schedule, row.terms, row.block), row.height)
        << row.terms << " by " << row.block;
  }
}

TEST(Gamma, IsHuOverOneMinusHu) {
  EXPECT_NEAR(Gamma(10, 0.01), 0.1 / 0.9, 1e-13);
  EXPECT_EQ(Gamma(0, 0.01), 0);
  EXPECT_EQ(Gamma(100, 0.01), std::numeric_limits<double>::infinity());
}

TEST(ReductionFactor, TakesTheTreeWhereOneIsKnown) {
  const double u = std::ldexp(1.0, -24);
  EXPECT_NEAR(ReductionFactor(Schedule::kAnyOrder, 4096, 1, u, false), 4095 * u, 1e-15);
  EXPECT_NEAR(ReductionFactor(Schedule::kAnyOrder, 4096, 1, u, true), 4096 * u, 1e-15);
  EXPECT_NEAR(ReductionFactor(Schedule::kTiled, 4096, 16, u, false), 259 * u, 1e-9);
  EXPECT_NEAR(ReductionFactor(Schedule::kPairwise, 4096, 1, u, true), 13 * u, 1e-11);
  // No restriction on n: where gamma is infinite the linear form remains.
  EXPECT_NEAR(ReductionFactor(Schedule::kSequential, 1000, 1, 0.00390625, false), 3.90234375,
              1e-10);
}

}  // namespace
}  // namespace kcc
