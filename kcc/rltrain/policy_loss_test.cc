#include "kcc/rltrain/policy_loss.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kcc/train/train_test_data.h"

namespace kcc {
namespace {

using testing::Doubles;
using testing::FiniteDifferences;
using testing::RandomFloats;

// A batch with ratios on all sides of the clip range, and the loss by its definition.
struct Batch {
  std::vector<int64_t> offsets = {0, 7, 12, 40};
  std::vector<float> now, old, reference, weights;
  std::vector<double> advantages;
  std::vector<uint8_t> mask;

  explicit Batch(unsigned seed) {
    const size_t count = 40;
    now = RandomFloats(count, seed, 1.0f);
    old = RandomFloats(count, seed + 1, 1.0f);
    reference = RandomFloats(count, seed + 2, 1.0f);
    weights = RandomFloats(count, seed + 3, 1.0f);
    for (float& weight : weights) weight += 1.5f;
    const std::vector<float> drawn = RandomFloats(count, seed + 4, 2.0f);
    advantages.assign(drawn.begin(), drawn.end());
    std::mt19937 bits(seed);
    for (size_t i = 0; i < count; ++i) mask.push_back(bits() % 5 != 0);
  }

  PolicyTokens tokens() const {
    return {offsets, now, old, reference, advantages, weights, mask, 55, 5};
  }

