#include "kcc/train/backward.h"

#include <gtest/gtest.h>

#include "kcc/lab/logprob.h"
#include "kcc/lab/taped_forward.h"
#include "kcc/train/log_probs.h"
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

// A batch of sequences with a weight for the log-prob of each token.
struct Batch {
  std::vector<KernelRequest> requests;
  std::vector<TapedSequence> sequences;
  std::vector<int32_t> tokens;  // after each row that has logits
  std::vector<float> weights;

  explicit Batch(size_t count = 5, size_t tokens_max = 40)
      : requests(RandomRequests(count, tokens_max, 5)) {
    for (const KernelRequest& request : requests) {
      const std::span<const int32_t> all(request.tokens);
      const auto prompt = static_cast<size_t>(request.prompt_tokens);
      sequences.push_back({request.request.id, all.first(all.size() - 1), prompt - 1});
      tokens.insert(tokens.end(), all.begin() + request.prompt_tokens, all.end());
    }
    weights = RandomFloats(tokens.size(), 8);
  }
};

struct Computed {
  double loss = 0;
  std::vector<float> log_probs;
  ModelWeights gradients;
};

Computed Compute(const Checkpoint& checkpoint, const LabSwitches& switches, const Batch& batch,
                 bool backward = true, Target target = BestTarget()) {
  Result<LabModel> model = LabModel::Make(checkpoint, switches);
  EXPECT_TRUE(model.has_value()) << model.error().Format();
  ForkJoin pool(switches.threads);
  TapedForward forward(*model, switches, pool, target);
  Tape tape;
  const Result<> done = forward.Run(batch.sequences, &tape);
  EXPECT_TRUE(done.has_value()) << done.error().Format();
  // Rows of a kernel variant come after all others.
  std::vector<size_t> begin;
  size_t next = 0;
  for (const TapedSequence& sequence : batch.sequences) {
    begin.push_back(next);
    next += sequence.tokens.size() - sequence.logits_from;
  }
  std::vector<int32_t> tokens;
  std::vector<float> weights;
  for (const size_t r : tape.head_rows) {
    const TapeRow& row = tape.rows[r];
    const size_t at = begin[row.request] + row.position - batch.sequences[row.request].logits_from;
    tokens.push_back(batch.tokens[at]);
    weights.push_back(batch.weights[at]);
  }
  LogProbs log_probs(checkpoint.config.vocab, pool, target);
  Computed made;
  made.log_probs = log_probs.Of(tape, tokens);
  for (size_t i = 0; i < tokens.size(); ++i)
    made.loss += static_cast<double>(weights[i]) * made.log_probs[i];
  if (!backward) return made;
  made.gradients = ZeroWeights(checkpoint.config);
  Backward pass(checkpoint.config, pool, target);
  pass.SetModel(*model);
  std::vector<float> logit_gradients;
  log_probs.Gradient(tape, tokens, weights, pass.logit_stride(), &logit_gradients);
  pass.Run(*model, tape, logit_gradients, &made.gradients);
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
    for (const char* kernel : {"f32", "fp8", "bf16", "int4"}) {
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
  for (const char* kernel : {"train", "f32", "bf16-invariant", "fp8", "int4"}) {
    const NamedValues invariant = {{"batch", "invariant"}};
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
                                                        {"int4", "group:32"}}) {
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
                                  rounded.scale, rounded.group);
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
  Batch first = batch, second = batch;
  const size_t split = batch.sequences[0].tokens.size() - batch.sequences[0].logits_from;
  std::fill(first.weights.begin() + static_cast<ptrdiff_t>(split), first.weights.end(), 0.0f);
  std::fill_n(second.weights.begin(), split, 0.0f);
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

}  // namespace
}  // namespace kcc
