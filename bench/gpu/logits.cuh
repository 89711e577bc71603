// Synthetic logits on the device, the same on every machine: bulk N(-1, 2.3), a head of 30 tokens,
// every fourth row sharpened; the infer side is the train side plus a shift and noise of sigma.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kcc/drift/cuda/device_types.cuh"
#include "kcc/drift/cuda/drift_cuda.h"

namespace kcc {

inline void CudaMust(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(1);
}
#define KCC_CUDA(call) ::kcc::CudaMust((call), #call)

struct LogitRecipe {
  double sigma = 0.01;
  double shift = 0;
  double offset = 0;   // added to both sides
  double sharpen = 1;  // of all rows
  double peak = 0;     // > 0: one token of every row is raised by it
  double stretch = 0;  // the infer side is as much larger
  uint64_t seed = 1;
};

__device__ inline uint64_t Mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}
__device__ inline float2 Normals(uint64_t key) {
  const uint64_t bits = Mix(key);
  const float u = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
  const float v = static_cast<float>((bits >> 16) & 0xffffff) * 0x1p-24f;
  const float r = sqrtf(-2 * logf(u));
  return make_float2(r * cospif(2 * v), r * sinpif(2 * v));
}

template <class T>
__device__ inline T ToLogit(float value) {
  return T(value);
}

template <class T>
__global__ void MakeLogits(T* train, T* infer, int64_t rows, int64_t vocab, int64_t stride,
                           LogitRecipe recipe) {
  const int64_t row = blockIdx.y;
  for (int64_t r = row; r < rows; r += gridDim.y) {
    const float sharpen = static_cast<float>(recipe.sharpen) * (r % 4 == 3 ? 2.0f : 1.0f);
    const auto peak_at = static_cast<int64_t>(Mix(recipe.seed * 77 + static_cast<uint64_t>(r)) %
                                              static_cast<uint64_t>(vocab));
    for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < vocab;
         i += static_cast<int64_t>(gridDim.x) * blockDim.x) {
      const uint64_t key = (recipe.seed << 52) ^ static_cast<uint64_t>(r * vocab + i);
      const float2 n = Normals(key);
      float z = -1 + 2.3f * n.x;
      const uint64_t draw = Mix(key ^ 0x5555);
      if (draw % static_cast<uint64_t>(vocab) < 30) z = 8 + 3 * fabsf(n.x);
      z = z * sharpen;
      if (recipe.peak > 0 && i == peak_at) z = static_cast<float>(recipe.peak);
      const T a = ToLogit<T>(z + static_cast<float>(recipe.offset));
      const float moved = static_cast<float>(recipe.shift) +
                          static_cast<float>(recipe.sigma) * n.y +
                          static_cast<float>(recipe.stretch) * static_cast<float>(a);
      train[r * stride + i] = a;
      infer[r * stride + i] = ToLogit<T>(static_cast<float>(a) + moved);
    }
  }
}

inline void FillLogits(DType dtype, void* train, void* infer, int64_t rows, int64_t vocab,
                       int64_t stride, const LogitRecipe& recipe) {
  const dim3 grid(64, static_cast<unsigned>(rows < 4096 ? rows : 4096));
  const auto fill = [&](auto sample) {
    using T = decltype(sample);
    MakeLogits<T><<<grid, 256>>>(static_cast<T*>(train), static_cast<T*>(infer), rows, vocab,
                                 stride, recipe);
  };
  switch (dtype) {
    case DType::kF32:
      fill(float{});
      break;
    case DType::kF16:
      fill(__half{});
      break;
    case DType::kBF16:
      fill(__nv_bfloat16{});
      break;
    case DType::kF8E4M3:
      fill(__nv_fp8_e4m3{});
      break;
    default:
      fill(__nv_fp8_e5m2{});
      break;
  }
  KCC_CUDA(cudaGetLastError());
}

// Two tensors, the outputs and the workspace of one measurement.
class DriftProblem {
 public:
  DriftProblem(DType dtype, int64_t rows, int64_t vocab, int64_t stride, unsigned wanted,
               double temperature = 1)
      : bytes_(static_cast<size_t>(rows * stride) * DTypeBits(dtype) / 8) {
    args.train.dtype = args.infer.dtype = dtype;
    args.train.row_stride = args.infer.row_stride = stride;
    args.rows = rows;
    args.vocab = vocab;
    args.temperature = temperature;
    args.wanted = wanted;
    train = Take(bytes_);
    infer = Take(bytes_);
    args.train.data = train;
    args.infer.data = infer;
    args.values = static_cast<double*>(Take(static_cast<size_t>(rows) * kCudaValues * 8));
    args.argmax = static_cast<int32_t*>(Take(static_cast<size_t>(rows) * 8));
    args.status = static_cast<int32_t*>(Take(static_cast<size_t>(rows) * 4));
    tokens = static_cast<int32_t*>(Take(static_cast<size_t>(rows) * 4));
    args.tokens = tokens;
    args.workspace_bytes = CudaDriftWorkspaceBytes(args);
    args.workspace = Take(args.workspace_bytes);
  }
  ~DriftProblem() {
    for (void* each : taken_) cudaFree(each);
  }
  DriftProblem(const DriftProblem&) = delete;

  void Fill(const LogitRecipe& recipe) {
    FillLogits(args.train.dtype, train, infer, args.rows, args.vocab, args.train.row_stride,
               recipe);
    std::vector<int32_t> ids(static_cast<size_t>(args.rows));
    for (size_t i = 0; i < ids.size(); ++i) {
      ids[i] = static_cast<int32_t>(i * 7919 % static_cast<size_t>(args.vocab));
    }
    KCC_CUDA(cudaMemcpy(tokens, ids.data(), ids.size() * 4, cudaMemcpyHostToDevice));
  }
  void Measure() {
    if (const char* problem = MeasureDriftCuda(args)) {
      std::fprintf(stderr, "MeasureDriftCuda: %s\n", problem);
      std::exit(1);
    }
  }
  size_t bytes() const { return bytes_; }

  CudaDriftArgs args;
  void* train;
  void* infer;
  int32_t* tokens;

 private:
  void* Take(size_t bytes) {
    void* at = nullptr;
    KCC_CUDA(cudaMalloc(&at, bytes == 0 ? 1 : bytes));
    taken_.push_back(at);
    return at;
  }

  size_t bytes_;
  std::vector<void*> taken_;
};

}  // namespace kcc
