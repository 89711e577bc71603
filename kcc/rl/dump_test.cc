#include "kcc/rl/dump.h"

#include <gtest/gtest.h>

#include "kcc/rl/diagnostics.h"

namespace kcc {
namespace {

TEST(RlDump, ReadsTheExampleUnderItsTrainersNames) {
  const auto dump = ReadRlDump({"examples/rl/step.safetensors"});
  ASSERT_TRUE(dump.has_value()) << dump.error().Format();
  const auto batch = dump->Batch();
  ASSERT_TRUE(batch.has_value()) << batch.error().Format();
  EXPECT_EQ(batch->rows, 48);
  EXPECT_EQ(batch->columns, 96);
  EXPECT_TRUE(batch->advantage_per_row);
  RlSummary summary;
  ASSERT_TRUE(summary.Add(*batch).has_value());
  EXPECT_EQ(summary.slices(), (std::vector<std::string>{"chat", "code", "grid"}));
}

TEST(RlDump, ReadsAPairOfTraces) {
  const auto dump = ReadRlDump({"examples/traces/train", "examples/traces/infer"});
  if (!dump.has_value()) {
    EXPECT_NE(dump.error().message().find("log-prob"), std::string::npos) << dump.error().Format();
    return;
  }
  EXPECT_TRUE(dump->Batch().has_value());
}

TEST(RlDump, NamesAreThoseOfTheFrameworks) {
  EXPECT_EQ(CanonicalArrayName("old_log_probs"), "train");
  EXPECT_EQ(CanonicalArrayName("rollout_log_probs"), "rollout");
  EXPECT_EQ(CanonicalArrayName("sampling_per_token_logps"), "rollout");
  EXPECT_EQ(CanonicalArrayName("completion_mask"), "mask");
  EXPECT_EQ(CanonicalArrayName("cu_seqlens"), "offsets");
  EXPECT_EQ(CanonicalArrayName("logits"), "");
}

TEST(RlDump, MistakesAreNamed) {
  EXPECT_FALSE(ReadRlDump({}).has_value());
  EXPECT_FALSE(ReadRlDump({"missing.npz"}).has_value());
  const auto wrong = ReadRlDump({"README.md"});
  ASSERT_FALSE(wrong.has_value());
  EXPECT_NE(wrong.error().message().find(".safetensors"), std::string::npos);
  const auto one = ReadRlDump({"examples/traces"});
  ASSERT_FALSE(one.has_value());
  EXPECT_NE(one.error().message().find("pairs"), std::string::npos);
}

TEST(RlDump, ShapesMustAgree) {
  RlDump dump;
  dump.arrays = {{"train", {2, 2}, {-1, -1, -1, -1}}, {"rollout", {2, 1}, {-1, -1}}};
  EXPECT_FALSE(dump.Batch().has_value());
  dump.arrays[1] = {"rollout", {2, 2}, {-1, -1, -1, -1}};
  EXPECT_TRUE(dump.Batch().has_value());
  dump.arrays.push_back({"advantages", {3}, {1, 2, 3}});
  EXPECT_FALSE(dump.Batch().has_value());
  dump.arrays.pop_back();
  dump.offsets = {0, 1, 3};
  EXPECT_FALSE(dump.Batch().has_value());
  dump.arrays.pop_back();
  EXPECT_FALSE(dump.Batch().has_value());
}

}  // namespace
}  // namespace kcc
