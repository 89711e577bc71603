// The rotations of RoPE: cosine and sine of position * theta^(-2i/d), in float32.
//
// Angles are formed in double, float32 or bfloat16 (switch `rope`); at position p an angle formed
// in float32 is off by up to p 2^-24, in bfloat16 by p 2^-8. Cosine and sine are computed in plain
// double arithmetic, so that every C library gives the same bits. Hugging Face's Llama forms its
// angles in float32 whatever the dtype of the model.
#pragma once

#include <cstddef>
#include <vector>

#include "kcc/lab/model_config.h"
#include "kcc/lab/switches.h"

namespace kcc {

class RopeTable {
 public:
  RopeTable(const ModelConfig& config, AnglePrecision precision);

  // head_dim / 2 numbers of one position.
  const float* cosines(size_t position) const { return &cosines_[position * half_]; }
  const float* sines(size_t position) const { return &sines_[position * half_]; }

  // Rotates one head in place: element i with element i + head_dim / 2. `wide`: in double.
  void Rotate(size_t position, bool wide, float* head) const;
  // The other way round, which is the rotation's transpose, in float32: for gradients.
  void RotateBack(size_t position, float* head) const;

 private:
  size_t half_;
  std::vector<float> cosines_;
  std::vector<float> sines_;
};

// The angles by which neighbouring positions differ, one for each pair of a head's elements.
std::vector<double> RopeFrequencies(const ModelConfig& config);

// Cosine and sine within 2 ulp for 0 <= x < 2^20.
void CosSin(double x, double* cosine, double* sine);

}  // namespace kcc
