// What config.json says of a model that the lab computes, and which tensors follow from it.
//
// The architecture: RMSNorm, grouped-query attention with rotate-half RoPE, SwiGLU, as Llama has
// it. Families differ in three parts: biases of the projections (Qwen2), RMSNorm of every query and
// key head before RoPE (Qwen3), and frequencies of RoPE that are scaled for longer contexts. A
// config that asks for anything else (another activation, sliding windows, experts, other scalings)
// is refused, since it would be computed wrongly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

enum class ModelFamily : uint8_t { kLlama, kQwen2, kQwen3 };
std::string_view Name(ModelFamily family);  // "qwen2", as model_type says it

// How RoPE's frequencies are scaled (rope_type of transformers).
struct RopeScaling {
  enum class Kind : uint8_t {
    kNone,
    kLinear,  // all divided by the factor
    kLlama3,  // those of long waves are, those of short ones are not, and between them is a ramp
  };
  Kind kind = Kind::kNone;
  double factor = 1;
  // Of kLlama3: waves shorter than original_positions / high are left, those longer than
  // original_positions / low are divided.
  double low = 1;
  double high = 4;
  double original_positions = 0;

  bool operator==(const RopeScaling&) const = default;
};

struct ModelConfig {
  ModelFamily family = ModelFamily::kLlama;
  size_t hidden = 0;
  size_t layers = 0;
  size_t heads = 0;
  size_t kv_heads = 0;
  size_t head_dim = 0;
  size_t ffn = 0;
  size_t vocab = 0;
  size_t positions = 0;  // of the longest sequence
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  double rms_eps = 1e-6;
  double initializer_range = 0.02;  // standard deviation of weights that nobody has trained
  bool tied = false;                // the embedding is the output matrix too
  bool qkv_bias = false;            // of the query, key and value projections
  bool output_bias = false;         // of the projection after attention
  bool qk_norm = false;             // RMSNorm of each query and key head, before RoPE

  size_t queries() const { return heads * head_dim; }
  size_t keys() const { return kv_heads * head_dim; }
  bool operator==(const ModelConfig&) const = default;
};

// Parses config.json.
Result<ModelConfig> ParseModelConfig(std::string_view json, const std::string& file);

struct LayerWeights {
  std::vector<float> attention_gain, mlp_gain;   // [hidden]
  std::vector<float> query, key, value, output;  // [queries, hidden] … [hidden, queries]
  std::vector<float> gate, up, down;             // [ffn, hidden], [hidden, ffn]
  // Empty where the model has none.
  std::vector<float> query_bias, key_bias, value_bias, output_bias;
  std::vector<float> query_gain, key_gain;  // [head_dim]
};

// A model's numbers, or as many of another kind: gradients, moments.
struct ModelWeights {
  std::vector<float> embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::vector<float> final_gain;
  std::vector<float> lm_head;  // [vocab, hidden]
};

struct ModelTensor {
  std::string name;  // as in Hugging Face's files
  std::vector<int64_t> shape;
  std::vector<float>* values;  // in the weights

  size_t elements() const;
};
// The tensors of a model, in a fixed order. `weights->layers` is given as many layers as the config
// has; the values are left alone. Of a tied model the output matrix is no tensor of its own.
std::vector<ModelTensor> TensorsOf(const ModelConfig& config, ModelWeights* weights);

// The same tensors, all zeros.
ModelWeights ZeroWeights(const ModelConfig& config);

}  // namespace kcc
