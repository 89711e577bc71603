#include "kcc/stats/betting.h"

#include <gtest/gtest.h>

#include <rapidcheck.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kcc/stats/simulation.h"
#include "kcc/stats/token_ratio.h"

namespace kcc {
namespace {

constexpr double kAlpha = 0.05;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

UnitValue Unit(double x) { return *ToUnitValue(x); }

TEST(BettingPlan, ExistsStrictlyInsideTheUnitInterval) {
  for (const double m : {1e-12, 0.01, 0.5, 0.999}) EXPECT_TRUE(MakeBettingPlan(m)) << m;
  for (const double m : {0.0, 1e-13, 1.0, -0.1, 1.5, std::nan(""), kInfinity}) {
    EXPECT_FALSE(MakeBettingPlan(m)) << m;
  }
}

// y(X) = 1 + lam (X - m) at both ends, so in between too.
void ExpectFair(const Bet& bet, double m) {
  const double lambda = (bet.alternative / m - 1) / (1 - m);
  EXPECT_NEAR(bet.factor_zero, 1 - lambda * m, 1e-12);
  EXPECT_NEAR(bet.factor_one, 1 + lambda * (1 - m), 1e-12 * (1 + bet.factor_one));
  EXPECT_NEAR((1 - m) * bet.factor_zero + m * bet.factor_one, 1, 1e-12) << "fair at mean m";
}

TEST(BettingPlan, CoarseIsTheOneOfTheDefinition) {
  for (const double m : {1e-6, 0.01, 0.05, 0.5, 0.97}) {
    const auto plan = MakeBettingPlan(m, BetGrid::kCoarse);
    ASSERT_EQ(plan->bets(), 12u);
    double pass_weight = 0;
    double fail_weight = 0;
    for (int k = 0; k < 12; ++k) {
      const Bet& pass = plan->pass[static_cast<size_t>(k)];
      const Bet& fail = plan->fail[static_cast<size_t>(k)];
      pass_weight += pass.weight;
      fail_weight += fail.weight;
      EXPECT_NEAR(pass.alternative, k == 0 ? 0 : m * std::exp2(-k / 1.5), 1e-15);
      EXPECT_NEAR(fail.alternative, std::min(m * std::exp2((k + 1) / 1.5), (1 + m) / 2), 1e-15);
      for (const Bet& bet : {pass, fail}) ExpectFair(bet, m);
    }
    EXPECT_NEAR(pass_weight, 1, 1e-15);
    EXPECT_NEAR(fail_weight, 1, 1e-15);
    EXPECT_EQ(plan->pass[0].weight, 0.4);
    EXPECT_EQ(plan->pass[0].factor_one, 0);
    for (size_t k = 12; k < kBets; ++k) {
      EXPECT_EQ(plan->pass[k].weight, 0) << "an empty place";
      EXPECT_EQ(plan->fail[k].weight, 0);
    }
  }
}

TEST(BettingPlan, FineReachesFromTheLargestStakeToAFewPerCentOffTheThreshold) {
  for (const double m : {1e-3, 0.01, 0.05, 0.5, 0.97}) {
    const auto plan = MakeBettingPlan(m);
    ASSERT_EQ(plan->bets(), 16u);
    double pass_weight = 0;
    double fail_weight = 0;
    for (size_t k = 0; k < kBets; ++k) {
      const Bet& pass = plan->pass[k];
      const Bet& fail = plan->fail[k];
      pass_weight += pass.weight;
      fail_weight += fail.weight;
      for (const Bet& bet : {pass, fail}) ExpectFair(bet, m);
      EXPECT_GT(fail.factor_zero, 0) << "no zero ruins a bet against the clause";
      if (k > 0) {
        EXPECT_GT(pass.alternative, plan->pass[k - 1].alternative);
        EXPECT_LT(fail.alternative, plan->fail[k - 1].alternative);
      }
    }
    EXPECT_NEAR(pass_weight, 1, 1e-14);
    EXPECT_NEAR(fail_weight, 1, 1e-14);
    EXPECT_EQ(plan->pass[0].alternative, 0);
    EXPECT_EQ(plan->pass[0].factor_one, 0);
    const double nearer = std::min(m, 1 - m);
    EXPECT_LT((m - plan->pass[kBets - 1].alternative) / nearer, 0.1) << m;
    EXPECT_LT((plan->fail[kBets - 1].alternative - m) / nearer, 0.1) << m;
  }
}

TEST(BettingPlan, ARateTenPerCentOffTheThresholdIsDecidedByTheFineGridAlone) {
  for (const double m : {0.01, 0.3}) {
    const int64_t n = static_cast<int64_t>(20000 / m);
    const auto at = [&](double factor) { return static_cast<int64_t>(factor * 20000); };
    for (const BetGrid grid : {BetGrid::kCoarse, BetGrid::kFine}) {
      const auto plan = *MakeBettingPlan(m, grid);
      const bool fine = grid == BetGrid::kFine;
      EXPECT_EQ(Rejects(EvaluateBernoulli(plan, at(0.9), n).pass, kAlpha), fine) << m;
      EXPECT_EQ(Rejects(EvaluateBernoulli(plan, at(1.1), n).fail, kAlpha), fine) << m;
    }
  }
}

TEST(Once, WeightsSuitTheSizeOfTheSample) {
  // Values of 0: the largest stake is best. At any time it has some weight, once it has nearly all.
  const auto needed = [](double m, double value, double once_at) {
    const auto plan = *MakeBettingPlan(m);
    BettingSums one;
    one.Add(plan, Unit(value));
    for (int64_t n = 1;; ++n) {
      BettingSums sums = one;
      sums.Repeat(n);
      if (Rejects(LogEPass(plan, sums, {.once_at = once_at}), kAlpha)) return n;
    }
  };
  EXPECT_GE(needed(0.01, 0, kAlpha), 299) << "no valid test needs fewer";
  EXPECT_LE(needed(0.01, 0, kAlpha), 312);
  EXPECT_LE(needed(0.01, 0, 0), 375);
  EXPECT_LT(needed(0.3, 0.2, kAlpha), needed(0.3, 0.2, 0));
}

TEST(Once, RepeatIsTheSameObservationsOverAgain) {
  const auto plan = *MakeBettingPlan(0.2);
  BettingSums one;
  one.Add(plan, Unit(0.4));
  one.Add(plan, Unit(1));
  BettingSums repeated = one;
  repeated.Repeat(3);
  BettingSums merged = one;
  merged.Merge(one);
  merged.Merge(one);
  EXPECT_EQ(repeated, merged);
  repeated.Repeat(0);
  EXPECT_EQ(repeated, BettingSums());
}

TEST(FixedLog, IsTheFloorOrOneUnitBelow) {
  const bool ok = rc::check("within one unit below", [] {
    const int exponent = *rc::gen::inRange(-1000, 1000);
    const double mantissa = 1 + *rc::gen::inRange(0, 1 << 30) * 0x1p-30;
    const double y = std::ldexp(mantissa, exponent % (*rc::gen::element(3, 40, 1000)));
    const long double truth = std::log(static_cast<long double>(y)) * 0x1p32L;
    const long double fixed = static_cast<long double>(FixedLog(y));
    RC_ASSERT(fixed <= truth);
    RC_ASSERT(truth - fixed <= 1.0L + 0x1p-7L);
  });
  EXPECT_TRUE(ok);
}

TEST(FixedLog, HasTheseBitsEverywhere) {
  EXPECT_EQ(FixedLog(1), -1);  // ln 1 = 0, rounded down with the guard
  EXPECT_EQ(FixedLog(2), 2977044471);
  EXPECT_EQ(FixedLog(0.5), -2977044472);
  EXPECT_EQ(FixedLog(1e-300), -2966858301200);
  EXPECT_EQ(FixedLog(5e-324), -3197345762735);
  EXPECT_EQ(FixedLog(std::numeric_limits<double>::max()), 3048493539143);
}

TEST(ToUnitValue, RefusesWhatIsNoEvidence) {
  for (const double x : {-1e-300, 1.0000000000000002, std::nan(""), kInfinity, -kInfinity}) {
    EXPECT_FALSE(ToUnitValue(x)) << x;
  }
  EXPECT_TRUE(ToUnitValue(0));
  EXPECT_TRUE(ToUnitValue(1));
}

TEST(BettingSums, DoNotDependOnOrderOrSharding) {
  const auto plan = *MakeBettingPlan(0.03);
  const bool ok = rc::check("any order, any split", [&] {
    const auto thousandths = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1001));
    BettingSums whole;
    for (const int x : thousandths) whole.Add(plan, Unit(x / 1000.0));
    std::vector<int> shuffled = thousandths;
    std::reverse(shuffled.begin(), shuffled.end());
    const size_t cut = *rc::gen::inRange<size_t>(0, shuffled.size() + 1);
    BettingSums left;
    BettingSums right;
    for (size_t i = 0; i < shuffled.size(); ++i) {
      (i < cut ? left : right).Add(plan, Unit(shuffled[i] / 1000.0));
    }
    right.Merge(left);
    RC_ASSERT(right == whole);
  });
  EXPECT_TRUE(ok);
}

