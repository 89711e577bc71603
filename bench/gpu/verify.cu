// Checks the CUDA backend: against the 113-bit reference, bit by bit over repeated runs, batch
// splits and row orders, and on rows that only the careful kernel takes.
//
//   gpu_verify [--small] [--runs N] [--masks N]
//
// --masks: so many rows of drift/masked_rows.h, with mask constants on either side.
// --small: few, short rows, for compute-sanitizer. Exit 0: all held; 1: something did not; 77: no
// device, nothing was checked.
#include <algorithm>
#include <atomic>
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "bench/gpu/logits.cuh"
#include "bench/gpu/truth.h"
#include "bench/gpu/verify_masks.cuh"
#include "bench/gpu/verify_rows.cuh"
#include "kcc/drift/cuda/summary_cuda.h"

namespace kcc {
namespace {

struct Case {
  const char* name;
  DType dtype;
  int64_t rows, vocab, stride;
  LogitRecipe recipe;
  double temperature = 1;
  unsigned wanted = kCudaWantTopK | kCudaWantReverseChi2;
  size_t careful_most = SIZE_MAX;  // so many rows may go to the careful kernel
};

void CheckCase(const Case& test, size_t checked) {
  DriftProblem problem(test.dtype, test.rows, test.vocab, test.stride, test.wanted,
                       test.temperature);
  problem.Fill(test.recipe);
  KCC_CUDA(cudaDeviceSynchronize());
  const Outputs out = Run(&problem);
  checked = std::min(checked, static_cast<size_t>(test.rows));
  std::vector<std::vector<float>> train(checked), infer(checked);
  for (size_t i = 0; i < checked; ++i) {
    train[i] = RowOf(problem, problem.train, static_cast<int64_t>(i));
    infer[i] = RowOf(problem, problem.infer, static_cast<int64_t>(i));
  }
  std::vector<int32_t> tokens(static_cast<size_t>(test.rows));
  KCC_CUDA(cudaMemcpy(tokens.data(), problem.tokens, tokens.size() * 4, cudaMemcpyDeviceToHost));
  const bool costly = (test.wanted & kCudaWantOnDemand) != 0;
  std::vector<GpuTruth> truths(checked);
  std::atomic<size_t> next{0};
  std::vector<std::thread> workers;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    workers.emplace_back([&] {
      for (size_t i; (i = next++) < checked;) {
        truths[i] = TruthOfRow(train[i], infer[i], test.temperature, tokens[i], costly);
      }
    });
  }
  for (std::thread& worker : workers) worker.join();

