#include "kcc/experiment/gradient_bias.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>

#include "kcc/rl/replay.h"

namespace kcc {
namespace {

GradientBias MustBias(const EnumerableProblem& problem, const GradientCorrection& correction) {
  auto made = BiasOf(problem, correction);
  EXPECT_TRUE(made.has_value()) << made.error().Format();
  return *made;
}

GradientCorrection Named(const char* name) {
  for (const GradientCorrection& one : ExperimentCorrections()) {
    if (one.name == name) return one;
  }
  ADD_FAILURE() << "no correction " << name;
  return {};
}

// Two tokens, p = (1/2, 1/2): the two scores are opposite, and so long as each other.
EnumerableProblem TwoTokens(double q, std::vector<double> advantages) {
  return EnumerableFromLogits(2, 1, std::vector<double>{0, 0},
                              std::vector<double>{std::log(q), std::log(1 - q)},
                              std::move(advantages));
}

TEST(Enumerable, MassesAddUpAndTheRatioIsOfThem) {
  const EnumerableProblem p = RandomEnumerable(4, 3, 0.5, 3);
  EXPECT_EQ(p.prefixes(), 21u);
  EXPECT_EQ(p.continuations(), 64u);
  const std::vector<double> train = Masses(p, p.train);
  const std::vector<double> rollout = Masses(p, p.rollout);
  const std::vector<double> ratios = Ratios(p);
  EXPECT_NEAR(std::accumulate(train.begin(), train.end(), 0.0), 1, 1e-14);
  EXPECT_NEAR(std::accumulate(rollout.begin(), rollout.end(), 0.0), 1, 1e-14);
  double tv = 0;
  for (size_t y = 0; y < 64; ++y) {
    EXPECT_NEAR(ratios[y] * rollout[y], train[y], 1e-14);
    tv += std::fabs(train[y] - rollout[y]) / 2;
  }
  const EnumerableLaws laws = LawsOf(p);
  EXPECT_NEAR(laws.tv, tv, 1e-14);
  EXPECT_GT(laws.kl, 2 * tv * tv) << "Pinsker";
  EXPECT_LE(laws.score_sum_max, std::sqrt(3.0) * laws.score_max);
  EXPECT_LE(laws.score_max, std::sqrt(2.0));
}

TEST(Enumerable, TheGradientIsThatOfFiniteDifferences) {
  const EnumerableProblem p = RandomEnumerable(3, 3, 0.3, 5);
  const auto value = [&](size_t at, double step) {
    std::vector<double> logits = p.train;
    logits[at] += step;
    const EnumerableProblem moved = EnumerableFromLogits(3, 3, logits, p.rollout, p.advantages);
    const std::vector<double> mass = Masses(moved, moved.train);
    return std::inner_product(mass.begin(), mass.end(), p.advantages.begin(), 0.0);
  };
  const EnumerableLaws laws = LawsOf(p);
  for (size_t at = 0; at < p.train.size(); ++at)
    EXPECT_NEAR(laws.gradient[at], (value(at, 1e-4) - value(at, -1e-4)) / 2e-4, 1e-8) << at;
}

// Proposition 2 is attained (docs/math.md A.7), and what W5 calls false is refuted.
TEST(GradientBias, ThePropositionIsAttainedAndAFalseBoundIsRefuted) {
  const double norm = std::sqrt(0.5);
  const GradientBias bias = MustBias(TwoTokens(0.4, {1, 1}), Named("none"));
  EXPECT_NEAR(bias.bias, 0.2 * norm, 1e-15);
  EXPECT_NEAR(bias.bound, 2 * 0.1 * norm, 1e-15);
  EXPECT_FALSE(bias.refutes(bias.bound));
  EXPECT_TRUE(bias.refutes(0.99 * bias.bound));
  const GradientBias far = MustBias(TwoTokens(0.1, {1, 1}), Named("none"));
  const double mean_abs_log_ratio = LawsOf(TwoTokens(0.1, {1, 1})).mean_abs_log_ratio;
  EXPECT_NEAR(mean_abs_log_ratio, 0.690, 5e-4);
  EXPECT_TRUE(far.refutes(norm * mean_abs_log_ratio));
  EXPECT_FALSE(far.refutes(far.bound));
  // A bias far below a bound refutes nothing (W10).
  EXPECT_FALSE(MustBias(TwoTokens(0.1, {1, -1}), Named("none")).refutes(far.bound));
}

TEST(GradientBias, EqualLawsLeaveNoBiasWhateverTheCorrection) {
  EnumerableProblem p = RandomEnumerable(4, 3, 0, 7);
  for (const GradientCorrection& correction : ExperimentCorrections()) {
    const GradientBias bias = MustBias(p, correction);
    EXPECT_LT(bias.bias, 1e-15) << correction.name;
    EXPECT_NEAR(bias.cosine, 1, 1e-14);
    EXPECT_NEAR(bias.kept, 1, 1e-14);
    EXPECT_NEAR(bias.second_moment, 1, 1e-14);
  }
}

// Token weights remove the bias of one token; over a continuation the prefixes are still Q's (W6).
TEST(GradientBias, WeightsOfWholeContinuationsRemoveItAndTokenWeightsDoNot) {
  for (const size_t length : {size_t{1}, size_t{3}}) {
    const EnumerableProblem p = RandomEnumerable(4, length, 0.5, 11);
    EXPECT_LT(MustBias(p, Named("sequence weights")).bias, 1e-14);
    const GradientBias token = MustBias(p, Named("token weights"));
    EXPECT_EQ(token.bias > 1e-3, length > 1) << token.bias;
    EXPECT_GT(MustBias(p, Named("none")).bias, 1e-3);
  }
}

// PPO drops what it would push up from w > 1 + eps and keeps what it would push down.
TEST(GradientBias, PposClipLooksAtTheSignOfTheAdvantage) {
  const GradientCorrection ppo = Named("PPO's clip at 0.2, rollout log-probs as old (bypass)");
  // w = (1.25, 0.8333).
  EXPECT_GT(MustBias(TwoTokens(0.4, {1, 0}), ppo).bias, 0.1);
  EXPECT_LT(MustBias(TwoTokens(0.4, {-1, 0}), ppo).bias, 1e-15);
  EXPECT_LT(MustBias(TwoTokens(0.45, {1, -1}), ppo).bias, 1e-15) << "w within 1 +- eps";
}

// The bound is made of what `kcc rl` reports: biasSequence, here of one continuation at a time.
TEST(GradientBias, TheBoundIsTheOneOfTheCorrectionsMetrics) {
  const EnumerableProblem p = RandomEnumerable(4, 3, 0.5, 13);
  const std::vector<double> train = TokenLogs(p, p.train);
  const std::vector<double> rollout = TokenLogs(p, p.rollout);
  const std::vector<double> mass = Masses(p, p.rollout);
  const EnumerableLaws laws = LawsOf(p);
  for (const GradientCorrection& correction : ExperimentCorrections()) {
    if (correction.ppo) continue;
    double gap = 0;
    for (size_t y = 0; y < p.continuations(); ++y) {
      RlBatch batch;
      batch.rows = 1;
      batch.columns = 3;
      batch.train = {&train[y * 3], RlType::kF64, 3};
      batch.rollout = {&rollout[y * 3], RlType::kF64, 3};
      const auto metrics = CorrectRl(batch, correction.correction, {});
      ASSERT_TRUE(metrics.has_value());
      gap += mass[y] * 3 * (*metrics)[0].bias_sequence;
    }
    const GradientBias bias = MustBias(p, correction);
    // The norm of a step's score for each of three steps, or that of their sum for the whole.
    const double by_token = laws.advantage_max * laws.score_max * gap;
    const double whole = laws.advantage_max * laws.score_sum_max * gap / 3;
    const double error = 1e-12 * by_token + 1e-14;
    EXPECT_TRUE(std::fabs(bias.bound - by_token) < error || std::fabs(bias.bound - whole) < error)
        << correction.name << ": " << bias.bound << ", " << by_token << " or " << whole;
  }
}

struct Tally {
  int problems = 0;
  double largest = 0;
};

// Every correction of the replay's grid and of the experiment, on random laws of all sizes and
// distances, with random advantages and with bad ones: no bias is above a bound, and bounds are
// attained.
TEST(GradientBias, NoBiasIsAboveItsBoundAndBoundsAreAttained) {
  const std::vector<GradientCorrection> experiments = ExperimentCorrections();
  const std::vector<RlCorrection> grid = ReplayGrid();
  std::map<std::string, Tally> tallies;
  const unsigned seed = 17;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  for (int i = 0; i < 6000; ++i) {
    const RlCorrection& of_grid = grid[random() % grid.size()];
    const GradientCorrection correction =
        i % 2 == 0 ? experiments[random() % experiments.size()]
                   : GradientCorrection{DescribeCorrection(of_grid), of_grid, {}};
    const size_t vocabulary = 2 + random() % 3;
    const size_t length = 1 + random() % 3;
    const double gap = std::pow(10.0, -3 + 3.5 * uniform(random));
    EnumerableProblem p = RandomEnumerable(vocabulary, length, gap, random());
    if (random() % 2 == 0) {
      auto worst = WithWorstAdvantages(p, correction, 1);
      ASSERT_TRUE(worst.has_value());
      p = std::move(*worst);
    }
    const GradientBias bias = MustBias(p, correction);
    EXPECT_FALSE(bias.refutes(bias.bound)) << correction.name << " seed " << seed << " problem "
                                           << i << ": " << bias.bias << " > " << bias.bound;
    Tally& tally = tallies[correction.name];
    ++tally.problems;
    if (bias.bound > 1e-10) tally.largest = std::max(tally.largest, bias.bias / bias.bound);
    if (!bias.span_bound) continue;
    EXPECT_FALSE(bias.refutes(*bias.span_bound))
        << correction.name << " seed " << seed << " problem " << i << ": " << bias.bias << " > "
        << *bias.span_bound << " of spans";
  }
  for (const auto& [name, tally] : tallies) {
    EXPECT_GT(tally.problems, 20) << name;
  }
  EXPECT_GT(tallies["none"].largest, 0.9);
  EXPECT_GT(tallies["token weights truncated at 2 (TIS)"].largest, 0.8);
  EXPECT_GT(tallies["PPO's clip at 0.2, rollout log-probs as old (bypass)"].largest, 0.8);
}

TEST(GradientBias, BadAdvantagesAreWorseThanThoseThatWereGiven) {
  for (const GradientCorrection& correction : ExperimentCorrections()) {
    if (correction.name == "sequence weights") continue;
    EnumerableProblem p = RandomEnumerable(4, 3, 0.5, 19);
    for (double& v : p.advantages) v = v < 0 ? -1 : 1;
    const auto worst = WithWorstAdvantages(p, correction, 1);
    ASSERT_TRUE(worst.has_value());
    EXPECT_GT(MustBias(*worst, correction).bias, MustBias(p, correction).bias) << correction.name;
    for (const double v : worst->advantages) EXPECT_EQ(std::fabs(v), 1);
  }
}

// On average the square of a sampled distance is that of the bias and that of its floor.
TEST(GradientBias, ASampleHasTheBiasAboveItsFloor) {
  const EnumerableProblem p = RandomEnumerable(4, 3, 0.5, 23);
  for (const char* name : {"none", "token weights truncated at 2 (TIS)", "sequence weights",
                           "PPO's clip at 0.2, rollout log-probs as old (bypass)"}) {
    const double exact = MustBias(p, Named(name)).bias;
    std::vector<double> excess;
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const auto sampled = SampleBias(p, Named(name), 500, seed);
      ASSERT_TRUE(sampled.has_value());
      excess.push_back(sampled->distance * sampled->distance - sampled->floor * sampled->floor);
    }
    double mean = 0, square = 0;
    for (const double one : excess) mean += one / 300;
    for (const double one : excess) square += (one - mean) * (one - mean) / 299;
    EXPECT_NEAR(mean, exact * exact, 5 * std::sqrt(square / 300)) << name;
  }
  const auto few = SampleBias(p, Named("none"), 500, 1);
  const auto many = SampleBias(p, Named("none"), 50000, 1);
  EXPECT_NEAR(few->floor / many->floor, 10, 1);
  EXPECT_NEAR(many->bias(), MustBias(p, Named("none")).bias, 4 * many->floor);
}

TEST(GradientBias, WhatABatchAddsIsRefused) {
  GradientCorrection normalised = Named("token weights truncated at 2 (TIS)");
  normalised.correction.weight.batch_normalize = true;
  const auto made = BiasOf(RandomEnumerable(2, 2, 0.1, 1), normalised);
  ASSERT_FALSE(made.has_value());
  EXPECT_NE(made.error().message().find("normalises"), std::string::npos);
}

TEST(GradientBias, ATableHasARowForEachCorrection) {
  const std::vector<GradientCorrection> corrections = ExperimentCorrections();
  const auto made = MeasureBiases(RandomEnumerable(4, 3, 0.1, 29), corrections, 1000, 1);
  ASSERT_TRUE(made.has_value());
  EXPECT_EQ(made->refuted(), 0u);
  const auto rows = BiasTableRows(*made);
  ASSERT_EQ(rows.size(), corrections.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i].size(), BiasTableHead().size());
    EXPECT_EQ(rows[i][0], corrections[i].name);
  }
  JsonWriter json;
  WriteBiases(*made, &json);
  const std::string text = json.Take();
  EXPECT_NE(text.find("\"refuted\": 0"), std::string::npos) << text;
  EXPECT_NE(text.find("\"spanBound\": null"), std::string::npos) << "rejection has no supremum";
}

}  // namespace
}  // namespace kcc