TEST(BettingSums, OfZerosAndOnesNeverExceedTheBernoulliTest) {
  const auto plan = *MakeBettingPlan(0.02);
  BettingSums sums;
  for (int i = 0; i < 2000; ++i) {
    sums.Add(plan, Unit(i % 97 == 0 ? 1 : 0));
    const LogEValues fixed = Evaluate(plan, sums);
    const LogEValues exact = EvaluateBernoulli(plan, sums.ones, sums.count);
    ASSERT_LE(fixed.pass, exact.pass + 1e-12);
    ASSERT_LE(fixed.fail, exact.fail + 1e-12);
    ASSERT_NEAR(fixed.pass, exact.pass, 1e-6);
    ASSERT_NEAR(fixed.fail, exact.fail, 1e-6);
  }
}

TEST(BettingSums, SaturateInsteadOfOverflowing) {
  BettingSums a;
  a.pass.fill(std::numeric_limits<int64_t>::max());
  a.fail.fill(std::numeric_limits<int64_t>::min());
  BettingSums b = a;
  b.Merge(a);
  EXPECT_GT(b.pass[3], int64_t{1} << 61);
  EXPECT_LT(b.fail[3], -(int64_t{1} << 61));
}

TEST(Bernoulli, MixtureNeedsThePublishedSampleSizes) {
  const struct {
    BetGrid grid;
    int64_t exceeding, needed;
  } rows[] = {{BetGrid::kCoarse, 0, 318}, {BetGrid::kCoarse, 1, 711}, {BetGrid::kCoarse, 5, 1569},
              {BetGrid::kFine, 0, 360},   {BetGrid::kFine, 1, 793},   {BetGrid::kFine, 5, 1499}};
  for (const auto& row : rows) {
    const auto plan = *MakeBettingPlan(0.01, row.grid);
    int64_t n = row.exceeding + 1;
    while (!Rejects(EvaluateBernoulli(plan, row.exceeding, n).pass, kAlpha)) ++n;
    EXPECT_EQ(n, row.needed) << row.exceeding;
  }
}

