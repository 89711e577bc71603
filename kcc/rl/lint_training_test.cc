#include "kcc/rl/lint_training.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "kcc/rl/rl_test_data.h"
#include "kcc/rl/training_evidence.h"

namespace kcc {
namespace {

using testing::NoisyBatch;
using testing::OwnedBatch;

// Noise of this size on every token of `from`.
std::vector<double> Noisy(const std::vector<double>& from, double noise, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> out;
  for (const double value : from) out.push_back(std::min(0.0, value + noise * normal(random)));
  return out;
}

std::string Named(const OwnedBatch& owned, bool bypass = false, RlCorrection correction = {}) {
  const auto found = LintTraining(owned.View(), {bypass, std::move(correction)}, 2);
  if (!found.has_value()) return found.error().Format();
  std::string text;
  for (const RlTrainingFinding& finding : *found) {
    EXPECT_FALSE(finding.evidence.empty());
    EXPECT_NE(finding.message.find(kE3Page), std::string::npos);
    text += (text.empty() ? "" : " ") + std::string(finding.is_note ? "note:" : "") +
            std::string(RlTrainingFaultName(finding.fault));
  }
  return text;
}

// Mean |log w| of Gaussian noise is 0.8 of its spread.
TEST(RlLintTraining, BypassIsNamedAboveTheSmallestMismatchThatCostReward) {
  EXPECT_EQ(Named(NoisyBatch(120, 40, 0.02, 1)), "");  // recomputed: nothing to say
  EXPECT_EQ(Named(NoisyBatch(120, 40, 0.001, 1), true), "note:bypass_mismatch");
  EXPECT_EQ(Named(NoisyBatch(120, 40, 0.007, 1), true), "note:bypass_mismatch");
  EXPECT_EQ(Named(NoisyBatch(120, 40, 0.01, 1), true), "bypass_mismatch");
  EXPECT_EQ(Named(NoisyBatch(120, 40, 0.1, 1), true), "bypass_mismatch");
}

TEST(RlLintTraining, ABatchWhoseOldLogProbsAreTheRolloutsIsInBypass) {
  OwnedBatch owned = NoisyBatch(120, 40, 0.02, 2);
  owned.old = owned.rollout;
  EXPECT_EQ(Named(owned), "bypass_mismatch");
  owned.train = owned.rollout;  // nothing was compared, which lint names
  EXPECT_EQ(Named(owned), "");
}

TEST(RlLintTraining, ATokenWithoutAChanceIsNeverANote) {
  OwnedBatch owned = NoisyBatch(120, 40, 0.001, 3);
  owned.train[0] = -std::numeric_limits<double>::infinity();
  owned.mask[0] = 1;
  EXPECT_EQ(Named(owned, true), "bypass_mismatch");
}

TEST(RlLintTraining, RejectionInsideTheKernelsOwnGapIsNamed) {
  const OwnedBatch owned = NoisyBatch(200, 40, 0.07, 4);  // mean k3 about 0.0024
  RlCorrection correction;
  correction.reject = {{RlStatistic::kK3, RlAggregate::kSequenceMean, 0, 0.001}};
  EXPECT_EQ(Named(owned, false, correction), "below_own_kernel");
  correction.reject[0].high = 0.02;
  EXPECT_EQ(Named(owned, false, correction), "");
  // The same threshold at a mismatch below it.
  correction.reject[0].high = 0.001;
  EXPECT_EQ(Named(NoisyBatch(200, 40, 0.005, 4), false, correction), "");
}

TEST(RlLintTraining, OldLogProbsOfAnotherKernelAreNamed) {
  // f32 samples and trains, int4 recomputes: E3's arm f32/int4.
  OwnedBatch owned = NoisyBatch(120, 40, 1e-7, 5);
  owned.old = Noisy(owned.train, 0.016, 50);
  EXPECT_EQ(Named(owned), "old_of_other_kernel");
  // int4 samples, f32 trains, fp8 recomputes with noise of its own.
  owned = NoisyBatch(120, 40, 0.01, 6);
  owned.old = Noisy(owned.train, 0.016, 51);
  EXPECT_EQ(Named(owned), "old_of_other_kernel");
}

TEST(RlLintTraining, OldLogProbsOfTheTrainedKernelAreNot) {
  for (const double stale : {0.0, 1e-4, 0.01, 0.1}) {
    for (const double mismatch : {0.0, 1e-4, 0.01, 0.1}) {
      OwnedBatch owned = NoisyBatch(120, 40, 0, 7);
      owned.old = Noisy(owned.rollout, mismatch, 52);
      owned.train = Noisy(owned.old, stale, 53);
      const std::string named = Named(owned);
      EXPECT_EQ(named.find("old_of"), std::string::npos) << stale << " " << mismatch;
    }
  }
  // Three calls of a kernel that is never twice the same, at the same weights: -0.5.
  OwnedBatch owned = NoisyBatch(120, 40, 0, 8);
  const std::vector<double> exact = owned.rollout;
  owned.rollout = Noisy(exact, 0.02, 54);
  owned.old = Noisy(exact, 0.02, 55);
  owned.train = Noisy(exact, 0.02, 56);
  EXPECT_EQ(Named(owned), "");
}

TEST(RlLintTraining, TooLittleToTellIsNotNamed) {
  OwnedBatch owned = NoisyBatch(2, 20, 1e-7, 9);
  owned.old = Noisy(owned.train, 0.016, 57);
  EXPECT_EQ(Named(owned), "");
  owned.mask.assign(owned.mask.size(), 0);
  EXPECT_EQ(Named(owned, true), "");
}

TEST(TrainingEvidence, AGapIsPlacedAmongE3sKernels) {
  EXPECT_EQ(E3Reached(0.006, 0.001), nullptr);
  EXPECT_EQ(E3Reached(0.0069, 0)->name, "fp8");
  EXPECT_EQ(E3Reached(0, 0.0011)->name, "fp8");
  EXPECT_EQ(E3Reached(0.012, 0.0029)->name, "fp8");
  EXPECT_EQ(E3Reached(0.016, 0.0042)->name, "int4");
  EXPECT_EQ(E3Reached(1, 1)->name, "int3");
  double before = 0;
  for (const E3Kernel& kernel : E3Kernels()) {
    EXPECT_GT(kernel.mean_abs_log_ratio, before);
    before = kernel.mean_abs_log_ratio;
    EXPECT_LT(kernel.bypass + kernel.bypass_interval, 0) << "the line would warn of no effect";
  }
  EXPECT_NE(E3GapText(0.012, 0.003).find("next, at int4"), std::string::npos);
  EXPECT_NE(E3GapText(0.001, 1e-5).find("below every mismatch"), std::string::npos);
  EXPECT_EQ(E3GapText(1, 1).find("next"), std::string::npos);
}

}  // namespace
}  // namespace kcc
