// The double reference of the GPU checks: one row pair by definition, in 113-bit arithmetic.
// Host code, apart from the .cu files, which cannot hold a __float128.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kcc/drift/cuda/drift_cuda.h"

namespace kcc {

struct GpuTruth {
  std::array<double, kCudaValues> values{};
  std::array<int32_t, 2> argmax{};  // infer, train
};

// Finite logits only; js, hellinger and rank where `costly`.
GpuTruth TruthOfRow(const std::vector<float>& train, const std::vector<float>& infer,
                    double temperature, int32_t token, bool costly);

// Entry i of raw row data.
float LogitOf(const void* data, DType dtype, int64_t i);

}  // namespace kcc
