#include "kcc/drift/sampled_token.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kcc/drift/reference.h"
#include "kcc/drift/row_quantities.h"
#include "kcc/drift/row_truth.h"

namespace kcc {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TokenDrift Published(double train, double infer) {
  TokenDrift drift;
  const Result<SampledToken> token = SampledTokenFromLogprobs(train, infer);
  EXPECT_TRUE(token.has_value());
  PublishSampledToken(*token, AllTokenSlots(), &drift);
  return drift;
}

double Value(const TokenDrift& drift, const char* name) { return drift.lo[TokenSlot(name)]; }

TEST(SampledToken, FollowsTheDefinitions) {
  const double train = -1.25;
  const double infer = -1.5;
  const TokenDrift drift = Published(train, infer);
  EXPECT_EQ(drift.known, SampledTokenSlots());
  const double w = std::exp(0.25);
  EXPECT_DOUBLE_EQ(Value(drift, "log_ratio"), 0.25);
  EXPECT_DOUBLE_EQ(Value(drift, "abs_log_ratio"), 0.25);
  EXPECT_DOUBLE_EQ(Value(drift, "w"), w);
  EXPECT_DOUBLE_EQ(Value(drift, "w_log_w"), 0.25 * w);
  EXPECT_DOUBLE_EQ(Value(drift, "k1"), -0.25);
  EXPECT_DOUBLE_EQ(Value(drift, "k2"), 0.03125);
  EXPECT_NEAR(Value(drift, "k3"), w - 1 - 0.25, 1e-15);
  EXPECT_NEAR(Value(drift, "prob_gap"), std::exp(-1.25) - std::exp(-1.5), 1e-15);
  EXPECT_EQ(Value(drift, "bit_mismatch"), 1);
  EXPECT_EQ(Value(drift, "ulp_gap"), 2097152);  // a quarter of the floats in [1, 2)
}

TEST(SampledToken, CountsFloatsBetweenTheLogProbs) {
  const float a = -3.7f;
  EXPECT_EQ(Value(Published(a, std::nextafter(a, 0.0f)), "ulp_gap"), 1);
  EXPECT_EQ(Value(Published(a, a), "ulp_gap"), 0);
  EXPECT_EQ(Value(Published(a, a), "bit_mismatch"), 0);
  EXPECT_EQ(Value(Published(0.0, -0.0), "ulp_gap"), 0);
  EXPECT_EQ(Value(Published(0.0, -0.0), "bit_mismatch"), 1);
}

TEST(SampledToken, GivesInfinitiesTheirMeaning) {
  const TokenDrift gone = Published(-kInf, -1);  // train could not have sampled it
  EXPECT_EQ(Value(gone, "w"), 0);
  EXPECT_EQ(Value(gone, "w_log_w"), 0);
  EXPECT_EQ(Value(gone, "k3"), kInf);
  EXPECT_DOUBLE_EQ(Value(gone, "prob_gap"), std::exp(-1));
  const TokenDrift impossible = Published(-1, -kInf);
  EXPECT_EQ(Value(impossible, "w"), kInf);
  EXPECT_EQ(Value(impossible, "log_ratio"), kInf);
  EXPECT_FALSE(SampledTokenFromLogprobs(-kInf, -kInf).has_value());
  EXPECT_FALSE(SampledTokenFromLogprobs(std::nan(""), -1).has_value());
  EXPECT_FALSE(SampledTokenFromLogprobs(-1, kInf).has_value());
}

// The mean over y ~ q of each estimate is the quantity itself, here summed over all tokens.
TEST(SampledToken, EstimatesAreUnbiasedUnderTheInferKernel) {
  for (const double sigma : {1e-3, 0.1, 1.0}) {
    const TestRow row = ModelRow(200, sigma, 0, 1, 11);
    RowPair pair;
    pair.train = row.train.data();
    pair.infer = row.infer.data();
    pair.vocab = 200;
    std::array<double, kTokenSlotsMax> mean{};
    TokenDrift truth;
    for (int32_t token = 0; token < 200; ++token) {
      pair.token = token;
      truth = {};
      ASSERT_TRUE(MeasureRowReference(pair, AllTokenSlots(), &truth));
      const double l = Value(truth, "log_ratio");
      SampledToken sampled;
      sampled.log_ratio = l;
      const SampleEstimates estimates = EstimateFromSample(sampled, AllTokenSlots());
      EXPECT_EQ(estimates.known, EstimableSlots());
      const double q = Value(truth, "prob_gap") / std::fabs(std::expm1(l));
      for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
        EXPECT_GE(estimates.value[slot], 0) << SlotName(slot);
        if (SlotQuantity(slot).estimate == SampleEstimate::kWithinRange) {
          EXPECT_LE(estimates.value[slot], SlotQuantity(slot).max) << SlotName(slot);
        }
        mean[slot] += q * estimates.value[slot];
      }
    }
    for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
      if (!EstimableSlots()[slot]) continue;
      EXPECT_NEAR(mean[slot] / truth.lo[slot], 1, 1e-9) << SlotName(slot) << " " << sigma;
    }
  }
}

// What the catalog says of a single estimate decides whether a sample can certify their mean.
TEST(SampledToken, AnEstimateHasAnUpperEndWhereTheCatalogSaysSo) {
  for (size_t slot = 0; slot < TokenSlotCount(); ++slot) {
    if (!EstimableSlots()[slot]) continue;
    double largest = 0;
    for (const double l : {-kInf, -800.0, -30.0, -1.0, 0.0, 1.0, 30.0, 800.0}) {
      SampledToken sampled;
      sampled.log_ratio = l;
      largest = std::max(largest, EstimateFromSample(sampled, AllTokenSlots()).value[slot]);
    }
    const Quantity& row = SlotQuantity(slot);
    const bool within = row.estimate == SampleEstimate::kWithinRange;
    EXPECT_EQ(within, largest <= row.max && std::isfinite(row.max)) << row.id << " " << largest;
  }
}

TEST(SampledToken, JsTermIsSmoothAcrossItsForms) {
  for (double x = -60; x < 60; x += 0.37) {
    const double m = (1 + std::exp(x)) / 2;
    const double want = (std::exp(x) * (x - std::log(m)) - std::log(m)) / 2;
    if (std::fabs(x) > 0.5) {
      EXPECT_NEAR(JsTerm(x) / want, 1, 1e-11) << x;
    }
  }
  EXPECT_NEAR(JsTerm(1e-6) / 1.25e-13, 1, 1e-5);
  EXPECT_EQ(JsTerm(0), 0);
}

}  // namespace
}  // namespace kcc
