#include "kcc/train/verify_exact.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kcc/trace/trace_test_data.h"
#include "kcc/train/train_test_data.h"

namespace kcc {
namespace {

using testing::QwenConfig;
using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::ScratchDir;
using testing::SmallConfig;
using testing::Switches;

VerifyOptions Options(const ScratchDir& scratch) {
  VerifyOptions options;
  options.tokens = 2000;
  options.output_tokens = 40;
  options.control_tokens = 200;
  options.scratch = scratch / "";
  return options;
}

ExactResult MustVerify(const Checkpoint& checkpoint, const LabSwitches& kernel) {
  const ScratchDir scratch;
  auto made = VerifyExact(checkpoint, kernel, RandomRequests(40, 30, 3), Options(scratch));
  EXPECT_TRUE(made.has_value()) << made.error().Format();
  return std::move(*made);
}

TEST(VerifyExact, InvariantKernelsAreExactAndTheirControlsAreNot) {
  for (const ModelConfig& config : {SmallConfig(), QwenConfig()}) {
    const Checkpoint checkpoint = RandomCheckpoint(config);
    for (const char* kernel : {"f32", "bf16-invariant", "fp8", "int4", "int3"}) {
      const ExactResult result = MustVerify(checkpoint, Switches(kernel, {{"batch", "invariant"}}));
      EXPECT_EQ(result.verdict(), ExactVerdict::kExact) << kernel;
      EXPECT_GE(result.all.tokens, 2000u);
      EXPECT_GT(result.preemptions, 0u);
      ASSERT_EQ(result.controls.size(), 4u);
      for (const ExactControl& control : result.controls) {
        EXPECT_TRUE(control.holds())
            << kernel << " " << control.change << ": " << control.tally.unequal << " unequal, "
            << Name(control.named) << " has " << control.share;
        EXPECT_NE(control.first_point, "") << control.change;
        uint64_t counted = 0;
        for (const uint64_t count : control.tally.ulps) counted += count;
        EXPECT_EQ(counted, control.tally.unequal);
      }
      // Every value of an axis has its part of the tokens.
      uint64_t of_pages = 0;
      for (const AxisTally& axis : result.axes) {
        EXPECT_GT(axis.tally.tokens, 0u) << axis.axis << " " << axis.value;
        if (axis.axis == "page") of_pages += axis.tally.tokens;
      }
      EXPECT_EQ(of_pages, result.all.tokens);
    }
  }
}

TEST(VerifyExact, AKernelThatTheBatchChangesIsNotAndSaysWhere) {
  const ExactResult result = MustVerify(RandomCheckpoint(SmallConfig()), Switches("bf16"));
  EXPECT_EQ(result.verdict(), ExactVerdict::kUnequal);
  ASSERT_TRUE(result.first.has_value());
  EXPECT_NE(result.first->request, "");
  EXPECT_NE(result.first->round.find("company 3, page 5, chunk 7, cache ample"), std::string::npos)
      << result.first->round;
  EXPECT_GT(result.all.unequal, result.all.tokens / 4);
}

// Sums in double are so far from float32's roundings that splitting them changes no bit of such a
// model: zero unequal tokens then are no evidence about batches.
TEST(VerifyExact, AKernelWhoseControlsChangeNothingIsNotCertified) {
  const ExactResult result = MustVerify(RandomCheckpoint(SmallConfig()), Switches("train"));
  EXPECT_TRUE(result.all.exact());
  EXPECT_FALSE(result.controls[2].holds());
  EXPECT_EQ(result.verdict(), ExactVerdict::kBlind);
}

// Where nothing can be seen, equal bits say nothing.
TEST(VerifyExact, AVerdictNeedsControlsThatFailAndAxesThatWereVaried) {
  const ExactResult whole = MustVerify(RandomCheckpoint(SmallConfig()), Switches("f32"));
  ASSERT_EQ(whole.verdict(), ExactVerdict::kExact);
  ExactResult result = whole;
  result.controls[2].tally = {};
  result.controls[2].tally.Add(-1.0f, -1.0f, true);
  EXPECT_EQ(result.verdict(), ExactVerdict::kBlind) << "a control without a difference";
  result = whole;
  result.controls[1].named = ErrorSource::kOperator;
  EXPECT_EQ(result.verdict(), ExactVerdict::kBlind) << "a control whose source is named wrongly";
  result = whole;
  result.controls.pop_back();
  EXPECT_EQ(result.verdict(), ExactVerdict::kBlind) << "a source without a control";
  result = whole;
  result.preemptions = 0;
  EXPECT_EQ(result.verdict(), ExactVerdict::kUnexercised) << "no sequence was preempted";
  result = whole;
  result.axes[5].tally = {};
  EXPECT_EQ(result.verdict(), ExactVerdict::kUnexercised) << "a value that no token had";
  result = whole;
  result.all.Add(-1.0f, -1.0f, false);
  EXPECT_EQ(result.verdict(), ExactVerdict::kUnequal)
      << "logits that differ behind equal log-probs";
}

TEST(VerifyExact, RefusesWhatItCannotContinue) {
  const ScratchDir scratch;
  const Checkpoint checkpoint = RandomCheckpoint(SmallConfig());
  const LabSwitches kernel = Switches("f32");
  VerifyOptions options = Options(scratch);
  EXPECT_NE(VerifyExact(checkpoint, kernel, {}, options).error().message().find("no prompt"),
            std::string::npos);
  options.output_tokens = 600;
  const auto requests = RandomRequests(3, 30, 3);
  EXPECT_NE(
      VerifyExact(checkpoint, kernel, requests, options).error().message().find("512 positions"),
      std::string::npos);
}

}  // namespace
}  // namespace kcc