  double worst_kl = 0, worst_tv = 0, worst_entropy = 0, least_kl = 1e300;
  for (size_t i = 0; i < checked; ++i) {
    const GpuTruth& truth = truths[i];
    for (int value = 0; value < kCudaValues; ++value) {
      const bool lists = (test.wanted & (kCudaWantTopK | kCudaWantOnDemand)) != 0;
      if (!costly && value >= kCudaJs) continue;
      if (!lists && (value == kCudaTop5Overlap || value == kCudaTop10Overlap)) continue;
      if ((test.wanted & (kCudaWantReverseChi2 | kCudaWantOnDemand)) == 0 &&
          value == kCudaReverseChi2) {
        continue;
      }
      ExpectValue(test.name, out, i, value, truth);
    }
    Expect(out.argmax[i] == truth.argmax[0] && out.argmax[out.status.size() + i] == truth.argmax[1],
           std::string(test.name) + ": argmax");
    const auto error = [&](int value) {
      const double want = truth.values[static_cast<size_t>(value)];
      return want == 0 ? 0 : std::fabs(out.At(value, i) - want) / want;
    };
    if (truth.values[kCudaKl] >= 1e-9) worst_kl = std::max(worst_kl, error(kCudaKl));
    if (truth.values[kCudaTv] >= 1e-6) worst_tv = std::max(worst_tv, error(kCudaTv));
    worst_entropy = std::max(worst_entropy, error(kCudaEntropy));
    least_kl = std::min(least_kl, truth.values[kCudaKl]);
  }
  size_t careful = 0;
  for (const int32_t status : out.status) careful += status != kCudaRowFast ? 1 : 0;
  std::printf(
      "%-34s rows %5zu, careful %4zu, least KL %.1e, errors: KL %.1e TV %.1e entropy %.1e\n",
      test.name, out.status.size(), careful, least_kl, worst_kl, worst_tv, worst_entropy);
  Expect(careful <= test.careful_most, std::string(test.name) + ": too many rows in double");
}

std::vector<Case> Cases(bool small) {
  const auto recipe = [](double sigma, double shift = 0, double offset = 0, double sharpen = 1,
                         double peak = 0, double stretch = 0) {
    LogitRecipe r;
    r.sigma = sigma, r.shift = shift, r.offset = offset, r.sharpen = sharpen, r.peak = peak;
    r.stretch = stretch;
    return r;
  };
  constexpr DType kB = DType::kBF16, kH = DType::kF16, kF = DType::kF32;
  constexpr unsigned kLists = kCudaWantTopK | kCudaWantReverseChi2;
  if (small) {
    return {{"BF16 V=8448", kB, 40, 8448, 8448, recipe(0.01)},
            {"BF16 V=32000", kB, 40, 32000, 32000, recipe(0.1)},
            {"BF16 odd V", kB, 20, 9001, 9001, recipe(0.01)},
            {"F32", kF, 20, 12345, 12352, recipe(0.01)},
            {"F16", kH, 20, 16384, 16384, recipe(0.01)},
            {"BF16 two blocks", kB, 8, 50432, 50432, recipe(0.01)},
            {"BF16 two blocks shift 3", kB, 24, 50000, 50000, recipe(0.01, 3)},
            {"F32 two blocks", kF, 4, 32768, 32768, recipe(0.01)},
            {"F8", DType::kF8E4M3, 8, 16384, 16384, recipe(0.2)},
            {"careful, V=100", kB, 5, 100, 100, recipe(0.01)},
            {"on demand", kB, 3, 9000, 9000, recipe(0.1), 1, kCudaWantOnDemand}};
  }
  return {
      {"BF16 V=128256 sigma 0.01", kB, 4096, 128256, 128256, recipe(0.01)},
      {"BF16 V=128256 sigma 0.001", kB, 256, 128256, 128256, recipe(0.001)},
      {"BF16 V=128256 sigma 0.1", kB, 256, 128256, 128256, recipe(0.1)},
      {"BF16 V=128256 sigma 1", kB, 256, 128256, 128256, recipe(1)},
      {"BF16 V=128256 sigma 3", kB, 256, 128256, 128256, recipe(3)},
      {"BF16 V=128256 shift 3", kB, 256, 128256, 128256, recipe(0.01, 3)},
      {"BF16 V=128256 sharpen 3", kB, 256, 128256, 128256, recipe(0.05, 0, 0, 3)},
      {"BF16 V=128256 no lists", kB, 256, 128256, 128256, recipe(0.01), 1, 0},
      {"BF16 V=128256 tau 0.6", kB, 256, 128256, 128256, recipe(0.05), 0.6, kLists},
      {"BF16 V=128256 tau 0.1", kB, 128, 128256, 128256, recipe(0.01), 0.1, kLists},
      {"BF16 V=128256 stretch 0.01", kB, 256, 128256, 128256, recipe(0.01, 0, 0, 1, 0, 0.01)},
      {"F16 V=128256 stretch -0.01", kH, 256, 128256, 128256, recipe(0.003, 0, 0, 1, 0, -0.01)},
      {"F32 V=128256 stretch -0.014", kF, 256, 128256, 128256, recipe(0.003, 0, 0, 1, 0, -0.014)},
      {"F32 V=128256 stretch 0.003", kF, 256, 128256, 128256, recipe(0.003, 0, 0, 1, 0, 0.003)},
      {"F32 peak 100", kF, 64, 128256, 128256, recipe(0.01, 0, 0, 1, 100)},
      {"BF16 V=32000", kB, 256, 32000, 32000, recipe(0.02)},
      {"BF16 V=49152, two empty pieces", kB, 64, 49152, 49152, recipe(0.02)},
      {"BF16 V=151936 padded stride", kB, 256, 151936, 152064, recipe(0.02)},
      {"BF16 V=262144", kB, 256, 262144, 262144, recipe(0.02)},
      {"BF16 V=50257 unaligned", kB, 64, 50257, 50257, recipe(0.02)},
      {"BF16 V=129000 odd end", kB, 64, 129001, 129008, recipe(0.02)},
      {"F16 V=128256", kH, 256, 128256, 128256, recipe(0.01)},
      {"F32 V=128256 sigma 1e-2", kF, 256, 128256, 128256, recipe(0.01)},
      {"F32 V=128256 sigma 1e-4", kF, 256, 128256, 128256, recipe(1e-4)},
      {"F32 V=128256 sigma 3e-5 shift -7", kF, 256, 128256, 128256, recipe(1e-3, -7)},
      {"F32 offset 1000 shift 100", kF, 64, 128256, 128256, recipe(0.01, 100, 1000)},
      // Most lanes' weights are subnormal or nothing.
      {"F32 peak 20 tau 0.25", kF, 64, 128256, 128256, recipe(1e-3, 0, 0, 1, 20), 0.25, kLists, 16},
      {"F32 peak 24", kF, 64, 128256, 128256, recipe(0.01, 0, 0, 1, 24)},
      {"F32 peak 32", kF, 64, 128256, 128256, recipe(0.01, 0, 0, 1, 32)},
      {"F32 peak 40", kF, 64, 128256, 128256, recipe(0.01, 0, 0, 1, 40)},
      {"BF16 peak 24", kB, 64, 128256, 128256, recipe(0.02, 0, 0, 1, 24)},
      {"F8_E4M3 V=128256", DType::kF8E4M3, 64, 128256, 128256, recipe(0.2)},
      {"F8_E5M2 V=128256", DType::kF8E5M2, 64, 128256, 128256, recipe(0.2)},
      {"V=5000 in double", kB, 16, 5000, 5000, recipe(0.02)},
      {"V=7 in double", kF, 16, 7, 7, recipe(0.02)},
      {"on demand", kB, 16, 32000, 32000, recipe(0.1), 1, kCudaWantOnDemand},
  };
}

// Rows of several kinds in one tensor; the result of a row must not depend on its company.
void CheckBits(bool small, int runs) {
  const int64_t rows = small ? 24 : 300;
  const int64_t vocab = small ? 9000 : 128256;
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    DriftProblem problem(dtype, rows, vocab, vocab, kCudaWantTopK | kCudaWantReverseChi2);
    LogitRecipe recipe;
    recipe.sigma = 0.02;
    problem.Fill(recipe);
    const auto row_bytes = static_cast<size_t>(vocab) * DTypeBits(dtype) / 8;
    const Outputs first = Run(&problem);
    int differing = 0;
    for (int run = 1; run < runs; ++run) differing += Run(&problem) == first ? 0 : 1;
    Expect(differing == 0, std::to_string(differing) + " of the repeated runs differ");

    std::vector<size_t> order(static_cast<size_t>(rows));
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::mt19937 random(7);
    std::shuffle(order.begin(), order.end(), random);
    DriftProblem shuffled(dtype, rows, vocab, vocab, kCudaWantTopK | kCudaWantReverseChi2);
    shuffled.Fill(recipe);
    for (size_t i = 0; i < order.size(); ++i) {
      for (const auto& [to, from] :
           {std::pair(shuffled.train, problem.train), std::pair(shuffled.infer, problem.infer)}) {
        KCC_CUDA(cudaMemcpy(static_cast<char*>(to) + i * row_bytes,
                            static_cast<char*>(from) + order[i] * row_bytes, row_bytes,
                            cudaMemcpyDeviceToDevice));
      }
      KCC_CUDA(
          cudaMemcpy(shuffled.tokens + i, problem.tokens + order[i], 4, cudaMemcpyDeviceToDevice));
    }
    const Outputs mixed = Run(&shuffled);
    size_t moved = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      for (int value = 0; value < kCudaValues; ++value) {
        const double a = mixed.At(value, i);
        const double b = first.At(value, order[i]);
        moved += std::memcmp(&a, &b, 8) != 0 ? 1 : 0;
      }
    }
    Expect(moved == 0, std::to_string(moved) + " values depend on the order of rows");

