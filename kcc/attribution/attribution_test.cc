#include "kcc/attribution/attribution.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kcc/attribution/corners.h"
#include "kcc/lab/lab_test_data.h"
#include "kcc/trace/trace_test_data.h"

namespace kcc {
namespace {

using testing::FilesOf;
using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::ScratchDir;
using testing::SmallConfig;
using testing::WriteFiles;

class AttributionTest : public ::testing::Test {
 protected:
  AttributionTest() { WriteFiles(FilesOf(RandomCheckpoint(SmallConfig())), scratch_ / "m"); }

  Attribution Run(const std::string& train, const std::string& infer) {
    const std::string model = "model=" + (scratch_ / "m");
    const auto with = [&](const std::string& uri) {
      return uri + (uri.find('?') == std::string::npos ? "?" : "&") + model;
    };
    auto set = CornersBetween(with(train), with(infer), {}, {});
    EXPECT_TRUE(set.has_value()) << set.error().Format();
    AttributionOptions options;
    options.active = set->active;
    options.resamples = 200;
    options.batch_requests = 5;
    auto made = Attribute(*set->train, set->open, RandomRequests(8, 40, 6), options);
    EXPECT_TRUE(made.has_value()) << made.error().Format();
    return std::move(*made);
  }

  ScratchDir scratch_;
};

TEST_F(AttributionTest, OnePerturbedSourceGetsItsShareAndSharesAddUpExactly) {
  struct Case {
    const char* options;
    size_t source;
  };
  const std::vector<Case> cases = {
      {"attention=tiles:8&exp=fast", 0},
      {"attention=split:3", 0},
      {"rmsnorm=fused", 0},
      {"swiglu=fused", 0},
      {"exp=fast", 0},
      {"rope=f32", 0},
      {"weights=e4m3&kv=e4m3", 1},
      {"weights=int8&lm_head=weights", 1},
      {"weights=int4&scale=group:32", 1},
      {"weights=int3&scale=group:32", 1},
      {"activations=int8", 1},
      {"activations=e4m3&casts=mlp&cast_from=bf16", 1},
      {"kv=bf16", 1},
      {"accumulate=m13", 1},
      {"accumulate=bf16&promote=32", 1},
      {"logits=bf16", 1},
      {"batch=dynamic", 2},
      {"route=replica:2", 3},
      {"route=shape:9", 3},
  };
  for (const Case& c : cases) {
    const Attribution made = Run("lab:f32", "lab:custom?" + std::string(c.options));
    ASSERT_FALSE(made.cells.empty());
    for (const AttributedCell& cell : made.cells) {
      const ShapleyShares& s = cell.shapley;
      EXPECT_EQ(((s.share[0] + s.share[1]) + s.share[2]) + s.share[3], s.total);
      EXPECT_EQ(s.total, s.corners[15] - s.corners[0]);
      EXPECT_GE(std::fabs(s.share[c.source]), 0.95 * std::fabs(s.total))
          << c.options << " " << cell.quantity;
      if (cell.quantity == "logit_span") {
        EXPECT_GT(s.total, 0) << c.options;
      }
    }
  }
}

TEST_F(AttributionTest, AllSourcesTogetherShareWhatWasMeasured) {
  const Attribution made = Run("lab:train", "lab:fp8?route=replica:2&chunk=16");
  for (const AttributedCell& cell : made.cells) {
    const ShapleyShares& s = cell.shapley;
    EXPECT_EQ(((s.share[0] + s.share[1]) + s.share[2]) + s.share[3], s.total) << cell.quantity;
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_LE(cell.interval[i].lo, s.share[i]);
      EXPECT_GE(cell.interval[i].hi, s.share[i]);
    }
    if (cell.quantity == "kl") {
      EXPECT_GT(s.share[1], 0.5 * s.total);  // FP8 outweighs the rest
    }
  }
  EXPECT_GT(made.linf_max, 0);
}

TEST_F(AttributionTest, NothingToAttributeIsSaid) {
  const std::string model = "?model=" + (scratch_ / "m");
  const auto same = CornersBetween("lab:f32" + model, "lab:f32" + model, {}, {});
  ASSERT_TRUE(same.has_value());
  EXPECT_EQ(same->active, 0u);
  EXPECT_FALSE(CornersBetween("lab:f32" + model, "trace:x", {}, {}).has_value());
  EXPECT_FALSE(CornersBetween("trace:y", "trace:x", {}, {}).has_value());
  KernelInfo a;
  KernelInfo b;
  EXPECT_FALSE(DifferingSources(a, b).has_value());
  a.options = {{"w", "1", "precision"}, {"t", "1", ""}};
  b.options = {{"w", "2", "precision"}, {"t", "1", ""}};
  EXPECT_EQ(*DifferingSources(a, b), 2u);
  b.options[1].value = "2";
  EXPECT_FALSE(DifferingSources(a, b).has_value());
}

}  // namespace
}  // namespace kcc
