// The double reference of the GPU checks: one row pair by definition, in 113-bit arithmetic.
// Host code, apart from the .cu files, which cannot hold a __float128.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kcc/drift/cuda/drift_cuda.h"

namespace kcc {

struct GpuTruth {
  std::array<double, kCudaValues> values{};
  std::array<int32_t, 2> argmax{};  // infer, train
};

// Masks as in drift/row_truth.h; js, hellinger and rank where `costly`.
GpuTruth TruthOfRow(const std::vector<float>& train, const std::vector<float>& infer,
                    double temperature, int32_t token, bool costly);

// Case `seed` of drift/masked_rows.h.
struct GpuMaskedRow {
  DType dtype = DType::kF32;
  int64_t vocab = 0;
  std::vector<uint8_t> train, infer;
  double temperature = 1;
  int32_t token = 0;
  bool costly = false;
};
GpuMaskedRow MaskedRowOf(uint64_t seed);
// Empty, or what is wrong with the values measured of it, in the order of CudaValue.
std::string FaultOfMaskedRow(uint64_t seed, const double* values);

// Entry i of raw row data.
float LogitOf(const void* data, DType dtype, int64_t i);

}  // namespace kcc
