// Reward drift and gradient bias: constants, the cases the paper gets wrong, trajectories.
#include "kcc/bounds/consequence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kcc/bounds/divergence.h"
#include "kcc/bounds/sequence.h"

namespace kcc {
namespace {

TEST(Reward, DriftIsOscillationTimesTv) {
  EXPECT_NEAR(RewardDriftOfTv(0.04, 1, RewardRange::kZeroToR), 0.04, 1e-15);
  EXPECT_NEAR(RewardDriftOfTv(0.04, 1, RewardRange::kMinusRToR), 0.08, 1e-15);
  EXPECT_NEAR(RewardDriftOfTv(7, 3, RewardRange::kZeroToR), 3, 1e-13);  // TV cannot pass 1
}

TEST(Reward, DriftOfASpanIsTheLesserOfTheTwoForms) {
  const double tv_form = RewardDriftOfTv(TvOfSpan(0.4), 1, RewardRange::kZeroToR);
  EXPECT_EQ(RewardDriftOfSpan(0.4, 1, RewardRange::kZeroToR, 10), tv_form);
  EXPECT_NEAR(RewardDriftOfSpan(0.4, 1, RewardRange::kZeroToR, 0.01), 0.01 * std::sinh(0.2), 1e-15);
  EXPECT_EQ(RewardDriftOfSpan(2000, 1, RewardRange::kZeroToR, 0), 0);  // a constant reward
  EXPECT_NEAR(RewardDriftOfChi2(0.09, 2), 0.6, 1e-14);
}

TEST(Reward, ASoftClauseCostsItsExceedance) {
  const double drift = RewardDriftOfSoftSpan(0.04, 0.01, 1, RewardRange::kZeroToR);
  EXPECT_NEAR(drift, 0.99 * std::tanh(0.01) + 0.01, 1e-14);
  EXPECT_EQ(RewardDriftOfSoftSpan(0.04, 0, 1, RewardRange::kZeroToR),
            RewardDriftOfTv(TvOfSpan(0.04), 1, RewardRange::kZeroToR));
}

TEST(GradientBias, OfTheUncorrectedEstimatorIsAttainedByATrueScore) {
  // p = (1/2, 1/2), q = (.4, .6), A = 1, score = +-1 (zero mean under p): bias .2 = 2 TV.
  const double bias = std::fabs((0.5 - 0.4) * 1 + (0.5 - 0.6) * -1);
  EXPECT_NEAR(GradientBiasOfTv(0.1, 1, 1), bias, 1e-15);
  // At that span, ln(1.5), the worst pair is q = (.449.., .550..): no more than A G 2 tanh(s/4).
  EXPECT_GE(GradientBiasOfSpan(std::log(1.5), Correction::kNone, {}, 1, 1), bias);
}

TEST(GradientBias, FromMeanAbsLogRatioNeedsTheFactorTwo) {
  // docs/math.md A.9, W5: bias .8 with E_q|log w| = .69.
  const double mean = 0.1 * std::log(5.0) + 0.9 * std::fabs(std::log(5.0 / 9.0));
  EXPECT_LT(mean, 0.8);
  EXPECT_GE(GradientBiasOfMeanAbsLogRatio(mean, 1, 1), 0.8);
  EXPECT_NEAR(GradientBiasOfMeanAbsLogRatio(0.1, 3, 2), 1.2, 1e-13);
  EXPECT_NEAR(GradientBiasOfKl(0.02, 1, 1), 0.2, 1e-14);
}

TEST(GradientBias, ScalesWithAdvantageAndScore) {
  EXPECT_NEAR(GradientBiasOfGap(0.25, 4, 3), 3, 1e-13);
  EXPECT_NEAR(GradientBiasOfSpan(2, Correction::kTruncate, {1, 2}, 10, 1), 2.6617297082381990,
              1e-12);
  EXPECT_EQ(GradientBiasOfSpan(2, Correction::kFull, {}, 10, 1), 0);
  EXPECT_EQ(GradientBiasOfSpan(0.1, Correction::kMask, {0.5, 2}, 10, 1), 0);
}

TEST(GradientBias, FullImportanceSamplingPaysInVariance) {
  EXPECT_NEAR(ImportanceVarianceFactor(1), 1.27154031740762189, 1e-14);
  EXPECT_GT(ImportanceVarianceFactor(1e-9), 1);  // 1 + 2.5e-19 rounds up, not to 1
}

TEST(Trajectory, SumsThePrefixBound) {
  // 2 sum_t sqrt(1 - sech(s/4)^{2t}) in 40 digits.
  EXPECT_NEAR(TrajectoryBiasOfSpan(0.1, 100, 1, 1) / 33.25796781119970402, 1, 1e-12);
  const double grouped = TrajectoryBiasOfSpan(0.02, 20000, 1, 1) / 17541.913032888321068;
  EXPECT_GE(grouped, 1);
  EXPECT_LE(grouped, 1.0003);
  EXPECT_NEAR(TrajectoryBiasOfSpan(1e-6, 1000, 1, 1) / (1e-6 * std::pow(1000, 1.5) / 3), 1, 2e-3);
  EXPECT_EQ(TrajectoryBiasOfSpan(0.1, 0, 1, 1), 0);
  EXPECT_LE(TrajectoryBiasOfSpan(0.1, int64_t{1} << 40, 1, 1), std::ldexp(2.0000001, 40));
}

TEST(Trajectory, TokenWeightsLeaveThePrefixes) {
  EXPECT_EQ(TrajectoryBiasWithTokenWeights(0.1, 1, 1, 1), 0);  // one token: no prefix to be wrong
  EXPECT_EQ(TrajectoryBiasWithTokenWeights(0.1, 100, 1, 1), TrajectoryBiasOfSpan(0.1, 99, 1, 1));
  EXPECT_EQ(OutcomeBiasWithTokenWeights(0.1, 1, 1, 1), 0);
  EXPECT_NEAR(OutcomeBiasWithTokenWeights(0.1, 101, 1, 1), 2 * 101 * 0.24613171720705984299, 1e-11);
}

TEST(Trajectory, TruncatedSequenceWeightsAreNoWorseThanTv) {
  EXPECT_NEAR(OutcomeBiasTruncated(0.1, 100, 1, 2, 3), 6 * 0.24613171720705984299, 1e-13);
  EXPECT_EQ(OutcomeBiasTruncated(0.001, 100, 2, 2, 3), 0);  // W <= e^0.1 < 2 always
  EXPECT_EQ(OutcomeBiasTruncated(std::numeric_limits<double>::infinity(), 0, 2, 2, 3), 0);
}

}  // namespace
}  // namespace kcc
