// Proposals without evidence, rounding to the safe side, and the statistics behind limits.
// Proposals from traces are tested through the program (tests/bounds/test_author.py).
#include "kcc/author/propose.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "kcc/author/kernel_words.h"
#include "kcc/author/limits.h"
#include "kcc/bounds/divergence.h"

namespace kcc {
namespace {

TEST(Rounded, StaysOnItsSideAndIsShort) {
  const bool held = rc::check("up >= value >= down, within a digit", [] {
    const double value = std::pow(10.0, *rc::gen::inRange(-12000, 6000) / 1000.0);
    for (const int digits : {2, 4}) {
      const double up = RoundedUp(value, digits);
      const double down = RoundedDown(value, digits);
      const double step = std::pow(10.0, 1 - digits);
      RC_ASSERT(up >= value && up <= value * (1 + step * 1.01));
      RC_ASSERT(down <= value && down >= value * (1 - step * 1.01));
    }
  });
  EXPECT_TRUE(held);
  EXPECT_EQ(RoundedUp(0.0101, 2), 0.011);
  EXPECT_EQ(RoundedUp(0.01, 2), 0.01);
  EXPECT_EQ(RoundedDown(0.0299999, 4), 0.02999);
  EXPECT_EQ(RoundedUp(0, 2), 0);
}

TEST(StudentUpper, MatchesTables) {
  EXPECT_NEAR(StudentUpper(1, 0.05), 6.313752, 1e-5);
  EXPECT_NEAR(StudentUpper(10, 0.05), 1.812461, 1e-5);
  EXPECT_NEAR(StudentUpper(30, 0.025), 2.042272, 1e-5);
  EXPECT_NEAR(StudentUpper(1e6, 0.05), 1.644854, 1e-4);
}

TEST(PredictedCount, IsTheExactPredictionLimitOfEqualSamples) {
  EXPECT_EQ(PredictedCount(0, 0.05), 4);  // 2^-4 > .05 > 2^-5
  EXPECT_EQ(PredictedCount(1, 0.05), 6);
  EXPECT_EQ(PredictedCount(100, 0.05), 125);
  EXPECT_GT(PredictedCount(1, 0.001), PredictedCount(1, 0.05));
}

TEST(ProposeContract, FromATolerationGuaranteesIt) {
  AuthorInput input;
  input.reward_drift = 0.03;
  input.gradient_bias = 0.5;
  input.assumptions.reward_max = 1;
  input.assumptions.advantage_max = 4;
  input.assumptions.score_norm_max = 8;
  const auto authored = ProposeContract(input);
  ASSERT_TRUE(authored.has_value()) << authored.error().message();
  ASSERT_EQ(authored->contract.clauses.size(), 2u);
  for (const Clause& clause : authored->contract.clauses) {
    EXPECT_EQ(MetricName(clause.metric), "mean_tv");
    EXPECT_EQ(Name(clause.level), "L3");
    EXPECT_NE(clause.why.find("bound: guarantees"), std::string::npos);
  }
  const double reward = authored->contract.clauses[0].threshold;
  const double bias = authored->contract.clauses[1].threshold;
  EXPECT_LE(RewardDriftOfTv(reward, 1, RewardRange::kMinusRToR), 0.03);
  EXPECT_GT(reward, 0.0149);
  EXPECT_LE(GradientBiasOfTv(bias, 4, 8), 0.5);
  EXPECT_GT(bias, 0.5 / 64 * 0.999);
  EXPECT_EQ(*authored->contract.assumptions.reward_max, 1);
}

TEST(ProposeContract, SaysWhatIsMissing) {
  AuthorInput input;
  auto none = ProposeContract(input);
  ASSERT_FALSE(none.has_value());
  EXPECT_NE(none.error().message().find("--evidence"), std::string::npos);
  input.reward_drift = 0.03;
  none = ProposeContract(input);
  ASSERT_FALSE(none.has_value());
  EXPECT_NE(none.error().message().find("rewardMax"), std::string::npos);
  // A budget that any two kernels keep needs no clause.
  input.assumptions.reward_max = 0.01;
  none = ProposeContract(input);
  ASSERT_FALSE(none.has_value());
  EXPECT_NE(none.error().message().find("whatever the kernels do"), std::string::npos);
}

TEST(ProposeContract, RefusesANameThatIsNone) {
  AuthorInput input;
  input.reward_drift = 0.03;
  input.assumptions.reward_max = 1;
  input.version = "not a version";
  EXPECT_FALSE(ProposeContract(input).has_value());
}

TEST(KernelWords, DescribeAKernel) {
  const auto kernel = ParseKernelWords(
      "weights=fp8-e4m3 granularity=channel,kv=int8 store=bf16 accumulate=f32 schedule=tiled:16 "
      "logits=bf16 tile=64");
  ASSERT_TRUE(kernel.has_value()) << kernel.error().message();
  EXPECT_EQ(kernel->weights.quantizer, Quantizer::kScaledFloat);
  EXPECT_EQ(kernel->weights.granularity, Granularity::kPerChannel);
  EXPECT_EQ(kernel->kv_cache.quantizer, Quantizer::kInt);
  EXPECT_EQ(kernel->u_store, 0x1p-8);
  EXPECT_EQ(kernel->u_accumulate, 0x1p-24);
  EXPECT_EQ(kernel->u_attention, 0x1p-24);
  EXPECT_EQ(kernel->schedule, Schedule::kTiled);
  EXPECT_EQ(kernel->block, 16);
  EXPECT_EQ(kernel->attention_tile, 64);
  EXPECT_FALSE(kernel->products_round);
  EXPECT_TRUE(ParseKernelWords("").has_value());
}

TEST(KernelWords, NameTheWordThatIsWrong) {
  struct Case {
    const char* text;
    const char* words;
  };
  const Case cases[] = {
      {"weights", "key=value"},
      {"wieghts=int8", "did you mean 'weights'?"},
      {"weights=fp8-e4m2", "did you mean 'fp8-e4m3'?"},
      {"store=half", "number format 'half'"},
      {"schedule=tiled", "unknown schedule"},
      {"schedule=tiled:0", "no count"},
      {"tile=x", "no count"},
      {"lm-head=yes", "unknown lm-head"},
      {"granularity=row", "unknown granularity"},
  };
  for (const Case& c : cases) {
    const auto kernel = ParseKernelWords(c.text);
    ASSERT_FALSE(kernel.has_value()) << c.text;
    EXPECT_NE(kernel.error().message().find(c.words), std::string::npos)
        << c.text << ": " << kernel.error().message();
  }
}

}  // namespace
}  // namespace kcc