    // In splits of uneven size.
    size_t split_differs = 0;
    int64_t begin = 0;
    for (int64_t part = 1; begin < rows; part = part * 3 + 1) {
      const int64_t count = std::min(part, rows - begin);
      CudaDriftArgs args = problem.args;
      args.rows = count;
      args.train.data = static_cast<char*>(problem.train) + static_cast<size_t>(begin) * row_bytes;
      args.infer.data = static_cast<char*>(problem.infer) + static_cast<size_t>(begin) * row_bytes;
      args.tokens = problem.tokens + begin;
      Expect(MeasureDriftCuda(args) == nullptr, "a split is refused");
      KCC_CUDA(cudaDeviceSynchronize());
      const Outputs part_out = Download(args);
      for (int64_t i = 0; i < count; ++i) {
        for (int value = 0; value < kCudaValues; ++value) {
          const double a = part_out.At(value, static_cast<size_t>(i));
          const double b = first.At(value, static_cast<size_t>(begin + i));
          split_differs += std::memcmp(&a, &b, 8) != 0 ? 1 : 0;
        }
      }
      begin += count;
    }
    Expect(split_differs == 0, std::to_string(split_differs) + " values depend on the split");
    std::printf("%s: bits over %d runs, a shuffle and uneven splits compared\n",
                dtype == DType::kF32 ? "F32" : "BF16", runs);
  }
}

