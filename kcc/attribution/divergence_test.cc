#include "kcc/attribution/divergence.h"

#include <gtest/gtest.h>

#include "kcc/lab/lab_test_data.h"

namespace kcc {
namespace {

using testing::MustMake;
using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::SmallConfig;
using testing::Switches;

FirstDivergence Between(NamedValues options, const std::vector<KernelRequest>& requests) {
  static const Checkpoint model = RandomCheckpoint(SmallConfig());
  options.emplace_back("audit", "all");
  const auto train = MustMake(model, Switches("f32", {{"audit", "all"}}));
  const auto infer = MustMake(model, Switches("f32", options));
  auto found = FindFirstDivergence(*train, *infer, requests);
  EXPECT_TRUE(found.has_value()) << found.error().Format();
  return *found;
}

TEST(FirstDivergence, NamesTheOperatorThatWasSwitched) {
  struct Case {
    const char* name;
    const char* value;
    const char* point;
  };
  const std::vector<Case> cases = {
      {"rmsnorm", "fused", "layer 0, attention norm"},
      {"rope", "bf16", "layer 0, query"},
      {"attention", "split:3", "layer 0, attention"},
      {"kv", "e4m3", "layer 0, attention"},
      {"swiglu", "fused", "layer 0, gated"},
      {"exp", "fast", "layer 0, gated"},
      {"logits", "bf16", "logits"},
  };
  const std::vector<KernelRequest> requests = RandomRequests(3, 40, 9);
  for (const Case& c : cases) {
    const FirstDivergence found = Between({{c.name, c.value}}, requests);
    EXPECT_EQ(found.point_name, c.point) << c.name;
    EXPECT_EQ(found.diverging, 3) << c.name;
    EXPECT_GT(found.elements, 0u) << c.name;
    EXPECT_NE(found.train, found.infer) << c.name;
    EXPECT_GT(found.relative, 0) << c.name;
  }
}

TEST(FirstDivergence, EqualKernelsDoNotPart) {
  const FirstDivergence found =
      Between({{"chunk", "7"}, {"page", "3"}, {"threads", "1"}}, RandomRequests(3, 40, 9));
  EXPECT_EQ(found.diverging, 0);
  EXPECT_EQ(found.position, -1);
}

}  // namespace
}  // namespace kcc
