#include "kcc/stats/mean_bounds.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kcc/stats/multiplicity.h"
#include "kcc/stats/simulation.h"

namespace kcc {
namespace {

constexpr double kAlpha = 0.05;

TEST(MaurerPontil, MatchesTheFormula) {
  const std::vector<double> values = {0.1, 0.2, 0.4, 0.3, 0.2, 0.1};
  const SampleMoments m = MomentsOf(values);
  EXPECT_NEAR(m.mean, 1.3 / 6, 1e-15);
  EXPECT_NEAR(m.variance, (0.35 - 1.3 * 1.3 / 6) / 5, 1e-15);
  const SampleMoments large{.count = 1001, .mean = 0.2, .variance = 0.04};
  const double log_term = std::log(40.0);
  EXPECT_NEAR(MeanUpperMaurerPontil(large, kAlpha),
              0.2 + std::sqrt(0.08 * log_term / 1001) + 7 * log_term / 3000, 1e-14);
  EXPECT_NEAR(MeanLowerMaurerPontil(large, kAlpha),
              0.2 - std::sqrt(0.08 * log_term / 1001) - 7 * log_term / 3000, 1e-14);
}

TEST(MaurerPontil, SaysNothingWithoutTwoValues) {
  for (const int64_t n : {0, 1}) {
    const SampleMoments m{.count = n, .mean = 0, .variance = 0};
    EXPECT_EQ(MeanUpperMaurerPontil(m, kAlpha), 1);
    EXPECT_EQ(MeanLowerMaurerPontil(m, kAlpha), 0);
  }
}

TEST(Clusters, EstimateMatchesTheDirectFormula) {
  const int64_t bad[] = {0, 3, 1, 0, 7, 2};
  const int64_t tokens[] = {10, 12, 8, 30, 25, 15};
  TokenRateSums sums;
  for (int i = 0; i < 6; ++i) {
    sums.Add(static_cast<double>(bad[i]), static_cast<double>(tokens[i]));
  }
  const auto estimate = EstimateClusters(sums);
  ASSERT_TRUE(estimate);
  const double rate = 13.0 / 100;
  double residual = 0;
  for (int i = 0; i < 6; ++i) {
    residual += std::pow(static_cast<double>(bad[i]) - rate * static_cast<double>(tokens[i]), 2);
  }
  EXPECT_NEAR(estimate->rate, rate, 1e-15);
  EXPECT_NEAR(estimate->variance, 6.0 / 5 * residual / 1e4, 1e-15);
  EXPECT_NEAR(estimate->design_effect, estimate->variance / (rate * (1 - rate) / 100), 1e-12);
}

TEST(Clusters, RecoverTheSimulatedCorrelation) {
  constexpr uint64_t kSeed = 7;
  for (const double icc : {0.0, 0.3, 0.9}) {
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << " icc " << icc);
    RandomStream random(kSeed);
    const RequestModel model{.rate = 0.2, .icc = icc, .tokens_min = 40, .tokens_max = 40};
    TokenRateSums first;
    TokenRateSums second;
    for (int i = 0; i < 20000; ++i) {
      const auto r = SimulateRequest(model, random);
      (i % 2 == 0 ? first : second).Add(static_cast<double>(r.bad), static_cast<double>(r.tokens));
    }
    first.Merge(second);
    EXPECT_NEAR(EstimateClusters(first)->icc, icc, 0.02);
    EXPECT_NEAR(EstimateClusters(first)->rate, 0.2, 0.02);
  }
}

TEST(Clusters, SayNothingAboutOneRequestOrNoTokens) {
  TokenRateSums sums;
  sums.Add(1, 10);
  EXPECT_FALSE(EstimateClusters(sums));
  TokenRateSums empty;
  empty.Add(0, 0);
  empty.Add(0, 0);
  EXPECT_FALSE(EstimateClusters(empty));
}

TEST(Clusters, CorrelationShrinksTheEvidence) {
  EXPECT_EQ(EffectiveTokens(4000, 40, 0), 4000);
  EXPECT_EQ(EffectiveTokens(4000, 40, 1), 100);
  EXPECT_NEAR(EffectiveTokens(4000, 40, 0.3), 4000 / 12.7, 1e-9);
}

TEST(Truncation, RefutesAHeavyMeanAndNeverCertifies) {
  // Mostly tiny values and a few huge ones: the mean is far beyond the threshold of 0.01.
  const double threshold = 0.01;
  constexpr double kHuge = std::numeric_limits<double>::infinity();
  std::vector<double> values;
  for (int i = 0; i < 400; ++i) values.push_back(i % 20 == 0 ? (i % 40 == 0 ? kHuge : 50) : 0.001);
  std::vector<double> log_e;
  for (const double cap : TruncationCaps(threshold)) {
    const auto plan = *MakeBettingPlan(threshold / cap);
    BettingSums sums;
    for (const double v : values) sums.Add(plan, *TruncatedObservation(v, cap));
    log_e.push_back(Evaluate(plan, sums).fail);
  }
  EXPECT_TRUE(Rejects(LogMeanE(log_e), kAlpha));
  const auto caps = TruncationCaps(threshold);
  const auto lower = MeanLowerByTruncation(values, caps, kAlpha);
  ASSERT_TRUE(lower);
  EXPECT_GT(*lower, threshold);
}

TEST(Truncation, LowerBoundStaysBelowTheMean) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  RandomStream random(kSeed);
  constexpr int kRuns = 300;
  int misses = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<double> values(200);  // exponential with mean 1
    for (double& v : values) v = -std::log1p(-random.Uniform());
    const double caps[] = {2.0, 8.0};
    const double lower = *MeanLowerByTruncation(values, caps, kAlpha);
    misses += lower > 1 ? 1 : 0;
    ASSERT_GT(lower, 0.3) << "not vacuous";
  }
  EXPECT_LE(misses, kRuns * (kAlpha + 3 * std::sqrt(kAlpha * (1 - kAlpha) / kRuns)));
}

TEST(Truncation, RefusesBrokenEvidence) {
  EXPECT_FALSE(TruncatedObservation(std::nan(""), 1));
  EXPECT_FALSE(TruncatedObservation(-1, 1));
  const double good[] = {1.0};
  const double broken[] = {1.0, std::nan("")};
  const double cap[] = {2.0};
  const double no_cap[] = {0.0};
  EXPECT_FALSE(MeanLowerByTruncation(broken, cap, kAlpha));
  EXPECT_FALSE(MeanLowerByTruncation(good, no_cap, kAlpha));
  EXPECT_EQ(MeanLowerByTruncation({}, cap, kAlpha), 0);
}

}  // namespace
}  // namespace kcc