TEST(Bernoulli, KeepsItsPowerAtTinyThresholds) {
  const auto plan = *MakeBettingPlan(1e-9);
  // ln(20/0.4)/1e-9 zeros suffice by the bet on r = 0 alone; the others help.
  EXPECT_TRUE(Rejects(EvaluateBernoulli(plan, 0, 3'912'100'000).pass, kAlpha));
  EXPECT_FALSE(Rejects(EvaluateBernoulli(plan, 0, 2'900'000'000).pass, kAlpha));
}

TEST(EValues, WithoutDataSayNothing) {
  const auto plan = *MakeBettingPlan(0.1);
  EXPECT_NEAR(Evaluate(plan, {}).pass, 0, 1e-15);
  EXPECT_NEAR(Evaluate(plan, {}).fail, 0, 1e-15);
  EXPECT_EQ(AnytimePValue(0), 1);
  EXPECT_NEAR(AnytimePValue(std::log(20.0)), 0.05, 1e-15);
  EXPECT_EQ(AnytimePValue(-kInfinity), 1);
}

TEST(ConfidenceSequence, IsTheSetOfThresholdsNotRejected) {
  const bool ok = rc::check("inside iff neither test rejects", [] {
    const int64_t n = *rc::gen::inRange<int64_t>(0, 3000);
    const int64_t s = *rc::gen::inRange<int64_t>(0, n + 1);
    const Interval set = BernoulliConfidenceSequence(s, n, kAlpha);
    RC_ASSERT(set.lo <= set.hi);
    const double m = *rc::gen::inRange(1, 1000) / 1000.0;
    const auto e = EvaluateBernoulli(*MakeBettingPlan(m), s, n);
    if (std::abs(m - set.lo) > 1e-9) {
      RC_ASSERT(Rejects(e.fail, kAlpha / 2) == (m < set.lo));
    }
    if (std::abs(m - set.hi) > 1e-9) {
      RC_ASSERT(Rejects(e.pass, kAlpha / 2) == (m > set.hi));
    }
  });
  EXPECT_TRUE(ok);
}

TEST(ConfidenceSequence, WithoutDataIsEverything) {
  EXPECT_EQ(BernoulliConfidenceSequence(0, 0, kAlpha), (Interval{0, 1}));
  EXPECT_EQ(MeanConfidenceSequence({}, kAlpha), (Interval{0, 1}));
}

TEST(ConfidenceSequence, OfSpreadValuesIsNarrowerThanOfZerosAndOnes) {
  std::vector<WeightedValue> values = {{Unit(0.25), 500}, {Unit(0.35), 500}};
  const Interval spread = MeanConfidenceSequence(values, kAlpha);
  const Interval coarse = BernoulliConfidenceSequence(300, 1000, kAlpha);
  EXPECT_LT(spread.lo, 0.3);
  EXPECT_GT(spread.hi, 0.3);
  EXPECT_LT(spread.hi - spread.lo, coarse.hi - coarse.lo);
  EXPECT_LT(MeanConfidenceSequence(values, kAlpha).lo, MeanLowerSequence(values, kAlpha));
  EXPECT_GT(MeanConfidenceSequence(values, kAlpha).hi, MeanUpperSequence(values, kAlpha));
}

TEST(RatioObservation, LiesInTheUnitIntervalAndMatchesTheFormula) {
  const bool ok = rc::check("u = eps + (X - eps T)/T_max", [] {
    const int64_t most = *rc::gen::inRange<int64_t>(1, 100000);
    const int64_t tokens = *rc::gen::inRange<int64_t>(0, most + 1);
    const int64_t bad = *rc::gen::inRange<int64_t>(0, tokens + 1);
    const double eps = *rc::gen::inRange(0, 1001) / 1000.0;
    const auto u = RatioObservation(static_cast<double>(bad), static_cast<double>(tokens),
                                    static_cast<double>(most), eps);
    RC_ASSERT(u.has_value());
    RC_ASSERT(u->value >= 0 && u->complement >= 0);
    RC_ASSERT(std::abs(u->value + u->complement - 1) < 1e-15);
    const double formula = eps + (static_cast<double>(bad) - eps * static_cast<double>(tokens)) /
                                     static_cast<double>(most);
    RC_ASSERT(std::abs(u->value - formula) < 1e-13);
  });
  EXPECT_TRUE(ok);
}

TEST(RatioObservation, RefusesImpossibleCounts) {
  EXPECT_FALSE(RatioObservation(-1, 5, 10, 0.1));
  EXPECT_FALSE(RatioObservation(6, 5, 10, 0.1));
  EXPECT_FALSE(RatioObservation(1, 11, 10, 0.1));  // longer than assumptions.tokensMax
  EXPECT_FALSE(RatioObservation(0, 0, 0, 0.1));
  EXPECT_FALSE(RatioObservation(0, 5, 10, std::nan("")));
  EXPECT_EQ(RatioObservation(7, 7, 7, 0.3)->complement, 0) << "ruins the bet on r = 0";
  EXPECT_NEAR(RatioObservation(0, 0, 10, 0.3)->value, 0.3, 1e-16) << "no tokens, no evidence";
}

}  // namespace
}  // namespace kcc
