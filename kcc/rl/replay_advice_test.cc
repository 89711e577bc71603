#include "kcc/rl/replay_advice.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kcc/rl/published.h"
#include "kcc/rl/rl_test_data.h"

namespace kcc {
namespace {

using testing::NoisyBatch;
using testing::OwnedBatch;

RlReplayAdvice Advice(const OwnedBatch& batch, std::string_view dialect = "") {
  const auto replay = ReplayRl(batch.View(), ReplayGrid());
  EXPECT_TRUE(replay.has_value());
  const auto advice = AdviseRl(batch.View(), *replay, {}, 0.2, dialect);
  EXPECT_TRUE(advice.has_value()) << advice.error().Format();
  return *advice;
}

TEST(RlAdvice, ASmallGapNeedsNoCorrection) {
  const RlReplayAdvice advice = Advice(NoisyBatch(120, 40, 1e-3, 1), "verl");
  EXPECT_FALSE(advice.correction_needed) << advice.need_reason;
  EXPECT_NE(advice.need_reason.find("NeMo-RL's 0.001"), std::string::npos) << advice.need_reason;
  EXPECT_EQ(advice.row, 0);
  ASSERT_TRUE(advice.settings.has_value());
  EXPECT_EQ(advice.settings->lines,
            std::vector<std::string>{"algorithm.rollout_correction.rollout_is=null"});
}

TEST(RlAdvice, ALargeGapNeedsOne) {
  const RlReplayAdvice advice = Advice(NoisyBatch(120, 40, 0.1, 2));
  EXPECT_TRUE(advice.correction_needed);
  EXPECT_NE(advice.need_reason.find("beyond NeMo-RL's"), std::string::npos) << advice.need_reason;
}

TEST(RlAdvice, ASliceBeyondTheBoundNeedsOneThoughTheMeanIsInside) {
  OwnedBatch batch = NoisyBatch(120, 40, 1e-4, 3);
  for (size_t i = 0; i < batch.train.size(); ++i) {
    if (batch.slice_of_row[i / 40] == 2 && i % 40 < 3) batch.train[i] -= 0.2;
  }
  const RlReplayAdvice advice = Advice(batch);
  EXPECT_TRUE(advice.correction_needed);
  EXPECT_NE(advice.need_reason.find("slice math"), std::string::npos) << advice.need_reason;
}

TEST(RlAdvice, FewTokensSayTooLittle) {
  const RlReplayAdvice advice = Advice(NoisyBatch(10, 20, 1e-4, 4));
  EXPECT_TRUE(advice.correction_needed);
  EXPECT_NE(advice.need_reason.find("too few"), std::string::npos) << advice.need_reason;
}

TEST(RlAdvice, ATokenWithoutAChanceIsNeverCalledSmall) {
  OwnedBatch batch = NoisyBatch(120, 40, 1e-4, 5);
  for (size_t i = 0; i < 40; ++i) batch.mask[i] = 1;
  batch.train[7] = -std::numeric_limits<double>::infinity();
  EXPECT_TRUE(Advice(batch).correction_needed);
}

TEST(RlAdvice, WhatAFrameworkCannotSayIsReplacedByTheBestItCan) {
  OwnedBatch batch = NoisyBatch(120, 40, 0.1, 6);
  const auto replay = ReplayRl(batch.View(), ReplayGrid());
  ASSERT_GE(replay->recommended, 0);
  const RlReplayAdvice advice = Advice(batch, "ms_swift");
  const auto& wanted = replay->rows[static_cast<size_t>(replay->recommended)].correction;
  ASSERT_FALSE(SettingsFor("ms_swift", wanted).has_value());
  ASSERT_GE(advice.row, 0);
  EXPECT_NE(advice.row, replay->recommended);
  EXPECT_TRUE(advice.settings.has_value());
  EXPECT_NE(advice.settings_reason.find("ms_swift has no settings"), std::string::npos);
}

TEST(RlClipBudget, KernelsAndStalenessAreToldApart) {
  OwnedBatch batch;
  batch.rows = 1;
  batch.columns = 4;
  batch.rollout = {-1, -1, -1, -1};
  batch.old = {-1 + std::log(1.1), -1 + std::log(0.9), -1, -1 + std::log(1.3)};
  batch.train = {-1 + std::log(1.1), -1 + std::log(0.45), -1, -1 + std::log(1.3)};
  const auto budget = ClipBudget(batch.View(), 0.2);
  ASSERT_TRUE(budget.has_value()) << budget.error().Format();
  ASSERT_TRUE(budget->kernels && budget->staleness);
  EXPECT_NEAR(budget->kernels->share, (0.1 + 0.1 + 0.3) / 4 / 0.2, 1e-12);
  EXPECT_EQ(budget->kernels->tokens_outside, 1);
  EXPECT_NEAR(budget->staleness->share, 0.5 / 4 / 0.2, 1e-12);
  EXPECT_EQ(budget->staleness->tokens_outside, 1);
  EXPECT_NEAR(budget->together.mean_distance, (0.1 + 0.55 + 0.3) / 4, 1e-12);
  EXPECT_EQ(budget->together.tokens_outside, 2);
  batch.old.clear();
  EXPECT_FALSE(ClipBudget(batch.View(), 0.2)->kernels.has_value());
  EXPECT_FALSE(ClipBudget(batch.View(), 0).has_value());
}

RlMetrics WithK3(double k3, std::string slice = "") {
  RlMetrics metrics;
  metrics.slice = std::move(slice);
  metrics.tokens = 100;
  metrics.level[0].k3 = k3;
  return metrics;
}

TEST(RlPublished, TheSentencePlacesK3AmongPublishedBounds) {
  const auto sentence = [](double k3) {
    const RlMetrics metrics = WithK3(k3);
    return DiagnosisSentence({&metrics, 1});
  };
  EXPECT_EQ(sentence(0.00019), "k3 0.00019: inside NeMo-RL's 0.001.");
  EXPECT_EQ(sentence(0.006), "k3 0.006: beyond NeMo-RL's 0.001, inside prime-rl's 0.015.");
  EXPECT_EQ(sentence(0.5), "k3 0.5: beyond NeMo-RL's 0.001 and prime-rl's 0.015.");
  EXPECT_EQ(sentence(0), "k3 0: the two sides are equal on every token.");
  EXPECT_EQ(sentence(std::numeric_limits<double>::infinity()),
            "k3 inf: beyond NeMo-RL's 0.001 and prime-rl's 0.015.");
  EXPECT_NE(sentence(std::nan("")).find("not known"), std::string::npos);
}

TEST(RlPublished, TheSentenceNamesASliceThatIsWorseAndTokensLeftOut) {
  std::vector<RlMetrics> metrics = {WithK3(0.00052), WithK3(0.0001, "chat"), WithK3(0.02, "grid")};
  metrics[0].zero_ratio = 2;
  EXPECT_EQ(DiagnosisSentence(metrics),
            "k3 0.00052: inside NeMo-RL's 0.001; slice grid has 0.02: beyond NeMo-RL's 0.001 and "
            "prime-rl's 0.015; left out: 2 of 100 tokens, which one side gives no chance.");
}

}  // namespace
}  // namespace kcc
