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
  const auto pack = [&](const std::vector<float>& weights, size_t outputs, size_t inputs) {
    return PackedMatrix(weights, outputs, inputs, switches.weights, switches.scale, switches.group);
  };
  LabModel model{
      .config = config,
      .digest = checkpoint.digest,
      .embedding = checkpoint.embedding,
      .layers = {},
      .final_gain = checkpoint.final_gain,
      .lm_head = {},
      .rope = RopeTable(config.head_dim, config.positions, config.rope_theta, switches.rope)};
  for (const LayerWeights& layer : checkpoint.layers) {
    PackedLayer packed;
    packed.attention_gain = layer.attention_gain;
    packed.mlp_gain = layer.mlp_gain;
    packed.query = pack(layer.query, config.queries(), config.hidden);
    packed.key = pack(layer.key, config.keys(), config.hidden);
    packed.value = pack(layer.value, config.keys(), config.hidden);
    packed.output = pack(layer.output, config.hidden, config.queries());
    packed.gate = pack(layer.gate, config.ffn, config.hidden);
    packed.up = pack(layer.up, config.ffn, config.hidden);
    packed.down = pack(layer.down, config.hidden, config.ffn);
    model.layers.push_back(std::move(packed));
  }
  model.lm_head = switches.lm_head_quantized
                      ? pack(checkpoint.lm_head, config.vocab, config.hidden)
                      : PackedMatrix(checkpoint.lm_head, config.vocab, config.hidden, DType::kF32);
  return model;
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
