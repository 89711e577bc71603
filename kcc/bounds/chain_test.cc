// The chain as a whole: rows equal the bounds they name, thresholds guarantee what they promise.
#include "kcc/bounds/chain.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <limits>
#include <string>

#include "kcc/bounds/divergence.h"
#include "kcc/bounds/sequence.h"

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

BoundAssumptions All() {
  BoundAssumptions given;
  given.temperature = 0.7;
  given.reward_max = 2;
  given.advantage_max = 3;
  given.score_norm_max = 5;
  given.tokens = 100;
  return given;
}

const ChainRow* Find(const Chain& chain, std::string_view name) {
  for (const ChainRow& row : chain.rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

TEST(ForwardChain, CarriesALogitDriftToRewardAndGradient) {
  const Chain chain = ForwardChain(DriftForm::kLinf, 0.02, All());
  const double s = SpanOfLinf(0.02, 0.7);
  EXPECT_EQ(Find(chain, "logit_span")->value, s);
  EXPECT_EQ(Find(chain, "tv")->value, TvOfSpan(s));
  EXPECT_EQ(Find(chain, "kl")->value, KlOfSpan(s));
  EXPECT_EQ(Find(chain, "chi2")->value, Chi2OfSpan(s));
  EXPECT_EQ(Find(chain, "abs_log_ratio")->value, s);
  EXPECT_NEAR(Find(chain, "reward_drift")->value, 4 * std::tanh(s / 4), 1e-12);
  EXPECT_NEAR(Find(chain, "gradient_bias")->value, 30 * std::tanh(s / 4), 1e-12);
  EXPECT_EQ(Find(chain, "sequence_tv")->value, SequenceTvOfSpan(s, 100));
  EXPECT_TRUE(chain.missing.empty());
}

TEST(ForwardChain, ShowsTheTextbookConstantsBesideTheTightOnes) {
  const Chain chain = ForwardChain(DriftForm::kSpan, 0.01, All());
  EXPECT_NEAR(*Find(chain, "tv")->textbook / Find(chain, "tv")->value, 2, 1e-4);
  EXPECT_NEAR(*Find(chain, "reward_drift")->textbook / Find(chain, "reward_drift")->value, 2, 1e-4);
  EXPECT_NEAR(*Find(chain, "gradient_bias")->textbook / Find(chain, "gradient_bias")->value, 2,
              1e-4);
  for (const ChainRow& row : chain.rows) {
    if (row.textbook) {
      EXPECT_GE(*row.textbook, row.value * (1 - 1e-12)) << row.name;
    }
  }
}

TEST(ForwardChain, LeavesOutWhatItsAssumptionsDoNotAllowAndSaysSo) {
  const Chain chain = ForwardChain(DriftForm::kKl, 0.01, BoundAssumptions());
  EXPECT_EQ(Find(chain, "reward_drift"), nullptr);
  EXPECT_EQ(Find(chain, "gradient_bias"), nullptr);
  EXPECT_EQ(chain.missing, (std::vector<std::string_view>{"rewardMax", "advantageMax",
                                                          "scoreNormMax", "tokensMax"}));
}

TEST(ForwardChain, RewardsFromZeroHaveHalfTheRange) {
  BoundAssumptions given = All();
  const double both = Find(ForwardChain(DriftForm::kTv, 0.1, given), "reward_drift")->value;
  given.reward_range = RewardRange::kZeroToR;
  EXPECT_NEAR(Find(ForwardChain(DriftForm::kTv, 0.1, given), "reward_drift")->value, both / 2,
              1e-12);
}

// T = 2, train (.5, .5) at both steps, log w = ±0.1 about it. With w_t on each token the prefix of
// the second is still infer's, and an outcome advantage sees the second token at the first as well:
// A = S_1 S_2 with scores S_t = ±1, which have mean 0 under train, attains 4 tv.
TEST(ForwardChain, HoldsForAdvantagesOfOutcomesUnlessTheyAreSaidToBeOfTokens) {
  const double q = 1 / (1 + std::exp(0.2));  // infer's likelihood of the token that train prefers
  const double w[2] = {0.5 / q, 0.5 / (1 - q)};
  const double law[2] = {q, 1 - q};
  double weighted = 0;
  double uncorrected = 0;
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      const double of_both = law[i] * law[j];
      const int score[2] = {i == 0 ? 1 : -1, j == 0 ? 1 : -1};
      const int advantage = score[0] * score[1];
      const double whole = w[i] * w[j];
      weighted += of_both * advantage * ((whole - w[i]) * score[0] + (whole - w[j]) * score[1]);
      uncorrected += of_both * std::fabs(whole - 1) * 2;  // scores of one sign
    }
  }
  EXPECT_NEAR(weighted, 0.199, 1e-3);
  BoundAssumptions given;
  given.advantage_max = given.score_norm_max = 1;
  given.tokens = 2;
  const Chain both = ForwardChain(DriftForm::kSpan, 0.2, given);
  EXPECT_GE(Find(both, "trajectory_bias_token_weights")->value, weighted);
  EXPECT_GE(Find(both, "trajectory_bias")->value, uncorrected);
  given.advantages = AdvantageKind::kToken;
  const Chain tokens = ForwardChain(DriftForm::kSpan, 0.2, given);
  EXPECT_NEAR(Find(tokens, "trajectory_bias_token_weights")->value, 0.0999, 1e-4);
  EXPECT_LT(Find(tokens, "trajectory_bias")->value, Find(both, "trajectory_bias")->value);
}

