#include "kcc/lab/lab_model.h"

namespace kcc {
namespace {

Result<> CheckGroup(const LabSwitches& switches, size_t inputs, std::string_view what) {
  if (switches.scale != ScaleGrain::kGroup || inputs % switches.group == 0) return {};
  return InvalidError("scale=group:" + std::to_string(switches.group) + " does not divide the " +
                      std::to_string(inputs) + " inputs of the model's " + std::string(what));
}

}  // namespace

Result<LabModel> LabModel::Make(const Checkpoint& checkpoint, const LabSwitches& switches) {
  const ModelConfig& config = checkpoint.config;
  KCC_TRY_VOID(CheckGroup(switches, config.hidden, "hidden states"));
  KCC_TRY_VOID(CheckGroup(switches, config.queries(), "attention heads"));
  KCC_TRY_VOID(CheckGroup(switches, config.ffn, "feed-forward layer"));
  LabModel model{.config = config,
                 .digest = checkpoint.digest,
                 .embedding = {},
                 .layers = {},
                 .final_gain = {},
                 .lm_head = {},
                 .rope = RopeTable(config, switches.rope)};
  model.SetWeights(checkpoint, switches);
  return model;
}

void LabModel::SetWeights(const ModelWeights& weights, const LabSwitches& switches) {
  const auto pack = [&](const std::vector<float>& matrix, size_t outputs, size_t inputs) {
    return PackedMatrix(matrix, outputs, inputs, switches.weights, switches.scale, switches.group,
                        switches.largest_code);
  };
  embedding = weights.embedding;
  layers.resize(config.layers);
  for (size_t i = 0; i < config.layers; ++i) {
    const LayerWeights& layer = weights.layers[i];
    PackedLayer& packed = layers[i];
    packed.attention_gain = layer.attention_gain;
    packed.mlp_gain = layer.mlp_gain;
    packed.query = pack(layer.query, config.queries(), config.hidden);
    packed.key = pack(layer.key, config.keys(), config.hidden);
    packed.value = pack(layer.value, config.keys(), config.hidden);
    packed.output = pack(layer.output, config.hidden, config.queries());
    packed.gate = pack(layer.gate, config.ffn, config.hidden);
    packed.up = pack(layer.up, config.ffn, config.hidden);
    packed.down = pack(layer.down, config.hidden, config.ffn);
    packed.query_bias = layer.query_bias;
    packed.key_bias = layer.key_bias;
    packed.value_bias = layer.value_bias;
    packed.output_bias = layer.output_bias;
    packed.query_gain = layer.query_gain;
    packed.key_gain = layer.key_gain;
  }
  final_gain = weights.final_gain;
  lm_head = switches.lm_head_quantized
                ? pack(weights.lm_head, config.vocab, config.hidden)
                : PackedMatrix(weights.lm_head, config.vocab, config.hidden, DType::kF32);
}

size_t LabModel::weight_bytes() const {
  size_t bytes = embedding.size() * sizeof(float) + lm_head.bytes();
  for (const PackedLayer& layer : layers) {
    bytes += layer.query.bytes() + layer.key.bytes() + layer.value.bytes() + layer.output.bytes();
    bytes += layer.gate.bytes() + layer.up.bytes() + layer.down.bytes();
  }
  return bytes;
}

}  // namespace kcc