// One kernel with cuts of different sizes, by turns.
void CheckCuts() {
  LogitRecipe recipe;
  DriftProblem large(DType::kF32, 4, 65536, 65536, 0);
  DriftProblem little(DType::kF32, 4, 9000, 9000, 0);
  large.Fill(recipe);
  little.Fill(recipe);
  const Outputs first = Run(&large);
  Run(&little);
  Expect(Run(&large) == first, "a cut of another size before it changes a row");
  std::printf("cuts of different sizes by turns\n");
}

void CheckIdentical(bool small) {
  for (const DType dtype : {DType::kBF16, DType::kF32, DType::kF16}) {
    DriftProblem problem(dtype, 32, small ? 9000 : 128256, small ? 9000 : 128256,
                         kCudaWantTopK | kCudaWantReverseChi2);
    problem.Fill(LogitRecipe());
    problem.args.infer.data = problem.train;
    const Outputs out = Run(&problem);
    for (size_t i = 0; i < 32; ++i) {
      for (const int value :
           {kCudaKl, kCudaReverseKl, kCudaTv, kCudaChi2, kCudaReverseChi2, kCudaSpan, kCudaLinf,
            kCudaL2, kCudaRawLinf, kCudaRawL2, kCudaEntropyGap, kCudaLogRatio}) {
        Expect(out.At(value, i) == 0, std::string("identical tensors: ") + CudaValueName(value));
      }
      for (const int value : {kCudaTop1Overlap, kCudaTop5Overlap, kCudaTop10Overlap}) {
        Expect(out.At(value, i) == 1, std::string("identical tensors: ") + CudaValueName(value));
      }
      Expect(out.status[i] == kCudaRowFast, "identical tensors need no double");
    }
  }
  std::printf("identical tensors: exactly 0\n");
}

