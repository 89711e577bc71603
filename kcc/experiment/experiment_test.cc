#include "kcc/experiment/experiment.h"

#include <gtest/gtest.h>

#include "kcc/lab/lab_test_data.h"
#include "kcc/metric/token_slots.h"

namespace kcc {
namespace {

using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::SmallConfig;
using testing::Switches;

TEST(Experiment, ARequestInContextKeepsItsOwnEndAndHasTheLengthAskedFor) {
  const std::vector<KernelRequest> pool = RandomRequests(7, 40, 2);
  for (const KernelRequest& request : pool) {
    for (const size_t length : {64u, 200u, 450u}) {
      const KernelRequest made = InContext(request, pool, length);
      ASSERT_EQ(made.prompt_tokens, static_cast<int32_t>(length));
      EXPECT_EQ(made.request.id, request.request.id + "@" + std::to_string(length));
      EXPECT_EQ(made.request.Number("prompt_tokens"), static_cast<double>(length));
      const size_t added = length - static_cast<size_t>(request.prompt_tokens);
      ASSERT_EQ(made.tokens.size(), request.tokens.size() + added);
      EXPECT_TRUE(std::equal(request.tokens.begin(), request.tokens.end(),
                             made.tokens.begin() + static_cast<std::ptrdiff_t>(added)));
      EXPECT_EQ(made.tokens.front(), request.tokens.front());
    }
    EXPECT_EQ(InContext(request, pool, 1).request.id, request.request.id);
  }
}

TEST(Experiment, DriftOfAKernelFromItselfIsZeroAndFromAnotherIsNot) {
  const Checkpoint checkpoint = RandomCheckpoint(SmallConfig());
  const std::vector<KernelRequest> requests = RandomRequests(3, 40, 4);
  const auto scored = [&](const LabSwitches& switches) {
    const auto model = LabModel::Make(checkpoint, switches);
    EXPECT_TRUE(model.has_value());
    auto made = ScoreInMemory(*model, switches, requests);
    EXPECT_TRUE(made.has_value()) << made.error().Format();
    return std::move(*made);
  };
  const std::vector<size_t> slots = {TokenSlot("kl"), TokenSlot("top1_overlap")};
  const ScoredLogits exact = scored(Switches("train"));
  const ScoredLogits rough = scored(Switches("fp8"));
  const size_t vocab = checkpoint.config.vocab;
  const auto same = MeasureDrift(exact, exact, requests, vocab, slots);
  const auto other = MeasureDrift(exact, rough, requests, vocab, slots);
  ASSERT_TRUE(same.has_value() && other.has_value());
  for (size_t r = 0; r < requests.size(); ++r) {
    ASSERT_EQ(same->tokens(r),
              requests[r].tokens.size() - static_cast<size_t>(requests[r].prompt_tokens));
    for (size_t t = 0; t < same->tokens(r); ++t) {
      EXPECT_EQ(same->at(r, t, 0), 0);
      EXPECT_EQ(same->at(r, t, 1), 1);
      EXPECT_GT(other->at(r, t, 0), 0);
    }
  }
}

TEST(Experiment, QuantilesAreOfTypeOne) {
  const std::vector<double> values = {1, 2, 3, 4};
  EXPECT_EQ(SortedQuantile(values, 0.5), 2);
  EXPECT_EQ(SortedQuantile(values, 0.51), 3);
  EXPECT_EQ(SortedQuantile(values, 0), 1);
  EXPECT_EQ(SortedQuantile(values, 1), 4);
  EXPECT_EQ(SortedQuantile({}, 0.5), 0);
}

}  // namespace
}  // namespace kcc
