// A Llama-style checkpoint in Hugging Face's layout: config.json and model.safetensors.
//
// What the engine computes: RMSNorm, grouped-query attention with rotate-half RoPE, SwiGLU, no
// biases. A config that asks for anything else (other activation, scaled RoPE, attention bias) is
// refused, since it would be computed wrongly. Weights are widened to float32, which loses nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"

namespace kcc {

struct ModelConfig {
  size_t hidden = 0;
  size_t layers = 0;
  size_t heads = 0;
  size_t kv_heads = 0;
  size_t head_dim = 0;
  size_t ffn = 0;
  size_t vocab = 0;
  size_t positions = 0;  // of the longest sequence
  double rope_theta = 10000;
  double rms_eps = 1e-6;
  bool tied = false;  // the embedding is the output matrix too

  size_t queries() const { return heads * head_dim; }
  size_t keys() const { return kv_heads * head_dim; }
};

struct LayerWeights {
  std::vector<float> attention_gain, mlp_gain;   // [hidden]
  std::vector<float> query, key, value, output;  // [queries, hidden] … [hidden, queries]
  std::vector<float> gate, up, down;             // [ffn, hidden], [hidden, ffn]
};

struct Checkpoint {
  ModelConfig config;
  std::vector<float> embedding;  // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::vector<float> final_gain;
  std::vector<float> lm_head;  // [vocab, hidden]; a copy of the embedding if tied
  std::string digest;          // SHA-256 of both files
};

// Parses config.json.
Result<ModelConfig> ParseModelConfig(std::string_view json, const std::string& file);

// Reads a directory. Fails, naming the file and the tensor, on a tensor that is missing, of
// another shape or dtype, or that holds a number that is not finite.
Result<Checkpoint> ReadCheckpoint(const std::string& directory);

}  // namespace kcc
