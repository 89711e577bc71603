// Rows whose sides mask tokens by constants of their own, on the GPU, against 113-bit arithmetic.
#pragma once

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "bench/gpu/verify_rows.cuh"

namespace kcc {

// Mask constants on one side or both, a few ids or all beyond a place, in rows that the fast kernel
// sees first.
inline void CheckMasks(bool small) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const int64_t vocab = small ? 9000 : 32768;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    std::vector<float> constants = {0, -kInf, -65504.0f, -10000.0f};  // 0: not masked
    if (dtype != DType::kF16) {
      const float lowest = dtype == DType::kF32 ? -3.4028234663852886e38f : -3.3895313892515355e38f;
      constants.insert(constants.end(), {lowest, -1e30f, -1e9f});
    }
    const auto count = static_cast<int64_t>(constants.size());
    const int64_t rows = 2 * count * count;
    DriftProblem problem(dtype, rows, vocab, vocab, kCudaWantTopK | kCudaWantReverseChi2);
    problem.Fill(LogitRecipe());
    const size_t element = DTypeBits(dtype) / 8;
    const auto put = [&](void* side, int64_t row, int64_t at, float value) {
      if (value == 0) return;
      const uint16_t half = dtype == DType::kF16 ? FloatToF16(value) : FloatToBF16(value);
      const void* from = dtype == DType::kF32 ? static_cast<const void*>(&value) : &half;
      KCC_CUDA(
          cudaMemcpy(static_cast<char*>(side) + static_cast<size_t>(row * vocab + at) * element,
                     from, element, cudaMemcpyHostToDevice));
    };
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t ids = row % 2 == 0 ? 8 : 100;
      for (int64_t k = 0; k < ids; ++k) {
        const int64_t at = row % 2 == 0 ? 777 * k : vocab - 1 - k;
        put(problem.train, row, at, constants[static_cast<size_t>(row / 2 % count)]);
        put(problem.infer, row, at, constants[static_cast<size_t>(row / 2 / count)]);
      }
    }
    const std::vector<int32_t> tokens(static_cast<size_t>(rows), 5);
    KCC_CUDA(cudaMemcpy(problem.tokens, tokens.data(), tokens.size() * 4, cudaMemcpyHostToDevice));
    const Outputs out = Run(&problem);
    for (size_t i = 0; i < out.status.size(); ++i) {
      const auto row = static_cast<int64_t>(i);
      const GpuTruth truth = TruthOfRow(RowOf(problem, problem.train, row),
                                        RowOf(problem, problem.infer, row), 1, tokens[i], false);
      Expect(out.status[i] <= kCudaRowCareful, "a masked row is refused");
      for (int value = 0; value < kCudaJs; ++value) {
        ExpectValue("masked", out, i, value, truth);
      }
    }
  }
  std::printf("mask constants on either side\n");
}

// The rows of drift/masked_rows.h, one launch each: all are measured in double.
inline void CheckMaskedRows(int64_t cases) {
  constexpr int64_t kVocabMost = 4096;
  constexpr unsigned kWanted = kCudaWantTopK | kCudaWantReverseChi2 | kCudaWantOnDemand;
  constexpr size_t kBatch = 4096;
  DriftProblem problem(DType::kF32, 1, kVocabMost, kVocabMost, kWanted);
  for (int64_t first = 0; first < cases; first += kBatch) {
    const auto count = static_cast<size_t>(std::min<int64_t>(kBatch, cases - first));
    std::vector<Outputs> outs(count);
    for (size_t i = 0; i < count; ++i) {
      const GpuMaskedRow row = MaskedRowOf(static_cast<uint64_t>(first) + i);
      CudaDriftArgs& args = problem.args;
      args.vocab = args.train.row_stride = args.infer.row_stride = row.vocab;
      args.train.dtype = args.infer.dtype = row.dtype;
      args.temperature = row.temperature;
      KCC_CUDA(
          cudaMemcpy(problem.train, row.train.data(), row.train.size(), cudaMemcpyHostToDevice));
      KCC_CUDA(
          cudaMemcpy(problem.infer, row.infer.data(), row.infer.size(), cudaMemcpyHostToDevice));
      KCC_CUDA(cudaMemcpy(problem.tokens, &row.token, 4, cudaMemcpyHostToDevice));
      outs[i] = Run(&problem);
    }
    std::atomic<size_t> next{0};
    std::vector<std::string> faults(count);
    std::vector<std::thread> workers;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
      workers.emplace_back([&] {
        for (size_t i; (i = next++) < count;) {
          faults[i] = FaultOfMaskedRow(static_cast<uint64_t>(first) + i, outs[i].values.data());
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    for (size_t i = 0; i < count; ++i) {
      Expect(faults[i].empty(), faults[i]);
      Expect(outs[i].status[0] == kCudaRowCareful, "a masked row is refused");
    }
  }
  std::printf("%lld rows with mask constants\n", static_cast<long long>(cases));
}

}  // namespace kcc
