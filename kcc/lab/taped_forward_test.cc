#include "kcc/lab/taped_forward.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kcc/lab/lab_test_data.h"

namespace kcc {
namespace {

using testing::RandomCheckpoint;
using testing::RandomRequests;
using testing::RowsOf;
using testing::SmallConfig;
using testing::Switches;

ModelConfig QwenConfig() {
  ModelConfig config = SmallConfig();
  config.qkv_bias = true;
  config.qk_norm = true;
  return config;
}

std::vector<TapedSequence> SequencesOf(const std::vector<KernelRequest>& requests) {
  std::vector<TapedSequence> sequences;
  for (const KernelRequest& request : requests) {
    const std::span<const int32_t> tokens(request.tokens);
    sequences.push_back({request.request.id, tokens.first(tokens.size() - 1),
                         static_cast<size_t>(request.prompt_tokens) - 1});
  }
  return sequences;
}

Tape TapeOf(const LabModel& model, const LabSwitches& switches,
            const std::vector<TapedSequence>& sequences, Target target = BestTarget()) {
  ForkJoin pool(switches.threads);
  TapedForward forward(model, switches, pool, target);
  Tape tape;
  const Result<> done = forward.Run(sequences, &tape);
  EXPECT_TRUE(done.has_value()) << done.error().Format();
  return tape;
}

LabModel MustMakeModel(const Checkpoint& checkpoint, const LabSwitches& switches) {
  Result<LabModel> model = LabModel::Make(checkpoint, switches);
  EXPECT_TRUE(model.has_value()) << model.error().Format();
  return std::move(*model);
}

TEST(TapedForward, LogitsHaveTheBitsOfARolloutWithEveryInvariantKernel) {
  const std::vector<KernelRequest> requests = RandomRequests(7, 60, 5);
  const std::vector<TapedSequence> sequences = SequencesOf(requests);
  for (const ModelConfig& config : {SmallConfig(), QwenConfig()}) {
    const Checkpoint checkpoint = RandomCheckpoint(config);
    for (const char* kernel :
         {"train", "f32", "bf16-invariant", "fp8", "int4", "int3", "int8", "hopper-fp8"}) {
      for (const char* route : {"fixed", "shape:9", "replica:2"}) {
        const LabSwitches switches = Switches(kernel, {{"batch", "invariant"}, {"route", route}});
        auto decode =
            Switches(kernel, {{"batch", "invariant"}, {"route", route}, {"path", "decode"}});
        decode.kv_tokens = 80;
        const testing::LogitRows rows = RowsOf(checkpoint, decode, requests);
        const Tape tape = TapeOf(MustMakeModel(checkpoint, switches), switches, sequences);
        ASSERT_EQ(tape.head_rows.size(), rows.size());
        for (size_t i = 0; i < tape.head_rows.size(); ++i) {
          const TapeRow& row = tape.rows[tape.head_rows[i]];
          const std::vector<float>& expected =
              rows.at({requests[row.request].request.id, row.position + 1});
          ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                                 tape.logits.begin() + static_cast<ptrdiff_t>(i * config.vocab)))
              << kernel << " " << route;
        }
      }
    }
  }
}