TEST(BackwardChain, NeedsWhatItsForwardBoundNeeds) {
  EXPECT_FALSE(BackwardChain(Tolerated::kRewardDrift, 0.1, BoundAssumptions()).has_value());
  EXPECT_FALSE(BackwardChain(Tolerated::kGradientBias, 0.1, BoundAssumptions()).has_value());
}

TEST(BackwardChain, MatchesTheWorkedExample) {
  BoundAssumptions given;
  given.reward_max = 1;
  given.reward_range = RewardRange::kZeroToR;
  const auto rows = BackwardChain(Tolerated::kRewardDrift, 0.04, given);
  ASSERT_TRUE(rows.has_value());
  ASSERT_EQ(rows->size(), 6u);
  EXPECT_NEAR((*rows)[0].at_most, 4 * std::atanh(0.04), 1e-12);
  EXPECT_NEAR((*rows)[1].at_most, 2 * std::atanh(0.04), 1e-12);
  EXPECT_NEAR((*rows)[2].at_most, 2 * std::sqrt(2.0) * std::atanh(0.04), 1e-12);
  EXPECT_NEAR((*rows)[4].at_most, 2 * 0.04 * 0.04, 1e-12);
}

// Thresholds are always on the safe side: forward of a threshold fits the budget, and the next
// double does not.
TEST(BackwardChain, ThresholdsGuaranteeTheBudget) {
  const bool held = rc::check("forward(backward(budget)) <= budget", [] {
    const double budget = std::pow(10.0, *rc::gen::inRange(-1200, 100) / 100.0);
    BoundAssumptions given;
    given.temperature = std::pow(10.0, *rc::gen::inRange(-100, 100) / 100.0);
    given.reward_max = 0.5;
    given.advantage_max = 4;
    given.score_norm_max = 0.3;
    if (*rc::gen::arbitrary<bool>()) given.tokens = *rc::gen::inRange<int64_t>(1, 5000);
    if (*rc::gen::arbitrary<bool>()) given.advantages = AdvantageKind::kToken;
    for (const Tolerated what : {Tolerated::kRewardDrift, Tolerated::kGradientBias}) {
      const auto rows = BackwardChain(what, budget, given);
      RC_ASSERT(rows.has_value());
      for (size_t i = 0; i < rows->size(); ++i) {
        const ThresholdRow& row = (*rows)[i];
        const DriftForm form = kDriftForms[i];
        if (!std::isfinite(row.at_most)) continue;
        const bool mean = row.metric.starts_with("mean_");
        const auto cost = [&](double x) {
          double tv = TvOfDrift(form, x, given.temperature);
          if (given.tokens && what == Tolerated::kRewardDrift) {
            tv = mean ? SequenceTvOfMeanDrift(form, x, given.temperature, *given.tokens)
                      : SequenceTvOfDrift(form, x, given.temperature, *given.tokens);
          }
          if (what == Tolerated::kRewardDrift) {
            return RewardDriftOfTv(tv, 0.5, given.reward_range);
          }
          if (!given.tokens) return GradientBiasOfTv(tv, 4, 0.3);
          const double span = form == DriftForm::kSpan   ? x
                              : form == DriftForm::kLinf ? SpanOfLinf(x, given.temperature)
                                                         : SpanOfL2(x, given.temperature);
          return given.advantages == AdvantageKind::kToken
                     ? TrajectoryBiasOfSpan(span, *given.tokens, 4, 0.3)
                     : OutcomeBiasOfSpan(span, *given.tokens, 4, 0.3);
        };
        RC_ASSERT(cost(row.at_most) <= budget);
        const bool whole = form == DriftForm::kTv && row.at_most == 1;
        if (!whole) {
          RC_ASSERT(cost(std::nextafter(row.at_most, kInf)) > budget);
        }
      }
    }
  });
  EXPECT_TRUE(held);
}

// What lets a clause on a mean speak of the mean total variation.
TEST(TvOfDrift, IsConcaveInEveryForm) {
  for (const DriftForm form : kDriftForms) {
    for (double x = 1e-6; x < 20; x *= 1.7) {
      const double y = x * 1.9;
      const double middle = TvOfDrift(form, (x + y) / 2, 0.9);
      const double chord = (TvOfDrift(form, x, 0.9) + TvOfDrift(form, y, 0.9)) / 2;
      EXPECT_GE(middle, chord * (1 - 1e-12)) << CatalogName(form) << " at " << x;
    }
  }
}

// Each of these ended the process: infinity times a drift of 0 is no number.
TEST(BackwardChain, RefusesWhatNoThresholdCanGuarantee) {
  BoundAssumptions given;
  given.reward_max = 1;
  given.advantage_max = 1;
  given.score_norm_max = 1;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Tolerated what : {Tolerated::kRewardDrift, Tolerated::kGradientBias}) {
    for (const double budget : {nan, -1.0}) {
      EXPECT_FALSE(BackwardChain(what, budget, given).has_value());
    }
    for (const double huge : {1e300, 1.7e308, std::numeric_limits<double>::infinity(), nan, -1.0}) {
      BoundAssumptions wild;
      wild.reward_max = wild.advantage_max = wild.score_norm_max = huge;
      EXPECT_FALSE(BackwardChain(what, 0, wild).has_value()) << huge;
    }
    BoundAssumptions large;
    large.reward_max = large.advantage_max = large.score_norm_max = 1e100;
    for (const int64_t tokens : {int64_t{0}, int64_t{1'000'000'000'000'000}}) {
      if (tokens > 0) large.tokens = tokens;
      for (const double budget : {0.0, 1e-320, 1.0, 1e300}) {
        EXPECT_TRUE(BackwardChain(what, budget, large).has_value());
      }
    }
  }
}

}  // namespace
}  // namespace kcc
