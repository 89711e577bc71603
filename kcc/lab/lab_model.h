// A checkpoint prepared for one kernel: matrices packed in the kernel's format, RoPE's table made.
// Immutable; kernels of one process may share it.
#pragma once

#include <string>
#include <vector>

#include "kcc/lab/checkpoint.h"
#include "kcc/lab/rope.h"
#include "kcc/lab/switches.h"
#include "kcc/numeric/gemm.h"

namespace kcc {

struct PackedLayer {
  std::vector<float> attention_gain, mlp_gain;
  PackedMatrix query, key, value, output;
  PackedMatrix gate, up, down;
  std::vector<float> query_bias, key_bias, value_bias, output_bias;  // empty where there are none
  std::vector<float> query_gain, key_gain;
};

struct LabModel {
  // Fails where a group of the weights' scales does not divide a matrix.
  static Result<LabModel> Make(const Checkpoint& checkpoint, const LabSwitches& switches);
  // Other weights of the same shapes, for training. The digest stays that of the checkpoint.
  void SetWeights(const ModelWeights& weights, const LabSwitches& switches);

  ModelConfig config;
  std::string digest;  // of the checkpoint
  std::vector<float> embedding;
  std::vector<PackedLayer> layers;
  std::vector<float> final_gain;
  PackedMatrix lm_head;
  RopeTable rope;

  size_t weight_bytes() const;
};

}  // namespace kcc
