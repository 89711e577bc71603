// What the GPU checks share: running a measurement, reading its outputs and rows back, and how far
// a value may lie from the truth.
#pragma once

#include <cmath>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "bench/gpu/logits.cuh"
#include "bench/gpu/truth.h"

namespace kcc {

inline constexpr double kBand = 1e-5;

inline int g_failures = 0;

inline void Expect(bool held, const std::string& what) {
  if (held) return;
  ++g_failures;
  std::printf("  FAILED: %s\n", what.c_str());
}

struct Outputs {
  std::vector<double> values;
  std::vector<int32_t> argmax;
  std::vector<int32_t> status;

  double At(int value, size_t row) const {
    return values[static_cast<size_t>(value) * status.size() + row];
  }
  bool operator==(const Outputs& other) const {
    return std::memcmp(values.data(), other.values.data(), values.size() * 8) == 0 &&
           argmax == other.argmax && status == other.status;
  }
};

inline Outputs Download(const CudaDriftArgs& args) {
  const auto rows = static_cast<size_t>(args.rows);
  Outputs out;
  out.values.resize(rows * kCudaValues);
  out.argmax.resize(rows * 2);
  out.status.resize(rows);
  KCC_CUDA(
      cudaMemcpy(out.values.data(), args.values, out.values.size() * 8, cudaMemcpyDeviceToHost));
  KCC_CUDA(
      cudaMemcpy(out.argmax.data(), args.argmax, out.argmax.size() * 4, cudaMemcpyDeviceToHost));
  KCC_CUDA(
      cudaMemcpy(out.status.data(), args.status, out.status.size() * 4, cudaMemcpyDeviceToHost));
  return out;
}

// Nothing of them may stay as it is.
inline void SpoilOutputs(const CudaDriftArgs& args) {
  const auto rows = static_cast<size_t>(args.rows);
  KCC_CUDA(cudaMemset(args.values, 0xa5, rows * kCudaValues * 8));
  KCC_CUDA(cudaMemset(args.argmax, 0xa5, rows * 8));
  KCC_CUDA(cudaMemset(args.status, 0xa5, rows * 4));
  KCC_CUDA(cudaDeviceSynchronize());
}

inline Outputs Run(DriftProblem* problem) {
  SpoilOutputs(problem->args);
  problem->Measure();
  KCC_CUDA(cudaDeviceSynchronize());
  return Download(problem->args);
}

inline std::vector<float> RowOf(const DriftProblem& problem, const void* side, int64_t row) {
  const CudaDriftArgs& args = problem.args;
  const size_t element = DTypeBits(args.train.dtype) / 8;
  std::vector<char> raw(static_cast<size_t>(args.vocab) * element);
  const auto offset = static_cast<size_t>(row * args.train.row_stride) * element;
  KCC_CUDA(cudaMemcpy(raw.data(), static_cast<const char*>(side) + offset, raw.size(),
                      cudaMemcpyDeviceToHost));
  std::vector<float> out(static_cast<size_t>(args.vocab));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = LogitOf(raw.data(), args.train.dtype, static_cast<int64_t>(i));
  }
  return out;
}

// How far a value may lie from the truth.
inline double Allowed(int value, const GpuTruth& truth) {
  const double want = truth.values[static_cast<size_t>(value)];
  const double kl = truth.values[kCudaKl];
  const double tv = truth.values[kCudaTv];
  switch (value) {
    case kCudaKl:
    case kCudaReverseKl:
    case kCudaChi2:
    case kCudaReverseChi2:
    case kCudaJs:
    case kCudaHellinger:
      return kl >= 1e-9 ? kBand * want : 1e-14 + 1e-2 * want;
    case kCudaTv:
      return tv >= 1e-6 ? kBand * want : 1e-11;
    case kCudaEntropyGap:
      return kBand * (want + 40 * tv) + 1e-15;
    case kCudaMargin:
    case kCudaTrainMargin:
    case kCudaTop1Overlap:
    case kCudaTop5Overlap:
    case kCudaTop10Overlap:
    case kCudaRank:
    case kCudaTrainRank:
      return 0;
    case kCudaLogRatio:
      return kBand * (std::fabs(want) + tv) + 1e-13;
    case kCudaSpan:
    case kCudaLinf:
    case kCudaRawLinf:
      return 1e-6 * want;
    default:
      return kBand * std::fabs(want) + 1e-12;
  }
}

inline void ExpectValue(const char* name, const Outputs& out, size_t row, int value,
                        const GpuTruth& truth) {
  const double got = out.At(value, row);
  const double want = truth.values[static_cast<size_t>(value)];
  if (got == want || std::fabs(got - want) <= Allowed(value, truth)) return;
  char text[200];
  std::snprintf(text, sizeof text, "%s row %zu (status %d): %s %.10g, truth %.10g (%.2g off)", name,
                row, out.status[row], CudaValueName(value), got, want,
                std::fabs(got - want) / std::fabs(want));
  Expect(false, text);
}

}  // namespace kcc
