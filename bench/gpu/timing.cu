// Times of the CUDA backend beside the memory's own speed: medians of device events after warm-up.
//
//   gpu_timing [--quick] [--json FILE]
//
// The floor is one read of both tensors at the speed that a plain reading kernel reaches here.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "bench/gpu/logits.cuh"

namespace kcc {
namespace {

double MedianMs(int runs, const std::function<void()>& work) {
  cudaEvent_t begin, end;
  KCC_CUDA(cudaEventCreate(&begin));
  KCC_CUDA(cudaEventCreate(&end));
  for (int i = 0; i < 3; ++i) work();
  std::vector<float> times;
  for (int i = 0; i < runs; ++i) {
    KCC_CUDA(cudaEventRecord(begin));
    work();
    KCC_CUDA(cudaEventRecord(end));
    KCC_CUDA(cudaEventSynchronize(end));
    float ms = 0;
    KCC_CUDA(cudaEventElapsedTime(&ms, begin, end));
    times.push_back(ms);
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return static_cast<double>(times[times.size() / 2]);
}

__global__ void __launch_bounds__(512) ReadAll(const uint4* from, size_t count, unsigned* sink) {
  unsigned sum = 0;
  const size_t step = static_cast<size_t>(gridDim.x) * blockDim.x;
  size_t i = static_cast<size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i + 7 * step < count; i += 8 * step) {
    uint4 v[8];
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = __ldcs(&from[i + static_cast<size_t>(k) * step]);
#pragma unroll
    for (int k = 0; k < 8; ++k) sum ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
  }
  for (; i < count; i += step) sum ^= from[i].x;
  if (sum == 0x12345u) *sink = sum;
}

struct Row {
  std::string name;
  double ms;
  double gigabytes;
  CudaPlan plan;
};

std::vector<Row> g_rows;
double g_read_tbs = 0;
double g_copy_tbs = 0;

Row TimeCase(const std::string& name, DType dtype, int64_t rows, int64_t vocab, unsigned wanted,
             double sigma, int runs, double shift = 0, double temperature = 1) {
  DriftProblem problem(dtype, rows, vocab, vocab, wanted, temperature);
  LogitRecipe recipe;
  recipe.sigma = sigma;
  recipe.shift = shift;
  problem.Fill(recipe);
  problem.Measure();
  KCC_CUDA(cudaDeviceSynchronize());
  std::vector<int32_t> status(static_cast<size_t>(rows));
  KCC_CUDA(
      cudaMemcpy(status.data(), problem.args.status, status.size() * 4, cudaMemcpyDeviceToHost));
  const auto careful = std::count_if(status.begin(), status.end(), [](int s) { return s != 0; });
  Row row{name, MedianMs(runs, [&] { problem.Measure(); }),
          2 * static_cast<double>(problem.bytes()) * 1e-9, PlanCudaDrift(problem.args)};
  const double floor = row.gigabytes / g_read_tbs;
  std::printf(
      "%-44s %8.3f ms  %5.2f TB/s  floor %7.3f ms  %5.1f %%  careful %5ld  "
      "warps %d x %d, %d rows\n",
      name.c_str(), row.ms, row.gigabytes / row.ms, floor, 100 * floor / row.ms,
      static_cast<long>(careful), row.plan.warps, row.plan.blocks, row.plan.rows);
  g_rows.push_back(row);
  return row;
}

void MeasureMemory() {
  const size_t bytes = size_t{2} << 30;
  void *a = nullptr, *b = nullptr;
  unsigned* sink = nullptr;
  KCC_CUDA(cudaMalloc(&a, bytes));
  KCC_CUDA(cudaMalloc(&b, bytes));
  KCC_CUDA(cudaMalloc(&sink, 4));
  FillLogits(DType::kF32, a, b, 4096, static_cast<int64_t>(bytes / 4 / 4096),
             static_cast<int64_t>(bytes / 4 / 4096), LogitRecipe());
  const double copy =
      MedianMs(21, [&] { KCC_CUDA(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice)); });
  double read = 1e9;
  for (const unsigned blocks : {264u, 528u, 1056u}) {
    read = std::min(read, MedianMs(21, [&] {
                      ReadAll<<<blocks, 512>>>(static_cast<uint4*>(a), bytes / 16, sink);
                    }));
  }
  g_copy_tbs = 2 * static_cast<double>(bytes) * 1e-9 / copy;
  g_read_tbs = static_cast<double>(bytes) * 1e-9 / read;
  std::printf("copy %.2f TB/s (read + write), read %.2f TB/s\n", g_copy_tbs, g_read_tbs);
  cudaFree(a);
  cudaFree(b);
  cudaFree(sink);
}

void WriteJson(const char* path) {
  std::FILE* file = std::fopen(path, "w");
  if (file == nullptr) return;
  cudaDeviceProp device;
  KCC_CUDA(cudaGetDeviceProperties(&device, 0));
  int driver = 0;
  KCC_CUDA(cudaDriverGetVersion(&driver));
  std::fprintf(file, "{\"device\": \"%s\", \"cuda_driver\": %d, \"copy_tbs\": %.4f, ", device.name,
               driver, g_copy_tbs);
  std::fprintf(file, "\"read_tbs\": %.4f, \"rows\": [", g_read_tbs);
  for (size_t i = 0; i < g_rows.size(); ++i) {
    const Row& row = g_rows[i];
    std::fprintf(file, "%s\n  {\"name\": \"%s\", \"ms\": %.5f, \"gigabytes\": %.5f, ",
                 i == 0 ? "" : ",", row.name.c_str(), row.ms, row.gigabytes);
    std::fprintf(file, "\"floor_ms\": %.5f, \"warps\": %d}", row.gigabytes / g_read_tbs,
                 row.plan.warps);
  }
  std::fprintf(file, "\n]}\n");
  std::fclose(file);
}

void TimeAll(bool quick) {
  constexpr DType kB = DType::kBF16;
  constexpr unsigned kTop = kCudaWantTopK;
  MeasureMemory();
  TimeCase("BF16 T=4096 V=128256", kB, 4096, 128256, 0, 0.01, 31);
  TimeCase("BF16 T=4096 V=128256 top-k", kB, 4096, 128256, kTop, 0.01, 31);
  TimeCase("BF16 T=4096 V=128256 top-k rev_chi2", kB, 4096, 128256, kTop | kCudaWantReverseChi2,
           0.01, 31);
  if (quick) return;
  TimeCase("BF16 T=4096 V=128256 top-k sigma 0.1", kB, 4096, 128256, kTop, 0.1, 21);
  TimeCase("BF16 T=4096 V=128256 top-k sigma 1", kB, 4096, 128256, kTop, 1, 21);
  TimeCase("BF16 T=4096 V=128256 top-k shift 3", kB, 4096, 128256, kTop, 0.01, 21, 3);
  TimeCase("BF16 T=4096 V=128256 top-k tau 0.6", kB, 4096, 128256, kTop, 0.01, 21, 0, 0.6);
  TimeCase("BF16 T=4096 V=128256 on demand", kB, 4096, 128256, kTop | kCudaWantOnDemand, 0.01, 5);
  for (const int64_t vocab : {32000, 50257, 151936, 262144}) {
    TimeCase("BF16 T=4096 V=" + std::to_string(vocab) + " top-k", kB, 4096, vocab, kTop, 0.01, 21);
  }
  for (const int64_t rows : {256, 1024, 16384, 65536}) {
    TimeCase("BF16 T=" + std::to_string(rows) + " V=128256 top-k", kB, rows, 128256, kTop, 0.01,
             rows > 10000 ? 7 : 31);
  }
  TimeCase("F16 T=4096 V=128256", DType::kF16, 4096, 128256, 0, 0.01, 21);
  TimeCase("F16 T=4096 V=128256 top-k", DType::kF16, 4096, 128256, kTop, 0.01, 21);
  TimeCase("F32 T=4096 V=128256", DType::kF32, 4096, 128256, 0, 0.01, 21);
  TimeCase("F32 T=4096 V=128256 top-k", DType::kF32, 4096, 128256, kTop, 0.01, 21);
  TimeCase("F32 T=4096 V=151936 top-k", DType::kF32, 4096, 151936, kTop, 0.01, 21);
  TimeCase("F8_E4M3 T=4096 V=128256 top-k", DType::kF8E4M3, 4096, 128256, kTop, 0.2, 21);
}

}  // namespace
}  // namespace kcc

int main(int argc, char** argv) {
  bool quick = false;
  const char* json = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) quick = true;
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) json = argv[++i];
  }
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: this machine has no CUDA device\n");
    return 77;
  }
  kcc::TimeAll(quick);
  if (json != nullptr) kcc::WriteJson(json);
  return 0;
}
