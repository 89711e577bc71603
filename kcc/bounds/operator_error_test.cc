// Independent values of the local bounds; their soundness is checked on emulated kernels in
// bench/bounds/local_check.cc.
#include "kcc/bounds/operator_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace kcc {
namespace {

TEST(OperatorError, LinearAddsReductionAndStorage) {
  EXPECT_NEAR(LinearError(0.01, 10, 4, 0), 0.1, 1e-13);
  EXPECT_NEAR(LinearError(0.01, 10, 4, 0.25), 0.1 + 0.2 * 4.1, 1e-12);
}

TEST(OperatorError, RelativeFormsFollowTheirFirstOrder) {
  const double u = std::ldexp(1.0, -24);
  EXPECT_NEAR(RmsNormRelativeError(4096, u, 0) / u, 4098.0 / 2 + 3, 3);
  EXPECT_NEAR(RopeRelativeError(1000, 1, u, u, 0) / u, 1002, 0.01);
  EXPECT_GT(RopeRelativeError(4096, 1, std::ldexp(1.0, -8), u, 0), 1);  // bf16 angles: useless
  EXPECT_NEAR(GatedRelativeError(2 * u, u, 0) / u, 7, 0.01);
  EXPECT_NEAR(ScoreError(64, u, 8, 1, 0) / u, 67, 0.01);
}

TEST(OperatorError, AttentionCountsTilesAndTheRangeOfScores) {
  const double u = std::ldexp(1.0, -24);
  // 128 keys in tiles of 32: N = 4, kappa = 5(2u + 2u) + 2u 10 = 40u, h = 36: (2 * 76 + 1) u.
  EXPECT_NEAR(AttentionRelativeError({128, 32, u, 2 * u, 0}, 10) / u, 153, 0.01);
  EXPECT_NEAR(AttentionRelativeError({128, 32, u, 2 * u, 0x1p-8}, 10), 0x1p-8 + 153 * u, 1e-8);
  EXPECT_EQ(AttentionRelativeError({4096, 0, 0x1p-8, 0, 0}, 10),
            std::numeric_limits<double>::infinity());
  EXPECT_NEAR(AttentionScoreDriftError(1, 2), 2 * 0.24491866240370912928, 1e-13);
  EXPECT_NEAR(KeyErrorScoreSpan(0.4, 16), 0.2, 1e-14);
}

TEST(OperatorError, Bf16LogitsMoveBySixteenthsFromSixteenOn) {
  EXPECT_NEAR(StoreError(16, 0x1p-8), 0.0623, 1e-4);
  EXPECT_LT(StoreError(31.99, 0x1p-8), 0.125);
}

}  // namespace
}  // namespace kcc