// NaN, infinities, masks and equal logits, each in one row of an otherwise ordinary tensor.
void CheckStrange() {
  const int64_t vocab = 9000;
  DriftProblem problem(DType::kF32, 10, vocab, vocab, kCudaWantTopK | kCudaWantReverseChi2);
  problem.Fill(LogitRecipe());
  const auto put = [&](void* side, int64_t row, int64_t at, float value) {
    KCC_CUDA(cudaMemcpy(static_cast<float*>(side) + row * vocab + at, &value, 4,
                        cudaMemcpyHostToDevice));
  };
  const float inf = std::numeric_limits<float>::infinity();
  put(problem.train, 1, 17, std::nanf(""));
  put(problem.infer, 2, 4242, inf);
  put(problem.train, 3, 8999, -inf);
  put(problem.infer, 3, 8999, -inf);
  put(problem.infer, 4, 5, -inf);
  const std::vector<float> flat(static_cast<size_t>(vocab), 2.5f);
  for (void* side : {problem.train, problem.infer}) {
    KCC_CUDA(cudaMemcpy(static_cast<float*>(side) + 5 * vocab, flat.data(), flat.size() * 4,
                        cudaMemcpyHostToDevice));
  }
  // A NaN that sorts below all else, in the tile of the largest entry but another lane of it.
  put(problem.train, 8, 3000, 50.0f);
  put(problem.train, 8, 3008, -std::nanf(""));
  // Its product with log2(e) is more than 64 off when it is rounded.
  put(problem.train, 9, 3000, 2164260864.0f);
  put(problem.infer, 9, 3000, 2164260864.0f);
  const int32_t outside = static_cast<int32_t>(vocab);
  KCC_CUDA(cudaMemcpy(problem.tokens + 6, &outside, 4, cudaMemcpyHostToDevice));
  const Outputs out = Run(&problem);
  Expect(out.status[0] == kCudaRowFast && out.status[7] == kCudaRowFast, "ordinary rows are fast");
  Expect(out.status[1] == kCudaRowBadTrain && std::isnan(out.At(kCudaKl, 1)), "NaN is refused");
  Expect(out.status[2] == kCudaRowBadInfer, "+inf is refused");
  Expect(out.status[3] == kCudaRowCareful && std::isfinite(out.At(kCudaKl, 3)),
         "a mask is no value");
  Expect(std::isinf(out.At(kCudaKl, 4)) && std::isfinite(out.At(kCudaReverseKl, 4)),
         "-inf on the infer side makes kl infinite");
  Expect(out.At(kCudaKl, 5) == 0 && out.At(kCudaTop10Overlap, 5) == 1 && out.argmax[5] == 0 &&
             std::fabs(out.At(kCudaEntropy, 5) - std::log(9000.0)) < 1e-12,
         "equal logits");
  Expect(out.status[6] == kCudaRowBadToken, "a token outside the vocabulary is said");
  Expect(out.status[8] == kCudaRowBadTrain, "a NaN with its sign set is refused");
  Expect(out.status[9] == kCudaRowCareful && std::fabs(out.At(kCudaKl, 9)) < 1e-12,
         "a huge logit is measured in double");
  std::printf("NaN, infinities, masks, equal logits, huge ones, a stray token\n");
}

// Loads all over `memory`, no two of a warp in one line: they keep those from shared memory, which
// go the same way, waiting longest.
__global__ void __launch_bounds__(32, 32)
    Disturb(const int* memory, unsigned count, int rounds, int* sink) {
  constexpr unsigned kAtOnce = 8;
  unsigned at = blockIdx.x * 977 + threadIdx.x * 131;
  int sum = 0;
  for (int i = 0; i < rounds; ++i) {
    int word[kAtOnce];
#pragma unroll
    for (unsigned k = 0; k < kAtOnce; ++k) {
      const int* const from = memory + (at + k * 2621504u) % count;
      asm volatile("ld.global.ca.s32 %0, [%1];" : "=r"(word[k]) : "l"(from));
    }
#pragma unroll
    for (const int each : word) sum ^= each;
    at = (at * 1664525u + 1013904223u) % count;
  }
  if (sum == INT_MIN) *sink = sum;
}

// The same bits while another kernel comes to the multiprocessors that a measurement leaves.
void CheckBesideOthers(bool small) {
  DriftProblem problem(DType::kBF16, small ? 160 : 2048, 128256, 128256, 0);
  problem.Fill(LogitRecipe());
  const Outputs alone = Run(&problem);
  cudaDeviceProp device;
  KCC_CUDA(cudaGetDeviceProperties(&device, 0));
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) {
    KCC_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  problem.args.stream = streams[0];
  int* sink = nullptr;
  KCC_CUDA(cudaMalloc(&sink, 4));
  for (const int blocks : {1, 4, 16}) {
    for (int run = 0; run < (small ? 1 : 5); ++run) {
      SpoilOutputs(problem.args);
      problem.Measure();
      Disturb<<<static_cast<unsigned>(blocks * device.multiProcessorCount), 32, 0, streams[1]>>>(
          static_cast<const int*>(problem.train), small ? 1u << 23 : 1u << 26, small ? 8 : 600,
          sink);
      KCC_CUDA(cudaDeviceSynchronize());
      Expect(Download(problem.args) == alone, "other bits beside another kernel");
    }
  }
  for (const cudaStream_t stream : streams) cudaStreamDestroy(stream);
  cudaFree(sink);
  std::printf("the same bits beside another kernel\n");
}

