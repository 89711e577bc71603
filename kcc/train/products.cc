#include "kcc/train/products.h"

#include <algorithm>

namespace kcc {
namespace {

// to[n][r] = from[r][n] for n in [begin, end); rows of `to` beyond `rows` are zeros up to its
// stride.
void TransposeColumns(const float* from, size_t stride, size_t rows, size_t begin, size_t end,
                      size_t to_stride, float* to) {
  constexpr size_t kBlock = 16;  // of both, so that the lines of both stay in the cache
  for (size_t n0 = begin; n0 < end; n0 += kBlock) {
    const size_t n1 = std::min(end, n0 + kBlock);
    for (size_t r0 = 0; r0 < rows; r0 += kBlock) {
      const size_t r1 = std::min(rows, r0 + kBlock);
      for (size_t n = n0; n < n1; ++n) {
        for (size_t r = r0; r < r1; ++r) to[n * to_stride + r] = from[r * stride + n];
      }
    }
    for (size_t n = n0; n < n1; ++n)
      std::fill(to + n * to_stride + rows, to + (n + 1) * to_stride, 0.0f);
  }
}

}  // namespace

void TransposedStack::Assign(std::span<const PackedMatrix* const> stack) {
  size_t outputs = 0;
  for (const PackedMatrix* part : stack) outputs += part->outputs();
  const size_t inputs = stack[0]->inputs();
  unpacked_.resize(outputs * inputs);
  size_t at = 0;
  for (const PackedMatrix* part : stack) {
    part->Unpack(&unpacked_[at * inputs]);
    at += part->outputs();
  }
  matrix_.SetShape(inputs, outputs);
  matrix_.FillTransposed(unpacked_.data(), outputs, inputs, 0, matrix_.panels());
}

void TransposedStack::InputGradient(const float* dy, size_t rows, ForkJoin& pool, Target target,
                                    float* dx) const {
  const GemmRows job{dy, rows, matrix_.inputs(), dx, matrix_.outputs()};
  pool.Run(matrix_.panels(),
           [&](size_t begin, size_t end) { Gemm(job, matrix_, begin, end, Reduction{}, target); });
}

void WeightGradients::Add(const float* dy, size_t stride, const float* x, size_t inputs,
                          size_t rows, std::span<const WeightGradientPart> stack) {
  for (size_t begin = 0; begin < rows; begin += kRowsOfPart) {
    const size_t count = std::min(kRowsOfPart, rows - begin);
    x_.SetShape(inputs, count);
    pool_.Run(x_.panels(), [&](size_t from, size_t to) {
      x_.FillTransposed(x + begin * inputs, count, inputs, from, to);
    });
    AddPart(dy + begin * stride, stride, count, stack);
  }
}

void WeightGradients::AddPart(const float* dy, size_t stride, size_t rows,
                              std::span<const WeightGradientPart> stack) {
  size_t outputs = 0;
  for (const WeightGradientPart& part : stack) outputs += part.outputs;
  const size_t across = x_.inputs();
  dy_across_.resize(outputs * across);
  pool_.Run(outputs, [&](size_t begin, size_t end) {
    TransposeColumns(dy, stride, rows, begin, end, across, dy_across_.data());
  });
  pool_.Run(x_.panels(), [&](size_t begin, size_t end) {
    size_t first = 0;
    for (const WeightGradientPart& part : stack) {
      Gemm({&dy_across_[first * across], part.outputs, across, part.to, x_.outputs(), true}, x_,
           begin, end, Reduction{}, target_);
      first += part.outputs;
    }
  });
}

}  // namespace kcc
