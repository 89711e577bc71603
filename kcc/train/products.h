// The backward passes of matrix products y = x W^T: dx = dy W and dW += dy^T x.
//
// Products of one input (query, key and value; gate and up) are one stack, whose gradients lie side
// by side in a row. Both are the engine's Gemm on matrices that are packed by copying lines. Every
// gradient is a chain in a fixed order: dx over the outputs of the stack, dW over the rows of the
// batch, in parts of kRowsOfPart that are added in order. Threads share out panels, never the terms
// of a sum.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kcc/lab/fork_join.h"
#include "kcc/numeric/gemm.h"

namespace kcc {

inline constexpr size_t kRowsOfPart = 512;

// The stride of a row of gradients: whole multiples of what a product takes.
inline size_t GradientStride(size_t width) { return (width + 31) / 32 * 32; }

// What the products of a stack stand for, ready to be multiplied by gradients.
class TransposedStack {
 public:
  // Unpacks the matrices, which have the same inputs. Called by one thread.
  void Assign(std::span<const PackedMatrix* const> stack);

  size_t inputs() const { return matrix_.outputs(); }
  // dx of each row, from dy with the stride of the stack's outputs. Elements of dy beyond the
  // outputs are zeros.
  void InputGradient(const float* dy, size_t rows, ForkJoin& pool, Target target, float* dx) const;

 private:
  PackedMatrix matrix_;
  std::vector<float> unpacked_;
};

// Where the gradient of one matrix of a stack goes, [outputs][inputs]; it is added to.
struct WeightGradientPart {
  size_t outputs = 0;
  float* to = nullptr;
};

class WeightGradients {
 public:
  WeightGradients(ForkJoin& pool, Target target) : pool_(pool), target_(target) {}

  // dy: [rows][stride]; x: [rows][inputs], inputs a multiple of 32.
  void Add(const float* dy, size_t stride, const float* x, size_t inputs, size_t rows,
           std::span<const WeightGradientPart> stack);

 private:
  void AddPart(const float* dy, size_t stride, size_t rows,
               std::span<const WeightGradientPart> stack);

  ForkJoin& pool_;
  Target target_;
  PackedMatrix x_;
  std::vector<float> dy_across_;  // [outputs][rows of the part]
};

}  // namespace kcc
