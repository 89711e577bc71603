// The inverse of every bound: its threshold fits the budget, the next double does not, over 12
// decades.
#include "kcc/bounds/inverse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kcc/bounds/consequence.h"
#include "kcc/bounds/divergence.h"
#include "kcc/bounds/sequence.h"

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr RewardRange kUnit = RewardRange::kZeroToR;
constexpr CorrectionRange kRange{0.8, 1.25};

struct Bound {
  std::string name;
  std::function<double(double)> forward;
  double saturates_at = kInf;  // the forward bound's supremum: budgets from there on are free
  double limit = kInf;         // the largest argument that makes sense

  double Inverse(double budget) const { return LargestWithin(budget, forward, limit); }
};

Bound BiasBound(std::string name, Correction correction, double saturates_at) {
  return {std::move(name),
          [=](double s) { return GradientBiasOfSpan(s, correction, kRange, 2, 3); }, saturates_at};
}

std::vector<Bound> Bounds() {
  return {
      {"tv", TvOfSpan, 1},
      {"kl", KlOfSpan},
      {"jeffreys", JeffreysOfSpan},
      {"chi2", Chi2OfSpan},
      {"hellinger", HellingerOfSpan, 1},
      {"renyi 2", [](double s) { return RenyiOfSpan(s, 2); }},
      {"sequence tv", [](double s) { return SequenceTvOfSpan(s, 1000); }, 1},
      {"reward", [](double s) { return RewardDriftOfTv(TvOfSpan(s), 3, kUnit); }, 3},
      {"sequence reward",
       [](double s) { return RewardDriftOfTv(SequenceTvOfSpan(s, 50), 3, kUnit); }, 3},
      {"trajectory bias", [](double s) { return TrajectoryBiasOfSpan(s, 64, 2, 3); }, 768},
      {"tv of kl", TvOfKl, 1},
      {"tv of mean abs log ratio", TvOfMeanAbsLogRatio, 1},
      {"linf", [](double x) { return SpanOfLinf(x, 0.7); }},
      {"l2", [](double x) { return SpanOfL2(x, 0.7); }},
      {"tv of reward", [](double tv) { return RewardDriftOfTv(tv, 3, RewardRange::kMinusRToR); }, 6,
       1},
      {"tv of bias", [](double tv) { return GradientBiasOfTv(tv, 2, 3); }, 12, 1},
      BiasBound("bias", Correction::kNone, 12),
      BiasBound("bias, truncated", Correction::kTruncate, 6),
      BiasBound("bias, clipped", Correction::kClip, 6 * 1.8),
      BiasBound("bias, masked", Correction::kMask, 6),
      BiasBound("bias, filtered", Correction::kFilter, 6),
      BiasBound("bias, ppo", Correction::kPpo, 6),
  };
}

TEST(Inverse, FitsItsBudgetAndTheNextDoubleDoesNot) {
  for (const Bound& bound : Bounds()) {
    for (double budget = 1e-11; budget < 9; budget *= 3.7) {
      const double x = bound.Inverse(budget);
      EXPECT_LE(bound.forward(x), budget) << bound.name << " budget " << budget;
      if (budget < bound.saturates_at * 0.999) {
        EXPECT_GT(bound.forward(std::nextafter(x, kInf)), budget) << bound.name << " at " << budget;
      }
    }
  }
}

TEST(Inverse, OfForwardIsTheIdentityOnTheSafeSide) {
  // 12 decades of arguments. What was put in fits again, and asking for slightly less never gives
  // more than was put in.
  for (const Bound& bound : Bounds()) {
    for (double x = 1e-11; x < std::fmin(10, bound.limit); x *= 2.3) {
      const double budget = bound.forward(x);
      const double back = bound.Inverse(budget);
      EXPECT_LE(bound.forward(back), budget) << bound.name << " at " << x;
      EXPECT_GE(back, x * (1 - 1e-13)) << bound.name << " at " << x;
      if (budget > 0) {
        EXPECT_LE(bound.Inverse(budget * (1 - 1e-9)), x) << bound.name << " at " << x;
      }
    }
  }
}

TEST(Inverse, RisesWithTheBudget) {
  for (const Bound& bound : Bounds()) {
    double last = 0;
    for (double budget = 1e-12; budget < 20; budget *= 1.9) {
      const double x = bound.Inverse(budget);
      EXPECT_GE(x, last) << bound.name << " at " << budget;
      last = x;
    }
  }
}

TEST(Inverse, SaysThatAFullBudgetNeedsNoThreshold) {
  const auto reward = [](double tv) { return RewardDriftOfTv(tv, 1, kUnit); };
  const auto corrected = [](double s) {
    return GradientBiasOfSpan(s, Correction::kFull, kRange, 2, 3);
  };
  EXPECT_EQ(LargestWithin(1, TvOfSpan), kInf);
  EXPECT_EQ(LargestWithin(1, TvOfKl), kInf);
  EXPECT_EQ(LargestWithin(1.001, [&](double s) { return reward(TvOfSpan(s)); }), kInf);
  EXPECT_EQ(LargestWithin(0, corrected), kInf);
  EXPECT_EQ(LargestWithin(50, reward, 1.0), 1);
  EXPECT_EQ(LargestWithin(0, TvOfSpan), 0);
  EXPECT_EQ(LargestWithin(0.1, [](double s) { return SequenceTvOfSpan(s, 0); }), kInf);
}

// docs/math.md A.8: eta = .01 and the paper's 0.04 reward gap, in 40 digits.
TEST(Inverse, GivesTheAuthorsNumbers) {
  const double span = LargestWithin(0.01, TvOfSpan);
  const auto sequence = [](double s) { return SequenceTvOfSpan(s, 1000); };
  const auto reward = [](double s) { return RewardDriftOfTv(TvOfSpan(s), 1, kUnit); };
  const auto masked = [](double s) {
    return GradientBiasOfSpan(s, Correction::kMask, kRange, 2, 3);
  };
  EXPECT_NEAR(span, 0.0400013334133390481, 1e-15);
  EXPECT_LE(span, 0.04000133341333904806352843);
  EXPECT_NEAR(LargestWithin(0.01, sequence), 0.00126494269909868531, 1e-16);
  EXPECT_NEAR(LargestWithin(0.04, reward), 0.160085415347072852, 1e-14);
  EXPECT_NEAR(LargestWithin(span, [](double x) { return SpanOfLinf(x, 1); }), 0.02000066670666952,
              1e-15);
  EXPECT_NEAR(LargestWithin(span, [](double x) { return SpanOfL2(x, 1); }), 0.028285214172, 1e-10);
  EXPECT_NEAR(LargestWithin(0.01, TvOfKl), 2e-4, 1e-15);
  // A mask that the span cannot reach leaves no bias: up to min(ln c, -ln a).
  EXPECT_NEAR(LargestWithin(1e-9, masked), std::log(1.25), 1e-8);
}

TEST(LeastReaching, StopsBeforeTheFirstDoubleThatReaches) {
  const double least = LeastReaching(0.25, [](double x) { return x * x; });
  EXPECT_LT(least * least, 0.25);
  EXPECT_EQ(std::nextafter(least, 1.0), 0.5);
}

}  // namespace
}  // namespace kcc