  double Loss(const Doubles& at, const PolicyLossOptions& o) const {
    int64_t kept = 0;
    for (const uint8_t m : mask) kept += m;
    double loss = 0;
    for (size_t s = 0; s + 1 < offsets.size(); ++s) {
      for (auto t = static_cast<size_t>(offsets[s]); t < static_cast<size_t>(offsets[s + 1]); ++t) {
        if (mask[t] == 0) continue;
        const double share = o.mean == LossMean::kTokens ? 1.0 / 55
                             : o.mean == LossMean::kKept
                                 ? 1.0 / static_cast<double>(kept)
                                 : 0.2 / static_cast<double>(offsets[s + 1] - offsets[s]);
        const double a = advantages[t];
        const double r = std::exp(at[t] - static_cast<double>(old[t]));
        const double clipped = std::min(std::max(r, 1 - o.clip_low), 1 + o.clip_high);
        double f = std::min(r * a, clipped * a);
        if (a < 0 && o.dual_clip > 0) f = std::max(f, o.dual_clip * a);
        const double d = static_cast<double>(reference[t]) - at[t];
        loss += share * (-static_cast<double>(weights[t]) * f + o.kl * (std::exp(d) - d - 1));
      }
    }
    return loss;
  }
};

TEST(PolicyLoss, HasTheValueAndTheSlopesOfItsDefinition) {
  for (const LossMean mean : {LossMean::kTokens, LossMean::kKept, LossMean::kSequences}) {
    for (const double dual : {0.0, 1.5}) {
      for (const double kl : {0.0, 0.3}) {
        const PolicyLossOptions options = {0.2, 0.28, dual, kl, mean};
        const Batch batch(static_cast<unsigned>(17 + dual * 10 + kl * 100));
        const PolicyLoss made = PolicyLossOf(batch.tokens(), options);
        const Doubles at(batch.now.begin(), batch.now.end());
        EXPECT_NEAR(made.loss, batch.Loss(at, options), 1e-12);
        const Doubles expected =
            FiniteDifferences(batch.now, [&](const Doubles& x) { return batch.Loss(x, options); });
        for (size_t t = 0; t < expected.size(); ++t)
          EXPECT_NEAR(made.slopes[t], expected[t], 1e-7) << t;
        EXPECT_GT(made.clipped_low, 0);
        EXPECT_GT(made.clipped_high, 0);
        EXPECT_EQ(made.clipped_dual > 0, dual > 0);
      }
    }
  }
}

TEST(PolicyLoss, OnPolicyWithoutCorrectionTheSlopeIsTheAdvantage) {
  Batch batch(3);
  batch.old = batch.now;
  batch.weights.assign(batch.weights.size(), 1);
  batch.mask.assign(batch.mask.size(), 1);
  const PolicyLoss made = PolicyLossOf(batch.tokens(), {});
  for (size_t t = 0; t < made.slopes.size(); ++t)
    EXPECT_FLOAT_EQ(made.slopes[t], static_cast<float>(-batch.advantages[t] / 55));
  EXPECT_EQ(made.clipped_low + made.clipped_high + made.clipped_dual, 0);
}

TEST(PolicyLoss, WhatIsRejectedHasNoSlope) {
  Batch batch(4);
  batch.mask.assign(batch.mask.size(), 0);
  for (const LossMean mean : {LossMean::kTokens, LossMean::kKept}) {
    const PolicyLoss made = PolicyLossOf(batch.tokens(), {0.2, 0.2, 0, 0.1, mean});
    EXPECT_EQ(made.loss, 0);
    for (const float slope : made.slopes) EXPECT_EQ(slope, 0);
  }
}

TEST(PolicyLoss, NamesAreReadBack) {
  for (const LossMean mean : {LossMean::kTokens, LossMean::kKept, LossMean::kSequences})
    EXPECT_EQ(*ParseLossMean(Name(mean)), mean);
  EXPECT_NE(ParseLossMean("token").error().message().find("tokens, kept or sequences"),
            std::string::npos);
}

TEST(Advantages, OfAGroupAreStandardScores) {
  const std::vector<double> rewards = {1, 0, 0, 0, 1, 1, 1, 1};
  const std::vector<double> scaled = GroupAdvantages(rewards, 4, true);
  EXPECT_NEAR(scaled[0], 0.75 / (0.5 + 1e-6), 1e-12);
  EXPECT_NEAR(scaled[1], -0.25 / (0.5 + 1e-6), 1e-12);
  for (size_t i = 4; i < 8; ++i) EXPECT_EQ(scaled[i], 0);
  const std::vector<double> centred = GroupAdvantages(rewards, 4, false);
  EXPECT_DOUBLE_EQ(centred[0], 0.75);
  EXPECT_DOUBLE_EQ(centred[3], -0.25);
}

// A_t = sum_l (gamma lambda)^l delta_{t+l}, term by term.
TEST(Advantages, GeneralisedOnesAreTheirSum) {
  const std::vector<double> values = {0.3, -0.2, 0.9, 0.1};
  const double gamma = 0.9, lambda = 0.7, reward = 1;
  const std::vector<double> made = GeneralisedAdvantages(values, reward, gamma, lambda);
  for (size_t t = 0; t < values.size(); ++t) {
    double expected = 0;
    for (size_t l = 0; t + l < values.size(); ++l) {
      const bool last = t + l + 1 == values.size();
      const double delta =
          (last ? reward : 0) + (last ? 0 : gamma * values[t + l + 1]) - values[t + l];
      expected += std::pow(gamma * lambda, static_cast<double>(l)) * delta;
    }
    EXPECT_NEAR(made[t], expected, 1e-12);
  }
  // With lambda 1 and gamma 1 they are what is left of the reward.
  const std::vector<double> whole = GeneralisedAdvantages(values, reward, 1, 1);
  for (size_t t = 0; t < values.size(); ++t) EXPECT_NEAR(whole[t], reward - values[t], 1e-12);
}

TEST(Advantages, WhitenedOnesHaveMeanZeroAndDeviationOne) {
  std::vector<double> values = {1, 2, 4, 8, 16};
  Whiten(values);
  double sum = 0, squares = 0;
  for (const double v : values) sum += v;
  for (const double v : values) squares += v * v;
  EXPECT_NEAR(sum, 0, 1e-12);
  EXPECT_NEAR(squares / 4, 1, 1e-8);
}

}  // namespace
}  // namespace kcc
