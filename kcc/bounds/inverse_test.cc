// Every inverse: its threshold fits the budget, the next double does not, over 12 decades.
#include "kcc/bounds/inverse.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "kcc/bounds/divergence.h"
#include "kcc/bounds/sequence.h"

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr RewardRange kUnit = RewardRange::kZeroToR;
constexpr CorrectionRange kRange{0.8, 1.25};

struct Pair {
  std::string name;
  std::function<double(double)> forward;
  std::function<double(double)> inverse;
  double saturates_at = kInf;  // the forward bound's supremum: budgets from there on are free
  double limit = kInf;         // the largest argument that makes sense
};

Pair BiasPair(std::string name, Correction correction, double saturates_at) {
  return {std::move(name),
          [=](double s) { return GradientBiasOfSpan(s, correction, kRange, 2, 3); },
          [=](double b) { return SpanForGradientBias(b, correction, kRange, 2, 3); }, saturates_at};
}

std::vector<Pair> Pairs() {
  std::vector<Pair> pairs = {
      {"tv", TvOfSpan, SpanForTv, 1},
      {"kl", KlOfSpan, SpanForKl},
      {"jeffreys", JeffreysOfSpan, SpanForJeffreys},
      {"chi2", Chi2OfSpan, SpanForChi2},
      {"hellinger", HellingerOfSpan, SpanForHellinger, 1},
      {"renyi 2", [](double s) { return RenyiOfSpan(s, 2); },
       [](double b) { return SpanForRenyi(b, 2); }},
      {"sequence tv", [](double s) { return SequenceTvOfSpan(s, 1000); },
       [](double b) { return SpanForSequenceTv(b, 1000); }, 1},
      {"reward", [](double s) { return RewardDriftOfTv(TvOfSpan(s), 3, kUnit); },
       [](double b) { return SpanForRewardDrift(b, 3, kUnit); }, 3},
      {"sequence reward",
       [](double s) { return RewardDriftOfTv(SequenceTvOfSpan(s, 50), 3, kUnit); },
       [](double b) { return SpanForSequenceRewardDrift(b, 3, kUnit, 50); }, 3},
      {"trajectory bias", [](double s) { return TrajectoryBiasOfSpan(s, 64, 2, 3); },
       [](double b) { return SpanForTrajectoryBias(b, 64, 2, 3); }, 768},
      {"tv of kl", TvOfKl, KlForTv, 1},
      {"tv of mean abs log ratio", TvOfMeanAbsLogRatio, MeanAbsLogRatioForTv, 1},
      {"linf", [](double x) { return SpanOfLinf(x, 0.7); },
       [](double b) { return LinfForSpan(b, 0.7); }},
      {"l2", [](double x) { return SpanOfL2(x, 0.7); }, [](double b) { return L2ForSpan(b, 0.7); }},
      {"tv of reward", [](double tv) { return RewardDriftOfTv(tv, 3, RewardRange::kMinusRToR); },
       [](double b) { return TvForRewardDrift(b, 3, RewardRange::kMinusRToR); }, 6, 1},
      {"tv of bias", [](double tv) { return GradientBiasOfTv(tv, 2, 3); },
       [](double b) { return TvForGradientBias(b, 2, 3); }, 12, 1},
      BiasPair("bias", Correction::kNone, 12),
      BiasPair("bias, truncated", Correction::kTruncate, 6),
      BiasPair("bias, clipped", Correction::kClip, 6 * 1.8),
      BiasPair("bias, masked", Correction::kMask, 6),
      BiasPair("bias, filtered", Correction::kFilter, 6),
      BiasPair("bias, ppo", Correction::kPpo, 6),
  };
  return pairs;
}

TEST(Inverse, FitsItsBudgetAndTheNextDoubleDoesNot) {
  for (const Pair& pair : Pairs()) {
    for (double budget = 1e-11; budget < 9; budget *= 3.7) {
      const double x = pair.inverse(budget);
      EXPECT_LE(pair.forward(x), budget) << pair.name << " budget " << budget;
      if (budget < pair.saturates_at * 0.999) {
        EXPECT_GT(pair.forward(std::nextafter(x, kInf)), budget) << pair.name << " at " << budget;
      }
    }
  }
}

TEST(Inverse, OfForwardIsTheIdentityOnTheSafeSide) {
  // 12 decades of arguments. What was put in fits again, and asking for slightly less never gives
  // more than was put in.
  for (const Pair& pair : Pairs()) {
    for (double x = 1e-11; x < std::fmin(10, pair.limit); x *= 2.3) {
      const double budget = pair.forward(x);
      const double back = pair.inverse(budget);
      EXPECT_LE(pair.forward(back), budget) << pair.name << " at " << x;
      EXPECT_GE(back, x * (1 - 1e-13)) << pair.name << " at " << x;
      if (budget > 0) {
        EXPECT_LE(pair.inverse(budget * (1 - 1e-9)), x) << pair.name << " at " << x;
      }
    }
  }
}

TEST(Inverse, RisesWithTheBudget) {
  for (const Pair& pair : Pairs()) {
    double last = 0;
    for (double budget = 1e-12; budget < 20; budget *= 1.9) {
      const double x = pair.inverse(budget);
      EXPECT_GE(x, last) << pair.name << " at " << budget;
      last = x;
    }
  }
}

TEST(Inverse, SaysThatAFullBudgetNeedsNoThreshold) {
  EXPECT_EQ(SpanForTv(1), kInf);
  EXPECT_EQ(KlForTv(1), kInf);
  EXPECT_EQ(SpanForRewardDrift(1.001, 1, kUnit), kInf);
  EXPECT_EQ(SpanForGradientBias(0, Correction::kFull, kRange, 2, 3), kInf);
  EXPECT_EQ(TvForRewardDrift(50, 1, kUnit), 1);
  EXPECT_EQ(SpanForTv(0), 0);
  EXPECT_EQ(SpanForSequenceTv(0.1, 0), kInf);
}

// docs/math.md A.8: eta = .01 and the paper's 0.04 reward gap, in 40 digits.
TEST(Inverse, GivesTheAuthorsNumbers) {
  EXPECT_NEAR(SpanForTv(0.01), 0.0400013334133390481, 1e-15);
  EXPECT_NEAR(SpanForSequenceTv(0.01, 1000), 0.00126494269909868531, 1e-16);
  EXPECT_NEAR(SpanForRewardDrift(0.04, 1, kUnit), 0.160085415347072852, 1e-14);
  EXPECT_NEAR(LinfForSpan(SpanForTv(0.01), 1), 0.02000066670666952, 1e-15);
  EXPECT_NEAR(L2ForSpan(SpanForTv(0.01), 1), 0.028285214172, 1e-10);
  EXPECT_NEAR(KlForTv(0.01), 2e-4, 1e-15);
  EXPECT_LE(SpanForTv(0.01), 0.04000133341333904806352843);
  // A mask that the span cannot reach leaves no bias: up to min(ln c, -ln a).
  EXPECT_NEAR(SpanForGradientBias(1e-9, Correction::kMask, kRange, 2, 3), std::log(1.25), 1e-8);
}

TEST(LeastReaching, StopsBeforeTheFirstDoubleThatReaches) {
  const double least = LeastReaching(0.25, [](double x) { return x * x; });
  EXPECT_LT(least * least, 0.25);
  EXPECT_EQ(std::nextafter(least, 1.0), 0.5);
}

}  // namespace
}  // namespace kcc
