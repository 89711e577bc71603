#include "kcc/train/gradient_pass.h"

#include <gtest/gtest.h>

#include "kcc/lab/logprob.h"
#include "kcc/train/train_test_data.h"

namespace kcc {
namespace {

using testing::LlamaConfig;
using testing::QwenConfig;
using testing::RandomCheckpoint;
using testing::RandomFloats;
using testing::RandomRequests;
using testing::RelativeGap;
using testing::Switches;
using testing::TiedConfig;

// A batch of sequences with a slope for the log-prob of each token that is not of the prompt.
struct Batch {
  std::vector<KernelRequest> requests;
  std::vector<PackedSequence> sequences;
  std::vector<float> slopes;

  explicit Batch(size_t count = 5, size_t tokens_max = 40)
      : requests(RandomRequests(count, tokens_max, 5)) {
    size_t wanted = 0;
    for (const KernelRequest& request : requests) {
      const auto first = static_cast<size_t>(request.prompt_tokens);
      sequences.push_back({request.request.id, request.tokens, first});
      wanted += request.tokens.size() - first;
    }
    slopes = RandomFloats(wanted, 8);
  }
};

struct Computed {
  double loss = 0;
  std::vector<float> log_probs;
  ModelWeights gradients;
};

Computed Compute(const Checkpoint& checkpoint, const LabSwitches& switches, const Batch& batch,
                 bool backward = true, Target target = BestTarget()) {
  ForkJoin pool(switches.threads);
  auto pass = GradientPass::Make(checkpoint, switches, pool, target);
  EXPECT_TRUE(pass.has_value()) << pass.error().Format();
  const Result<> done = (*pass)->Forward(batch.sequences);
  EXPECT_TRUE(done.has_value()) << done.error().Format();
  Computed made;
  made.log_probs.assign((*pass)->log_probs().begin(), (*pass)->log_probs().end());
  for (size_t i = 0; i < made.log_probs.size(); ++i) {
    made.loss += static_cast<double>(batch.slopes[i]) * made.log_probs[i];
  }
  made.gradients = ZeroWeights(checkpoint.config);
  if (backward) (*pass)->Backward(batch.slopes, &made.gradients);
  return made;
}

void ExpectEqual(const ModelConfig& config, Computed a, Computed b, const std::string& what) {
  const auto left = TensorsOf(config, &a.gradients);
  const auto right = TensorsOf(config, &b.gradients);
  for (size_t i = 0; i < left.size(); ++i)
    EXPECT_EQ(*left[i].values, *right[i].values) << what << left[i].name;
  EXPECT_EQ(a.log_probs, b.log_probs) << what;
}

// Along its own gradient a tensor changes the loss by the gradient's length.
TEST(Backward, EveryTensorHasTheGradientOfFiniteDifferences) {
  const Batch batch;
  for (const ModelConfig& config : {LlamaConfig(), QwenConfig(), TiedConfig()}) {
    const Checkpoint checkpoint = RandomCheckpoint(config);
    const LabSwitches train = Switches("train");
    Computed made = Compute(checkpoint, train, batch);
    for (const ModelTensor& tensor : TensorsOf(config, &made.gradients)) {
      double squares = 0;
      for (const float value : *tensor.values) squares += static_cast<double>(value) * value;
      const double length = std::sqrt(squares);
      ASSERT_GT(length, 1e-3) << tensor.name;
      const double step = 0.02 / length;
      const auto moved = [&](double steps) {
        Checkpoint other = checkpoint;
        for (const ModelTensor& to : TensorsOf(config, &other)) {
          if (to.name != tensor.name) continue;
          for (size_t i = 0; i < to.values->size(); ++i) {
            (*to.values)[i] += static_cast<float>(steps * step * (*tensor.values)[i] / length);
          }
        }
        if (config.tied) other.lm_head = other.embedding;
        return Compute(other, train, batch, false).loss;
      };
      const double slope = (8 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12 * step);
      EXPECT_NEAR(slope / length, 1.0, 2e-3) << tensor.name;
    }
  }
}

TEST(Backward, ThreadsAndTargetsDoNotChangeABit) {
  const Batch batch;
  for (const ModelConfig& config : {LlamaConfig(), QwenConfig()}) {
    const Checkpoint checkpoint = RandomCheckpoint(config);
    for (const char* kernel : {"f32", "fp8", "bf16", "int4", "int3"}) {
      LabSwitches switches = Switches(kernel, {{"threads", "1"}});
      const Computed expected = Compute(checkpoint, switches, batch);
      for (const char* threads : {"1", "2", "3"}) {
        switches = Switches(kernel, {{"threads", threads}});
        for (const Target target : AvailableTargets()) {
          ExpectEqual(
              config, Compute(checkpoint, switches, batch, true, target), expected,
              std::string(kernel) + " " + threads + " " + std::string(TargetName(target)) + " ");
        }
      }
    }
  }
}

// The lab's log-probs of a rollout, token by token under a cramped cache.
TEST(Backward, LogProbsHaveTheBitsOfARollout) {
  const Batch batch;
  const Checkpoint checkpoint = RandomCheckpoint(QwenConfig());
  struct Case {
    const char* kernel;
    NamedValues options;
  };
  for (auto& [kernel, options] :
       std::vector<Case>{{"train", {}},
                         {"f32", {}},
                         {"bf16-invariant", {}},
                         {"fp8", {}},
                         {"fp8", {{"casts", "layers"}, {"cast_from", "bf16"}}},
                         {"fp8", {{"casts", "mlp"}}},
                         {"int4", {}},
                         {"int4", {{"scale", "channel"}}},
                         {"int3", {}},
                         {"int3", {{"scale", "channel"}}}}) {
    NamedValues invariant = options;
    invariant.emplace_back("batch", "invariant");
    LabSwitches decode = Switches(kernel, invariant);
    decode.path = TracePath::kDecode;
    decode.kv_tokens = 80;
    std::vector<float> rollout;
    const auto engine = testing::MustMake(checkpoint, decode);
    std::map<std::pair<size_t, size_t>, float> by_place;
    const auto scored = engine->engine().Score(
        batch.requests,
        [&](size_t request, size_t position, int32_t token, std::span<const float> logits) {
          by_place[{request, position}] = RowLogprobs(logits).Of(token);
          return Result<>();
        });
    ASSERT_TRUE(scored.has_value());
    for (const auto& [place, value] : by_place) rollout.push_back(value);
    EXPECT_EQ(Compute(checkpoint, Switches(kernel, invariant), batch, false).log_probs, rollout)
        << kernel;
  }
}

// Straight through: the gradient of a kernel with rounded weights is that of the float32 kernel
// that has the rounded weights, to the last bit.
TEST(Backward, RoundedWeightsHaveTheGradientOfTheWeightsTheyStandFor) {
  const Batch batch;
  const ModelConfig config = LlamaConfig();
  const Checkpoint checkpoint = RandomCheckpoint(config);
  for (const auto& [weights, scale] :
       std::vector<std::pair<const char*, const char*>>{{"bf16", "channel"},
                                                        {"fp16", "channel"},
                                                        {"e4m3", "tensor"},
                                                        {"int8", "channel"},
                                                        {"int4", "group:32"},
                                                        {"int4", "channel"},
                                                        {"int3", "group:32"},
                                                        {"int3", "channel"}}) {
    const LabSwitches rounded = Switches("f32", {{"weights", weights}, {"scale", scale}});
    Checkpoint stands_for = checkpoint;
    for (LayerWeights& layer : stands_for.layers) {
      for (auto [matrix, inputs] : {std::pair{&layer.query, config.hidden},
                                    {&layer.key, config.hidden},
                                    {&layer.value, config.hidden},
                                    {&layer.output, config.queries()},
                                    {&layer.gate, config.hidden},
                                    {&layer.up, config.hidden},
                                    {&layer.down, config.ffn}}) {
        const PackedMatrix packed(*matrix, matrix->size() / inputs, inputs, rounded.weights,
                                  rounded.scale, rounded.group, rounded.largest_code);
        packed.Unpack(matrix->data());
      }
    }
    ExpectEqual(config, Compute(checkpoint, rounded, batch),
                Compute(stands_for, Switches("f32"), batch), std::string(weights) + " ");
  }
}

// Straight through the rest: near the gradient of the float32 kernel, and the nearer the finer the
// format.
TEST(Backward, RoundedActivationsHaveNearlyTheGradientOfFloat32) {
  const Batch batch;
  const ModelConfig config = QwenConfig();
  const Checkpoint checkpoint = RandomCheckpoint(config);
  const Computed exact = Compute(checkpoint, Switches("f32"), batch);
  struct Case {
    NamedValues options;
    double least, most;
  };
  for (const Case& c :
       std::vector<Case>{{{{"activations", "fp16"}}, 1e-5, 1e-2},
                         {{{"activations", "bf16"}}, 1e-4, 8e-2},
                         {{{"kv", "bf16"}}, 1e-5, 5e-2},
                         {{{"kv", "e4m3"}}, 1e-3, 0.5},
                         {{{"activations", "e4m3"}}, 1e-3, 0.7},
                         {{{"activations", "e4m3"}, {"casts", "mlp"}}, 1e-3, 0.5},
                         {{{"activations", "e4m3"}, {"cast_from", "bf16"}}, 1e-3, 0.7},
                         {{{"attention", "tiles:7"}, {"rmsnorm", "fused"}}, 1e-9, 1e-4},
                         {{{"route", "shape:9"}}, 1e-9, 1e-4}}) {
    const Computed made = Compute(checkpoint, Switches("f32", c.options), batch);
    const double gap = RelativeGap(made.gradients.layers[0].gate, exact.gradients.layers[0].gate);
    EXPECT_LT(gap, c.most) << c.options[0].first << "=" << c.options[0].second;
    EXPECT_GT(gap, c.least) << c.options[0].first << "=" << c.options[0].second;
  }
}

// Gradients of parts of a batch add up to those of the whole.
TEST(Backward, GradientsAreAdded) {
  const Batch batch(2, 30);
  const ModelConfig config = QwenConfig();
  const Checkpoint checkpoint = RandomCheckpoint(config);
  Batch first(2, 30), second(2, 30);  // a copy would point into another
  const size_t split = batch.sequences[0].tokens.size() - batch.sequences[0].first;
  std::fill(first.slopes.begin() + static_cast<ptrdiff_t>(split), first.slopes.end(), 0.0f);
  std::fill_n(second.slopes.begin(), split, 0.0f);
  Computed whole = Compute(checkpoint, Switches("f32"), batch);
  Computed a = Compute(checkpoint, Switches("f32"), first);
  Computed b = Compute(checkpoint, Switches("f32"), second);
  const auto left = TensorsOf(config, &a.gradients);
  const auto right = TensorsOf(config, &b.gradients);
  for (const ModelTensor& tensor : TensorsOf(config, &whole.gradients)) {
    std::vector<double> sum;
    for (size_t t = 0; t < left.size(); ++t) {
      if (left[t].name != tensor.name) continue;
      for (size_t i = 0; i < left[t].values->size(); ++i) {
        sum.push_back(static_cast<double>((*left[t].values)[i]) + (*right[t].values)[i]);
      }
    }
    EXPECT_LT(RelativeGap(*tensor.values, sum), 1e-5) << tensor.name;
  }
}

// RoPE sees distances alone: jumps in the positions count, a shift of all of them does not, and
// what is computed is what a sequence with other tokens between would give were they not there.
TEST(GradientPass, PositionsAreRopesAlone) {
  Batch batch(4, 30);
  const ModelConfig config = QwenConfig();
  const Checkpoint checkpoint = RandomCheckpoint(config);
  const Computed plain = Compute(checkpoint, Switches("f32"), batch);
  std::vector<std::vector<int32_t>> positions(batch.sequences.size());
  const auto with = [&](auto position) {
    for (size_t i = 0; i < positions.size(); ++i) {
      positions[i].clear();
      for (size_t t = 0; t < batch.sequences[i].tokens.size(); ++t)
        positions[i].push_back(position(static_cast<int32_t>(t)));
      batch.sequences[i].rope_positions = positions[i];
    }
    return Compute(checkpoint, Switches("f32"), batch);
  };
  ExpectEqual(config, with([](int32_t t) { return t; }), plain, "the sequence's own ");
  const Computed shifted = with([](int32_t t) { return t + 100; });
  const Computed jumping = with([](int32_t t) { return t < 3 ? t : t + 200; });
  EXPECT_LT(RelativeGap(shifted.log_probs, plain.log_probs), 1e-4);
  EXPECT_GT(RelativeGap(jumping.log_probs, plain.log_probs), 1e-3);
  EXPECT_LT(RelativeGap(shifted.gradients.layers[0].query, plain.gradients.layers[0].query), 1e-3);
  EXPECT_GT(RelativeGap(jumping.gradients.layers[0].query, plain.gradients.layers[0].query), 1e-2);
  positions[2][1] = 512;
  ForkJoin pool(1);
  auto pass = GradientPass::Make(checkpoint, Switches("f32"), pool);
  const Result<> refused = (*pass)->Forward(batch.sequences);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("holds position 512, but the model has 512 positions"),
            std::string::npos);
}

// Other weights than it was made with, as after a step of training.
TEST(GradientPass, WeightsCanBeReplaced) {
  const Batch batch;
  const ModelConfig config = QwenConfig();
  for (const char* kernel : {"f32", "int4"}) {
    const Checkpoint first = RandomCheckpoint(config, 1);
    const Checkpoint second = RandomCheckpoint(config, 2);
    Computed expected = Compute(second, Switches(kernel), batch);
    ForkJoin pool(1);
    auto pass = GradientPass::Make(first, Switches(kernel), pool);
    ASSERT_TRUE(pass.has_value());
    ModelWeights gradients = ZeroWeights(config);
    ASSERT_TRUE((*pass)->Forward(batch.sequences).has_value());
    (*pass)->Backward(batch.slopes, &gradients);
    (*pass)->SetWeights(second);
    Computed made;
    made.gradients = ZeroWeights(config);
    ASSERT_TRUE((*pass)->Forward(batch.sequences).has_value());
    (*pass)->Backward(batch.slopes, &made.gradients);
    made.log_probs.assign((*pass)->log_probs().begin(), (*pass)->log_probs().end());
    ExpectEqual(config, std::move(made), std::move(expected), kernel);
  }
}

}  // namespace
}  // namespace kcc