// Sums, exceedances and histogram against the CPU's exact sum and a plain count.
void CheckSummary() {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::vector<double> values(50000);
  for (double& v : values) v = normal(random) * std::exp2(static_cast<double>(random() % 60) - 40);
  values[5] = 0, values[6] = -0.0, values[7] = std::numeric_limits<double>::infinity();
  values[8] = 1e-3, values[9] = std::nan(""), values[10] = 5e-324, values[11] = -1e308;
  const std::vector<double> thresholds = {-1, 0, 1e-3, 2};
  ExactSum sum;
  ExactProductSum squares;
  uint64_t above[4] = {}, at[4] = {};
  for (const double v : values) {
    if (std::isnan(v)) continue;
    if (std::isfinite(v)) sum.Add(v), squares.AddProduct(v, v);
    for (size_t k = 0; k < 4; ++k) above[k] += v > thresholds[k], at[k] += v == thresholds[k];
  }
  double *device_values = nullptr, *device_thresholds = nullptr;
  CudaSummary* device_summary = nullptr;
  uint32_t* scratch = nullptr;
  CudaBucket* buckets = nullptr;
  KCC_CUDA(cudaMalloc(&device_values, values.size() * 8));
  KCC_CUDA(cudaMalloc(&device_thresholds, 32));
  KCC_CUDA(cudaMalloc(&device_summary, sizeof(CudaSummary)));
  KCC_CUDA(cudaMalloc(&scratch, kCudaBuckets * 4));
  KCC_CUDA(cudaMalloc(&buckets, 65536 * sizeof(CudaBucket)));
  KCC_CUDA(cudaMemcpy(device_values, values.data(), values.size() * 8, cudaMemcpyHostToDevice));
  KCC_CUDA(cudaMemcpy(device_thresholds, thresholds.data(), 32, cudaMemcpyHostToDevice));
  Expect(SummarizeCuda(device_values, static_cast<int64_t>(values.size()), device_thresholds, 4,
                       device_summary, scratch, buckets, 65536, nullptr) == nullptr,
         "the summary is refused");
  CudaSummary got;
  KCC_CUDA(cudaMemcpy(&got, device_summary, sizeof got, cudaMemcpyDeviceToHost));
  Expect(CanonicalFromChunks(got.sum) == sum.Canonical(), "the exact sum differs from the CPU's");
  Expect(CanonicalFromChunks(got.squares) == squares.Canonical(), "the exact squares differ");
  Expect(got.count == values.size() - 1 && got.nan == 1 && got.zeros == 2 && got.plus_infinite == 1,
         "counts");
  for (size_t k = 0; k < 4; ++k) {
    uint64_t beyond = 0;
    for (size_t j = 2 * k + 2; j <= 8; ++j) beyond += got.intervals[j];
    Expect(beyond == above[k] && got.intervals[2 * k + 1] == at[k], "exceedances");
  }
  Expect(CudaSummaryMin(got) == -1e308 && std::isinf(CudaSummaryMax(got)), "extremes");
  std::vector<CudaBucket> list(got.buckets);
  KCC_CUDA(
      cudaMemcpy(list.data(), buckets, list.size() * sizeof(CudaBucket), cudaMemcpyDeviceToHost));
  uint64_t counted = 0;
  for (const CudaBucket& bucket : list) counted += bucket.count;
  Expect(counted == got.count, "the histogram counts every value once");
  for (void* each : {static_cast<void*>(device_values), static_cast<void*>(device_thresholds),
                     static_cast<void*>(device_summary), static_cast<void*>(scratch),
                     static_cast<void*>(buckets)}) {
    cudaFree(each);
  }
  std::printf("summary: exact sums, exceedances, histogram\n");
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  bool small = false;
  int runs = 100;
  int64_t masks = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--small") == 0) small = true;
    if (std::strcmp(argv[i], "--runs") == 0 && i + 1 < argc) runs = std::atoi(argv[++i]);
    if (std::strcmp(argv[i], "--masks") == 0 && i + 1 < argc) masks = std::atoll(argv[++i]);
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: 9 GPU checks, since this machine has no CUDA device\n");
    return 77;
  }
  for (const kcc::Case& test : kcc::Cases(small)) kcc::CheckCase(test, small ? 4 : 16);
  kcc::CheckBits(small, small ? 3 : runs);
  kcc::CheckCuts();
  kcc::CheckIdentical(small);
  kcc::CheckStrange();
  kcc::CheckMasks(small);
  kcc::CheckMaskedRows(masks > 0 ? masks : small ? 50 : 20000);
  kcc::CheckBesideOthers(small);
  kcc::CheckSummary();
  std::printf("%d failures\n", kcc::g_failures);
  return kcc::g_failures == 0 ? 0 : 1;
}