TEST(TapedForward, TheTapeHoldsWhatTheProbeSees) {
  const std::vector<KernelRequest> requests = RandomRequests(3, 30, 6);
  const Checkpoint checkpoint = RandomCheckpoint(QwenConfig());
  for (const char* kernel : {"f32", "bf16-invariant"}) {
    const LabSwitches switches = Switches(kernel);
    const LabModel model = MustMakeModel(checkpoint, switches);
    const Tape tape = TapeOf(model, switches, SequencesOf(requests));
    const size_t layers = checkpoint.config.layers;
    size_t seen = 0;
    Engine engine(model, switches, TheSystemClock());
    engine.forward().set_probe(
        [&](size_t request, size_t position, size_t point, std::span<const float> row) {
          const auto expect = [&](const std::vector<float>& matrix) {
            for (size_t r = 0; r < tape.rows.size(); ++r) {
              if (tape.rows[r].request != request || tape.rows[r].position != position) continue;
              ++seen;
              EXPECT_TRUE(std::equal(row.begin(), row.end(),
                                     matrix.begin() + static_cast<ptrdiff_t>(r * row.size())))
                  << AuditPointName(point, layers);
            }
          };
          if (point == kEmbeddingPoint) expect(tape.layers[0].input);
          if (point == kEmbeddingPoint || point >= FinalNormPoint(layers)) return;
          const LayerTape& layer = tape.layers[(point - 1) / kLayerPoints];
          const auto at = static_cast<AuditPoint>((point - 1) % kLayerPoints);
          if (at == AuditPoint::kAttentionNorm) expect(layer.attention_input);
          if (at == AuditPoint::kQuery) expect(layer.query);
          if (at == AuditPoint::kKey && switches.kv == DType::kF32) expect(layer.key);
          if (at == AuditPoint::kValue && switches.kv == DType::kF32) expect(layer.value);
          if (at == AuditPoint::kAttention) expect(layer.attended);
          if (at == AuditPoint::kAttentionResidual) expect(layer.middle);
          if (at == AuditPoint::kMlpNorm) expect(layer.mlp_input);
          if (at == AuditPoint::kGated) expect(layer.gated);
          if (at == AuditPoint::kResidual && point + 1 == FinalNormPoint(layers))
            expect(tape.output);
        });
    const auto scored = engine.Score(
        requests, [](size_t, size_t, int32_t, std::span<const float>) { return Result<>(); });
    ASSERT_TRUE(scored.has_value());
    EXPECT_GT(seen, tape.rows.size() * layers * 6);
  }
}

// Whether all of a row are whole multiples of its largest divided by 127, and so INT8's.
bool IsCast(std::span<const float> row) {
  float largest = 0;
  for (const float value : row) largest = std::max(largest, std::fabs(value));
  return std::all_of(row.begin(), row.end(), [&](float value) {
    const float code = value / largest * 127;
    return std::fabs(code - std::nearbyint(code)) < 1e-3f;
  });
}

bool IsBF16(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(),
                     [](float value) { return BF16ToFloat(FloatToBF16(value)) == value; });
}

// Where an input is not cast, it is what was stored between the operators.
TEST(TapedForward, CastsHappenAtTheProductsThatWereNamed) {
  const ModelConfig config = SmallConfig();
  const Checkpoint checkpoint = RandomCheckpoint(config);
  const std::vector<KernelRequest> requests = RandomRequests(3, 30, 6);
  struct Case {
    const char* casts;
    bool attention, mlp, head;
  };
  for (const Case& c : std::vector<Case>{{"all", true, true, true},
                                         {"layers", true, true, false},
                                         {"attention", true, false, false},
                                         {"mlp", false, true, false}}) {
    for (const bool stored : {false, true}) {
      const LabSwitches switches = Switches(
          "f32",
          {{"activations", "int8"}, {"casts", c.casts}, {"cast_from", stored ? "bf16" : "f32"}});
      const Tape tape =
          TapeOf(MustMakeModel(checkpoint, switches), switches, SequencesOf(requests));
      const auto expect = [&](const std::vector<float>& rows, size_t width, bool cast) {
        for (size_t at = 0; at < rows.size(); at += width) {
          const std::span<const float> row(&rows[at], width);
          EXPECT_EQ(IsCast(row), cast) << c.casts;
          if (!cast) {
            EXPECT_EQ(IsBF16(row), stored) << c.casts;
          }
        }
      };
      for (const LayerTape& layer : tape.layers) {
        expect(layer.attention_input, config.hidden, c.attention);
        expect(layer.attended, config.queries(), c.attention);
        expect(layer.mlp_input, config.hidden, c.mlp);
        expect(layer.gated, config.ffn, c.mlp);
        EXPECT_EQ(IsBF16(layer.middle), stored);
        EXPECT_EQ(IsBF16(layer.up), stored);
      }
      expect(tape.head_input, config.hidden, c.head);
    }
  }
}

