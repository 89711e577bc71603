#include "kcc/stats/mean_bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
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

ValueSums SumsOf(const std::vector<double>& values) {
  ValueSums sums;
  for (const double v : values) {
    ++sums.count;
    sums.sum += v;
    sums.squares += v * v;
  }
  return sums;
}

TEST(BySums, NeverBeatsTheBetsItBounds) {
  // The true wealth of every stake is at least what the sums say, so the interval that knows the
  // values is the narrower one (up to its own mixture's top stake).
  RandomStream random(31);
  for (const int64_t n : {5, 50, 500}) {
    std::vector<double> values;
    std::vector<WeightedValue> weighted;
    for (int64_t i = 0; i < n; ++i) {
      values.push_back(0.2 * random.Uniform() * random.Uniform());
      weighted.push_back({*ToUnitValue(values.back()), 1});
    }
    EXPECT_GE(MeanUpperBySums(SumsOf(values), kAlpha), MeanUpperSequence(weighted, kAlpha)) << n;
    EXPECT_LE(MeanLowerBySums(SumsOf(values), kAlpha), MeanLowerSequence(weighted, kAlpha) * 1.001)
        << n;
  }
}

// The upper bound by its definition, with the stakes taken anew at every step.
double PlainUpperBySums(const ValueSums& seen, double alpha) {
  const double n = static_cast<double>(seen.count);
  double low = std::max(seen.sum / n, kBettingThresholdMin), high = 1;
  for (int step = 0; step < 60; ++step) {
    const double m = std::sqrt(low * high);
    if (m <= low || m >= high) break;
    const double first = (n * m - seen.sum) / (1 - m);
    const double rounding = 1e-14 * (n * m * m + seen.squares);
    const double around = seen.squares - 2 * m * seen.sum + n * m * m + rounding;
    const double second = std::max(around / ((1 - m) * (1 - m)), first * first / n);
    const BetStakes grid = FineStakes(m);
    double wealth = 0;
    for (size_t k = 0; k < kBets; ++k) {
      const double stake = kFailStakeMax * grid.stakes[k];
      const double log_wealth = stake * first + (std::log1p(-stake) + stake) * second;
      wealth += grid.weights[k] * std::exp(std::min(600.0, log_wealth));
    }
    (Rejects(std::log(wealth), alpha) ? high : low) = m;
  }
  return high;
}

TEST(BySums, TakesTheStakesOfEveryThresholdOnBothSidesOfAHalf) {
  RandomStream random(37);
  for (int i = 0; i < 300; ++i) {
    const double top = i % 3 == 0 ? 1 : random.Uniform() * random.Uniform();
    std::vector<double> values;
    for (int64_t n = random.Between(1, 400); n > 0; --n) values.push_back(top * random.Uniform());
    const ValueSums sums = SumsOf(values);
    EXPECT_EQ(MeanUpperBySums(sums, kAlpha), PlainUpperBySums(sums, kAlpha)) << i;
  }
}

TEST(BySums, MissesTheMeanInAtMostAlphaHoweverOftenItIsLookedAt) {
  constexpr int64_t kRuns = 400;
  constexpr int64_t kValues = 300;
  struct Law {
    const char* name;
    double mean;
    double (*draw)(RandomStream&);
  };
  const Law laws[] = {
      {"0/1", 0.05, [](RandomStream& r) { return r.Bernoulli(0.05) ? 1.0 : 0.0; }},
      {"small and rarely large", 0.0199,
       [](RandomStream& r) { return r.Bernoulli(0.01) ? 1.0 : 0.01 * (2 * r.Uniform()); }},
      {"spread", 0.5, [](RandomStream& r) { return r.Uniform(); }},
      {"mostly large", 0.9, [](RandomStream& r) { return r.Bernoulli(0.9) ? 1.0 : 0.0; }}};
  for (const Law& law : laws) {
    RandomStream random(41);
    int64_t above = 0;
    int64_t below = 0;
    for (int64_t run = 0; run < kRuns; ++run) {
      ValueSums sums;
      bool missed_above = false;
      bool missed_below = false;
      for (int64_t i = 1; i <= kValues; ++i) {
        const double v = law.draw(random);
        ++sums.count;
        sums.sum += v;
        sums.squares += v * v;
        if (i % 20 != 0) continue;
        missed_above |= MeanUpperBySums(sums, kAlpha) < law.mean - 1e-12;
        missed_below |= MeanLowerBySums(sums, kAlpha) > law.mean + 1e-12;
      }
      above += missed_above;
      below += missed_below;
    }
    const double bound = kAlpha + 3 * std::sqrt(kAlpha * (1 - kAlpha) / kRuns);
    EXPECT_LE(static_cast<double>(above) / kRuns, bound) << law.name;
    EXPECT_LE(static_cast<double>(below) / kRuns, bound) << law.name;
  }
}

TEST(BySums, IsNarrowerThanMaurerPontilWhereTheSpreadIsSmall) {
  const ValueSums sums{.count = 900, .sum = 0.9, .squares = 0.9 * 0.001 * 2};
  const SampleMoments moments{.count = 900, .mean = 0.001, .variance = 1e-6};
  EXPECT_LT(MeanUpperBySums(sums, kAlpha), 0.0065);
  EXPECT_GT(MeanUpperMaurerPontil(moments, kAlpha), 0.0105);
  EXPECT_GT(MeanLowerBySums(sums, kAlpha), MeanLowerMaurerPontil(moments, kAlpha));
}

TEST(BySums, SaysNothingWithoutValuesAndStandsAtTheEnds) {
  EXPECT_EQ(MeanUpperBySums({}, kAlpha), 1);
  EXPECT_EQ(MeanLowerBySums({}, kAlpha), 0);
  const ValueSums zeros{.count = 400, .sum = 0, .squares = 0};
  EXPECT_EQ(MeanLowerBySums(zeros, kAlpha), 0);
  EXPECT_LT(MeanUpperBySums(zeros, kAlpha), 0.0105);
  EXPECT_GT(MeanUpperBySums(zeros, kAlpha), 0.0074) << "no valid bound is below 1 - 0.05^(1/400)";
  const ValueSums ones{.count = 400, .sum = 400, .squares = 400};
  EXPECT_EQ(MeanUpperBySums(ones, kAlpha), 1);
  EXPECT_GT(MeanLowerBySums(ones, kAlpha), 0.98);
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
}

TEST(Truncation, RefusesBrokenEvidence) {
  EXPECT_FALSE(TruncatedObservation(std::nan(""), 1));
  EXPECT_FALSE(TruncatedObservation(-1, 1));
}

}  // namespace
}  // namespace kcc
