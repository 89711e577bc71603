#include "kcc/train/adamw.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kcc/train/train_test_data.h"

namespace kcc {
namespace {

using testing::QwenConfig;
using testing::RandomCheckpoint;
using testing::RandomFloats;
using testing::RelativeGap;
using testing::TiedConfig;

ModelWeights RandomGradients(const ModelConfig& config, unsigned seed) {
  ModelWeights made = ZeroWeights(config);
  for (const ModelTensor& tensor : TensorsOf(config, &made))
    *tensor.values = RandomFloats(tensor.elements(), ++seed);
  return made;
}

// The definition in double, beside forty steps with a warmup and limited gradients.
TEST(AdamW, IsItsDefinition) {
  const ModelConfig config = QwenConfig();
  const AdamWOptions options{0.9, 0.98, 1e-8, 0.05};
  ModelWeights weights = RandomCheckpoint(config);
  AdamWMoments moments{ZeroWeights(config), ZeroWeights(config)};
  const auto tensors = TensorsOf(config, &weights);
  std::vector<std::vector<double>> p, m, v;
  for (const ModelTensor& tensor : tensors) {
    p.emplace_back(tensor.values->begin(), tensor.values->end());
    m.emplace_back(tensor.elements());
    v.emplace_back(tensor.elements());
  }
  ForkJoin pool(2);
  for (int64_t step = 1; step <= 40; ++step) {
    const double rate = 1e-2 * std::min(1.0, static_cast<double>(step) / 10);
    ModelWeights gradients = RandomGradients(config, static_cast<unsigned>(step) * 100);
    const double length = GradientLength(config, &gradients, pool);
    const double scale = ClipScale(length, 2.0);
    double squares = 0;
    const auto of_gradients = TensorsOf(config, &gradients);
    for (size_t t = 0; t < tensors.size(); ++t) {
      for (size_t i = 0; i < p[t].size(); ++i) {
        const double g = (*of_gradients[t].values)[i] * scale;
        squares += g * g;
        if (tensors[t].shape.size() == 2) p[t][i] *= 1 - rate * options.decay;
        m[t][i] = 0.9 * m[t][i] + 0.1 * g;
        v[t][i] = 0.98 * v[t][i] + 0.02 * g * g;
        const double first = m[t][i] / (1 - std::pow(0.9, static_cast<double>(step)));
        const double second = v[t][i] / (1 - std::pow(0.98, static_cast<double>(step)));
        p[t][i] -= rate * first / (std::sqrt(second) + 1e-8);
      }
    }
    EXPECT_NEAR(std::sqrt(squares), 2.0, 1e-9);
    AdamWStep(config, options, step, rate, scale, &gradients, pool, &weights, &moments);
  }
  for (size_t t = 0; t < tensors.size(); ++t)
    EXPECT_LT(RelativeGap(*tensors[t].values, p[t]), 3e-6) << tensors[t].name;
}

TEST(AdamW, ThreadsDoNotChangeABit) {
  const ModelConfig config = TiedConfig();
  std::vector<ModelWeights> made;
  std::vector<double> lengths;
  for (const size_t threads : {size_t{1}, size_t{2}, size_t{3}}) {
    ForkJoin pool(threads);
    ModelWeights weights = RandomCheckpoint(config);
    AdamWMoments moments{ZeroWeights(config), ZeroWeights(config)};
    ModelWeights gradients = RandomGradients(config, 9);
    lengths.push_back(GradientLength(config, &gradients, pool));
    AdamWStep(config, {}, 1, 1e-3, 0.5, &gradients, pool, &weights, &moments);
    EXPECT_EQ(weights.lm_head, weights.embedding) << "a tied model's matrices part";
    made.push_back(std::move(weights));
  }
  for (size_t i = 1; i < made.size(); ++i) {
    EXPECT_EQ(lengths[i], lengths[0]);
    EXPECT_EQ(made[i].embedding, made[0].embedding);
    EXPECT_EQ(made[i].layers[1].down, made[0].layers[1].down);
  }
}

TEST(Schedule, RisesThenFallsToItsFloor) {
  const RateSchedule cosine{ScheduleKind::kCosine, 2.0, 0.1, 10, 101};
  EXPECT_DOUBLE_EQ(RateAt({ScheduleKind::kConstant, 2.0, 0.1, 0, 100}, 77), 2.0);
  EXPECT_DOUBLE_EQ(RateAt({ScheduleKind::kConstant, 2.0, 0.1, 4, 100}, 1), 0.5);
  EXPECT_DOUBLE_EQ(RateAt({ScheduleKind::kLinear, 2.0, 0.0, 0, 101}, 51), 1.0);
  EXPECT_NEAR(RateAt(cosine, 1), 0.2, 1e-12);
  EXPECT_NEAR(RateAt(cosine, 51), 2.0 * (0.1 + 0.9 / 2), 1e-12);
  EXPECT_NEAR(RateAt(cosine, 101), 0.2, 1e-12);
  EXPECT_NEAR(RateAt(cosine, 500), 0.2, 1e-12) << "beyond the last step";
  EXPECT_DOUBLE_EQ(RateAt({ScheduleKind::kCosine, 2.0, 0.1, 0, 1}, 1), 2.0) << "a run of one step";
  for (const ScheduleKind kind :
       {ScheduleKind::kConstant, ScheduleKind::kLinear, ScheduleKind::kCosine}) {
    EXPECT_EQ(*ParseScheduleKind(Name(kind)), kind);
  }
  EXPECT_NE(ParseScheduleKind("cosin").error().message().find("constant, linear or cosine"),
            std::string::npos);
}

}  // namespace
}  // namespace kcc
