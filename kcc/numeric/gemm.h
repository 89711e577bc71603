// y = x W^T on packed weights: the matrix product of the lab's engine.
//
// An output is one chain of fused multiply-adds over the inputs in order of k, whatever the number
// of rows, threads or real lanes: lanes hold different outputs, never parts of one sum. So the
// result of a row depends on that row alone and has the same bits on every target. What changes
// the bits is asked for: Reduction splits the chain, narrows or widens its accumulator.
//
// Weights are stored in their own format (4, 8, 16 or 32 bits) and widened in registers; a scaled
// format stands for float32(code * scale).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kcc/base/dtype.h"
#include "kcc/numeric/target.h"

namespace kcc {

inline constexpr size_t kPanelOutputs = 32;  // outputs that are packed side by side

enum class ScaleGrain : uint8_t { kTensor, kChannel, kGroup };

class PackedMatrix {
 public:
  PackedMatrix() = default;
  // Weights of `outputs` rows and `inputs` columns, row after row. Formats: F32, BF16, F16, and
  // with scales F8_E4M3, F8_E5M2, I8, I4. A group is `group` inputs of one output.
  // `largest_code`, of I4 alone: codes go up to it, not to 7. With 3 they are those of INT3, which
  // is held in I4's four bits. Preconditions: inputs and group are multiples of 32; 1 <=
  // largest_code
  // <= 7.
  PackedMatrix(std::span<const float> weights, size_t outputs, size_t inputs, DType format,
               ScaleGrain grain = ScaleGrain::kChannel, size_t group = 0, int largest_code = 7);

  // Becomes a float32 matrix of this shape, for FillTransposed; the weights are undefined until all
  // panels are filled. Keeps its memory. `inputs` is rounded up to a multiple of 32.
  void SetShape(size_t outputs, size_t inputs);
  // Fills panels with the transpose of a matrix of `rows` rows, each `stride` after the one before:
  // output n and input k are element (k, n). Inputs beyond the rows are zeros. This is a copy, line
  // by line. Threads may share out the panels.
  void FillTransposed(const float* matrix, size_t rows, size_t stride, size_t panel_begin,
                      size_t panel_end);

  size_t outputs() const { return outputs_; }
  size_t inputs() const { return inputs_; }
  size_t panels() const { return (outputs_ + kPanelOutputs - 1) / kPanelOutputs; }
  DType format() const { return format_; }
  size_t bytes() const { return lines_.size() * sizeof(Line) + scales_.size() * sizeof(float); }

  // What the packed weight stands for.
  float At(size_t output, size_t input) const;
  // All of them, row after row.
  void Unpack(float* weights) const;

  // For the kernels: inputs x kPanelOutputs codes of a panel; I4 packs inputs 2i and 2i+1 a byte.
  const uint8_t* panel(size_t p) const {
    return reinterpret_cast<const uint8_t*>(lines_.data()) + p * panel_bytes();
  }
  size_t panel_bytes() const { return inputs_ * kPanelOutputs * DTypeBits(format_) / 8; }
  // Scales of a panel, [groups][kPanelOutputs]; null for formats without.
  const float* scales(size_t p) const {
    return scales_.empty() ? nullptr : scales_.data() + p * groups_ * kPanelOutputs;
  }
  size_t group() const { return group_; }  // inputs that share a scale; inputs() if all do

 private:
  struct alignas(64) Line {
    uint8_t bytes[64];
  };
  void Quantize(std::span<const float> weights, ScaleGrain grain, float largest_code);
  void StoreFloats(std::span<const float> weights);
  void Store(size_t output, size_t input, float weight, float largest_code);
  float Scale(size_t output, size_t input) const;
  uint8_t* Slot(size_t output, size_t input);

  size_t outputs_ = 0;
  size_t inputs_ = 0;
  size_t group_ = 0;
  size_t groups_ = 1;
  DType format_ = DType::kF32;
  std::vector<Line> lines_;
  std::vector<float> scales_;
};

// How a sum over k is formed.
struct Reduction {
  // Mantissa bits of the accumulator: 52 (double; rounded to float32 at the end), 23 (float32), or
  // fewer, with float32's range: 13 as Hopper's FP8 units, 10 as fp16, 7 as bf16.
  int mantissa_bits = 23;
  // Narrow accumulators are added to a float32 sum every so many terms; 0: at the end.
  int promote = 0;
  // The chain is cut into this many parts, summed apart and then together in order.
  int split = 1;

  bool operator==(const Reduction&) const = default;
};

// y[r][n] for rows r of x and the outputs of panels [panel_begin, panel_end). Row r of x starts at
// x + r * x_stride, of y at y + r * y_stride. Threads may share everything but their panels.
// Precondition: 1 <= split <= inputs / 32; the CPU has the target.
struct GemmRows {
  const float* x = nullptr;
  size_t rows = 0;
  size_t x_stride = 0;
  float* y = nullptr;
  size_t y_stride = 0;
  bool add = false;  // the products, once summed, are added to what y holds
};
void Gemm(const GemmRows& rows, const PackedMatrix& weights, size_t panel_begin, size_t panel_end,
          const Reduction& reduction, Target target);

}  // namespace kcc