// Keys and values are rounded for the tape apart from the cache: the two must not differ by a bit.
TEST(TapedForward, KeysAndValuesAreThoseThatTheCacheGivesBack) {
  const ModelConfig config = SmallConfig();
  const std::vector<KernelRequest> requests = RandomRequests(1, 40, 9);
  for (const DType format : {DType::kF32, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    LabSwitches switches = Switches("f32");
    switches.kv = format;
    const LabModel model = MustMakeModel(RandomCheckpoint(config), switches);
    const Tape tape = TapeOf(model, switches, SequencesOf(requests));
    const size_t rows = tape.rows.size();
    ASSERT_GT(rows, 4u);
    // What the engine hands to its cache, handed to another one.
    std::vector<std::vector<float>> keys(config.layers, std::vector<float>(rows * config.keys()));
    std::vector<std::vector<float>> values = keys;
    Engine engine(model, switches, TheSystemClock());
    engine.forward().set_probe([&](size_t, size_t position, size_t point,
                                   std::span<const float> row) {
      if (point == kEmbeddingPoint || point >= FinalNormPoint(config.layers)) return;
      const auto at = static_cast<AuditPoint>((point - 1) % kLayerPoints);
      if (at != AuditPoint::kKey && at != AuditPoint::kValue) return;
      auto& to = (at == AuditPoint::kKey ? keys : values)[(point - 1) / kLayerPoints];
      std::copy(row.begin(), row.end(), to.begin() + static_cast<ptrdiff_t>(position * row.size()));
    });
    ASSERT_TRUE(engine
                    .Score(requests, [](size_t, size_t, int32_t,
                                        std::span<const float>) { return Result<>(); })
                    .has_value());
    KvCache cache(config, format, 64, 1);
    BlockTable table;
    ASSERT_TRUE(cache.Reserve(rows, &table));
    for (size_t layer = 0; layer < config.layers; ++layer) {
      for (size_t r = 0; r < rows; ++r) {
        cache.Write(layer, table, r, &keys[layer][r * config.keys()],
                    &values[layer][r * config.keys()]);
      }
      for (size_t head = 0; head < config.kv_heads; ++head) {
        std::vector<float> scratch, more;
        const float* cached_keys = cache.Keys(layer, table.blocks[0], head, &scratch);
        const float* cached_values = cache.Values(layer, table.blocks[0], head, &more);
        for (size_t i = 0; i < rows * config.head_dim; ++i) {
          const size_t r = i / config.head_dim;
          const size_t d = i % config.head_dim;
          const size_t at = r * config.keys() + head * config.head_dim + d;
          ASSERT_EQ(cached_keys[d * cache.key_stride() + r], tape.layers[layer].key[at])
              << DTypeName(format);
          ASSERT_EQ(cached_values[i], tape.layers[layer].value[at]) << DTypeName(format);
        }
      }
    }
  }
}

TEST(TapedForward, EveryTargetLeavesTheSameTape) {
  const std::vector<KernelRequest> requests = RandomRequests(3, 40, 6);
  const Checkpoint checkpoint = RandomCheckpoint(QwenConfig());
  for (const char* kernel : {"f32", "fp8", "int3"}) {
    const LabSwitches switches = Switches(kernel);
    const LabModel model = MustMakeModel(checkpoint, switches);
    const Tape expected = TapeOf(model, switches, SequencesOf(requests));
    for (const Target target : AvailableTargets()) {
      const Tape tape = TapeOf(model, switches, SequencesOf(requests), target);
      EXPECT_EQ(tape.logits, expected.logits) << TargetName(target);
      EXPECT_EQ(tape.layers[1].gated, expected.layers[1].gated) << TargetName(target);
    }
  }
}

TEST(TapedForward, RefusesWhatItCannotCompute) {
  const LabSwitches switches = Switches("f32");
  const LabModel model = MustMakeModel(RandomCheckpoint(SmallConfig()), switches);
  ForkJoin pool(1);
  TapedForward forward(model, switches, pool);
  const auto message = [&](const std::vector<int32_t>& tokens) {
    Tape tape;
    const std::vector<TapedSequence> sequences = {{"x", tokens, 0}};
    const Result<> done = forward.Run(sequences, &tape);
    return done.has_value() ? std::string() : done.error().message();
  };
  EXPECT_EQ(message({1, 2}), "");
  EXPECT_NE(message({}).find("'x' has no tokens"), std::string::npos);
  EXPECT_NE(message({1, 50}).find("token 50"), std::string::npos);
  EXPECT_NE(message(std::vector<int32_t>(513, 1)).find("512 positions"), std::string::npos);
}

}  // namespace
}  // namespace kcc
