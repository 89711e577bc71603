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
};

struct LabModel {
  // Fails where a group of the weights' scales does not divide a matrix.
  static Result<LabModel> Make(const Checkpoint& checkpoint, const LabSwitches& switches);

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
