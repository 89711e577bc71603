#include "kcc/attribution/source_envelope.h"

#include <gtest/gtest.h>

#include "kcc/lab/lab_test_data.h"

namespace kcc {
namespace {

using testing::LargestGap;
using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::RowsOf;
using testing::SmallConfig;
using testing::Switches;

TEST(SourceEnvelopes, NoMeasuredDriftExceedsTheWorstCase) {
  const Checkpoint model = RandomCheckpoint(SmallConfig());
  const std::vector<KernelRequest> requests = RandomRequests(5, 40, 2);
  const LabSwitches train = Switches("train");
  const auto exact = RowsOf(model, train, requests);
  const std::vector<NamedValues> kernels = {
      {},
      {{"attention", "tiles:8"}, {"exp", "fast"}, {"rope", "f32"}, {"rmsnorm", "fused"}},
      {{"weights", "int8"}},
      {{"weights", "e4m3"}, {"activations", "e4m3"}, {"kv", "e4m3"}},
      {{"weights", "int3"}},
      {{"weights", "e4m3"}, {"activations", "e4m3"}, {"casts", "mlp"}, {"cast_from", "bf16"}},
      {{"activations", "bf16"}, {"logits", "bf16"}},
      {{"accumulate", "m13"}},
      {{"batch", "dynamic"}, {"route", "replica:2"}},
  };
  const auto described = EnvelopeModel::Measure(model, requests, 0);
  ASSERT_TRUE(described.has_value()) << described.error().Format();
  for (const NamedValues& options : kernels) {
    const LabSwitches infer = Switches("f32", options);
    const auto envelopes = described->BySource(train, infer);
    const double all = LargestGap(exact, RowsOf(model, infer, requests));
    EXPECT_LE(all, envelopes[4].worst_linf);
    EXPECT_GT(envelopes[4].worst_linf, 0);
    for (size_t i = 0; i < 4; ++i) {
      const LabSwitches one = WithSource(train, infer, kErrorSources[i]);
      EXPECT_LE(LargestGap(exact, RowsOf(model, one, requests)), envelopes[i].worst_linf)
          << Name(kErrorSources[i]);
    }
  }
}

// An envelope that leaves out an operator of the model would be no envelope.
TEST(SourceEnvelopes, ThereIsNoneForAModelThatTheTheoryLeavesOut) {
  for (bool ModelConfig::*part :
       {&ModelConfig::qkv_bias, &ModelConfig::output_bias, &ModelConfig::qk_norm}) {
    ModelConfig config = SmallConfig();
    config.*part = true;
    const auto measured =
        EnvelopeModel::Measure(RandomCheckpoint(config), RandomRequests(1, 9, 1), 0);
    ASSERT_FALSE(measured.has_value());
    EXPECT_NE(measured.error().message().find("no envelope"), std::string::npos);
  }
}

}  // namespace
}  // namespace kcc
