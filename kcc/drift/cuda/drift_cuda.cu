// Launches of the CUDA backend: which kernel, cut how, in which order.
//
// Rows go in batches of kBatchRows, so that the workspace does not grow with them. The cut of a row
// (warps) depends on vocabulary, format and device alone, never on the number of
// rows: the bits of a row are the same in every batch.
#include "kcc/drift/cuda/drift_cuda.h"

#include <algorithm>
#include <cmath>

#include "kcc/drift/cuda/row_careful.cuh"
#include "kcc/drift/cuda/row_end.cuh"
#include "kcc/drift/cuda/row_gather.cuh"
#include "kcc/drift/cuda/row_sums.cuh"

namespace kcc {
namespace {

constexpr int64_t kBatchRows = 4096;
constexpr int kCarefulBlocks = 528;  // a multiple of kCarefulCluster
constexpr double kLog2e = 1.4426950408889634;

struct Layout {
  size_t parts = 0, tops = 0, heads = 0, ends = 0, careful = 0, bytes = 0;
};

Layout LayoutFor(int64_t rows, int warps) {
  const auto batch = static_cast<size_t>(std::min(rows, kBatchRows));
  Layout layout;
  const auto take = [&](size_t bytes) {
    const size_t at = layout.bytes;
    layout.bytes += (bytes + 255) / 256 * 256;
    return at;
  };
  layout.careful = take((batch + 1) * sizeof(int32_t));
  layout.parts = take(batch * static_cast<size_t>(warps) * sizeof(WarpPart));
  layout.tops = take(batch * static_cast<size_t>(warps) * 32 * sizeof(int2));
  layout.heads = take(batch * sizeof(RowHead));
  layout.ends = take(batch * sizeof(EndRow));
  return layout;
}

bool IsLogitDType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
}

bool IsAligned(const CudaLogits& logits) {
  const auto address = reinterpret_cast<uintptr_t>(logits.data);
  const int64_t stride = logits.row_stride * static_cast<int64_t>(DTypeBits(logits.dtype)) / 8;
  return address % 16 == 0 && stride % 16 == 0;
}

using SumsKernel = void (*)(SumsArgs);

using GatherKernel = void (*)(EndArgs);

struct Kernels {
  SumsKernel sums;
  GatherKernel gather;
};

template <class T>
Kernels KernelsFor(bool aligned, bool square) {
  // FP8 and rows that start anywhere have the one kernel, to keep the library small.
  constexpr bool kLean = sizeof(T) == 1;
  const SumsKernel sums = !aligned ? &RowSumsKernel<T, false, true>
                          : square ? &RowSumsKernel<T, true, true>
                                   : &RowSumsKernel<T, true, kLean>;
  return {sums, &RowGatherKernel<T>};
}

Kernels KernelsFor(DType dtype, bool aligned, bool square) {
  switch (dtype) {
#ifndef KCC_CUDA_ONLY_BF16
    case DType::kF16:
      return KernelsFor<__half>(aligned, square);
    case DType::kF8E4M3:
      return KernelsFor<__nv_fp8_e4m3>(aligned, square);
    case DType::kF8E5M2:
      return KernelsFor<__nv_fp8_e5m2>(aligned, square);
    case DType::kF32:
      return KernelsFor<float>(aligned, square);
#endif
    default:
      return KernelsFor<__nv_bfloat16>(aligned, square);
  }
}

struct Device {
  int multiprocessors = 0;
  int major = 0;
  int shared_per_sm = 0;
};

Device CurrentDevice() {
  int id = 0;
  Device device;
  if (cudaGetDevice(&id) != cudaSuccess) return device;
  cudaDeviceGetAttribute(&device.multiprocessors, cudaDevAttrMultiProcessorCount, id);
  cudaDeviceGetAttribute(&device.major, cudaDevAttrComputeCapabilityMajor, id);
  cudaDeviceGetAttribute(&device.shared_per_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, id);
  return device;
}

// The warps of a block: of the sizes that fill a multiprocessor evenly the largest whose last round
// of tiles is nearly full.
int ChooseWarps(int64_t tiles, int most) {
  int best = 0;
  double best_fill = 0;
  for (const int warps : {most, most / 2, most / 4}) {
    const int64_t rounds = (tiles + warps - 1) / warps;
    const double fill = static_cast<double>(tiles) / static_cast<double>(rounds * warps);
    if (fill >= 0.95) return warps;
    if (fill > best_fill) best = warps, best_fill = fill;
  }
  return best;
}

struct Launch {
  CudaPlan plan;
  Kernels kernels = {};
  int tiles = 0;
  size_t shared = 0;
  bool has_clusters = false;
};

// warps == 0: not for the fast kernel.
Launch LaunchFor(const CudaDriftArgs& args) {
  Launch launch;
  const Device device = CurrentDevice();
  launch.has_clusters = device.major >= 9;
  const bool costly = (args.wanted & kCudaWantOnDemand) != 0;
  if (device.major < 8 || args.train.dtype != args.infer.dtype || costly) return launch;
  const int64_t tiles = (args.vocab + kTileEntries - 1) / kTileEntries;
  if (tiles < 32) return launch;  // too few threads to rank, and too little to share
  launch.tiles = static_cast<int>(tiles);
  launch.kernels = KernelsFor(args.train.dtype, IsAligned(args.train) && IsAligned(args.infer),
                              (args.wanted & kCudaWantReverseChi2) != 0);
  CudaPlan& plan = launch.plan;
  const int most = args.train.dtype == DType::kF32 ? kWarpsMaxF32 : kWarpsMax;
  plan.warps = ChooseWarps(tiles, most);
  const int per_multiprocessor = most / plan.warps;
  plan.blocks = device.multiprocessors * per_multiprocessor;
  constexpr size_t kSmall = (sizeof(SumsShared) + 127) / 128 * 128;
  const size_t room =
      static_cast<size_t>(device.shared_per_sm) / static_cast<size_t>(per_multiprocessor) - 1024;
  const size_t round =
      static_cast<size_t>(plan.warps) * 64 *
      (args.train.dtype == DType::kF32 ? sizeof(LaneLogits<float>) : sizeof(LaneLogits<__half>));
  const auto rounds = static_cast<size_t>((tiles + plan.warps - 1) / plan.warps);
  plan.kept = static_cast<int>(std::min(rounds, (room - kSmall) / round));
  launch.shared = kSmall + static_cast<size_t>(plan.kept) * round;
  cudaFuncSetAttribute(reinterpret_cast<const void*>(launch.kernels.sums),
                       cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(launch.shared));
  return launch;
}

RowArgs RowArgsOf(const CudaDriftArgs& args, int32_t* careful_rows) {
  RowArgs row = {};
  row.train = args.train.data;
  row.infer = args.infer.data;
  row.train_stride = args.train.row_stride;
  row.infer_stride = args.infer.row_stride;
  row.train_dtype = static_cast<int>(args.train.dtype);
  row.infer_dtype = static_cast<int>(args.infer.dtype);
  row.vocab = args.vocab;
  row.rows = args.rows;
  row.tau = args.temperature;
  row.tokens = args.tokens;
  row.wanted = args.wanted;
  row.values = args.values;
  row.value_stride = args.rows;
  row.argmax = args.argmax;
  row.status = args.status;
  row.careful_rows = careful_rows;
  return row;
}

class Batches {
 public:
  Batches(const CudaDriftArgs& args, const Launch& launch)
      : args_(args),
        launch_(launch),
        stream_(static_cast<cudaStream_t>(args.stream)),
        layout_(LayoutFor(args.rows, launch.plan.warps)) {}

  cudaError_t Measure(int64_t first, int64_t count) {
    const RowArgs row = RowArgsOf(args_, At<int32_t>(layout_.careful));
    if (launch_.plan.warps == 0) return MeasureCarefully(row, first, count, true);
    cudaMemsetAsync(row.careful_rows, 0, sizeof(int32_t), stream_);
    const SumsArgs sums = SumsOf(first, count);
    const auto sums_blocks = static_cast<unsigned>(std::min<int64_t>(launch_.plan.blocks, count));
    launch_.kernels
        .sums<<<sums_blocks, static_cast<unsigned>(sums.warps) * 32, launch_.shared, stream_>>>(
            sums);
    EndArgs end = {};
    end.row = row;
    end.sums = sums;
    end.rows = At<EndRow>(layout_.ends);
    end.first_row = first;
    end.count = count;
    end.top_rank = (args_.wanted & kCudaWantTopK) != 0 ? 9 : 1;
    const auto end_blocks = static_cast<unsigned>((count + kGatherWarps - 1) / kGatherWarps);
    launch_.kernels.gather<<<end_blocks, kGatherWarps * 32, 0, stream_>>>(end);
    const auto solve_blocks = static_cast<unsigned>((count + kSolveThreads - 1) / kSolveThreads);
    RowSolveKernel<<<solve_blocks, kSolveThreads, 0, stream_>>>(end);
    return MeasureCarefully(row, first, count, false);
  }

 private:
  template <class T>
  T* At(size_t offset) const {
    return reinterpret_cast<T*>(static_cast<char*>(args_.workspace) + offset);
  }

  // The rows that were left over, or all of them.
  cudaError_t MeasureCarefully(const RowArgs& row, int64_t first, int64_t count, bool all) const {
    // Few rows are soonest done by many blocks each; many rows, by one.
    const bool clusters = launch_.has_clusters && !all;
    const int cluster = clusters ? kCarefulCluster : 1;
    cudaLaunchConfig_t config = {};
    config.gridDim =
        dim3(static_cast<unsigned>(std::min<int64_t>(count * cluster, kCarefulBlocks)));
    config.blockDim = dim3(kCarefulThreads);
    config.stream = stream_;
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    config.attrs = &attribute;
    config.numAttrs = clusters ? 1 : 0;
    const cudaError_t error = cudaLaunchKernelEx(&config, CarefulKernel, row, first, count, all);
    return error != cudaSuccess ? error : cudaGetLastError();
  }

  SumsArgs SumsOf(int64_t first, int64_t count) const {
    const auto bytes = static_cast<int64_t>(DTypeBits(args_.train.dtype) / 8);
    SumsArgs sums = {};
    sums.train_stride = args_.train.row_stride * bytes;
    sums.infer_stride = args_.infer.row_stride * bytes;
    sums.train = static_cast<const char*>(args_.train.data) + first * sums.train_stride;
    sums.infer = static_cast<const char*>(args_.infer.data) + first * sums.infer_stride;
    sums.rows = count;
    sums.vocab = static_cast<int>(args_.vocab);
    sums.tiles = launch_.tiles;
    sums.warps = launch_.plan.warps;
    sums.kept = launch_.plan.kept;
    sums.aligned = IsAligned(args_.train) && IsAligned(args_.infer);
    sums.scale = static_cast<float>(kLog2e / args_.temperature);
    sums.inverse_tau = static_cast<float>(1 / args_.temperature);
    sums.tau = static_cast<float>(args_.temperature);
    sums.parts = At<WarpPart>(layout_.parts);
    sums.tops = At<int2>(layout_.tops);
    sums.heads = At<RowHead>(layout_.heads);
    return sums;
  }

  const CudaDriftArgs& args_;
  const Launch& launch_;
  const cudaStream_t stream_;
  const Layout layout_;
};

}  // namespace

const char* CudaValueName(int value) {
  static const char* const kNames[kCudaValues] = {"logit_span",
                                                  "logit_linf",
                                                  "logit_l2",
                                                  "raw_logit_linf",
                                                  "raw_logit_l2",
                                                  "kl",
                                                  "reverse_kl",
                                                  "tv",
                                                  "chi2",
                                                  "reverse_chi2",
                                                  "entropy",
                                                  "train_entropy",
                                                  "entropy_gap",
                                                  "margin",
                                                  "train_margin",
                                                  "top1_overlap",
                                                  "top5_overlap",
                                                  "top10_overlap",
                                                  "log_ratio",
                                                  "logprob",
                                                  "train_logprob",
                                                  "confidence",
                                                  "train_confidence",
                                                  "js",
                                                  "hellinger",
                                                  "rank",
                                                  "train_rank"};
  return value >= 0 && value < kCudaValues ? kNames[value] : nullptr;
}

const char* CheckCudaDrift(const CudaDriftArgs& args) {
  if (args.rows < 0) return "the number of rows is negative";
  if (args.vocab <= 0) return "the vocabulary is empty: no logits to compare";
  if (args.vocab > INT_MAX - kTileEntries) return "the vocabulary has more than 2^31 entries";
  for (const CudaLogits* side : {&args.train, &args.infer}) {
    if (!IsLogitDType(side->dtype)) return "logits must be BF16, F16, F32, F8_E4M3 or F8_E5M2";
    if (side->row_stride < args.vocab) return "a row stride is smaller than the vocabulary";
    if (side->data == nullptr && args.rows > 0) return "a tensor of logits is null";
  }
  if (!(args.temperature > 0) || !std::isfinite(args.temperature)) {
    return "the temperature is not a positive number";
  }
  if (args.rows > 0 && (args.values == nullptr || args.status == nullptr)) {
    return "values and status need memory on the device";
  }
  return nullptr;
}

CudaPlan PlanCudaDrift(const CudaDriftArgs& args) { return LaunchFor(args).plan; }

size_t CudaDriftWorkspaceBytes(const CudaDriftArgs& args) {
  return LayoutFor(args.rows, LaunchFor(args).plan.warps).bytes;
}

const char* MeasureDriftCuda(const CudaDriftArgs& args) {
  if (const char* problem = CheckCudaDrift(args)) return problem;
  if (args.rows == 0) return nullptr;
  const Launch launch = LaunchFor(args);
  if (args.workspace_bytes < LayoutFor(args.rows, launch.plan.warps).bytes) {
    return "the workspace is smaller than CudaDriftWorkspaceBytes asks for";
  }
  Batches batches(args, launch);
  for (int64_t first = 0; first < args.rows; first += kBatchRows) {
    const cudaError_t error = batches.Measure(first, std::min(kBatchRows, args.rows - first));
    if (error != cudaSuccess) return cudaGetErrorString(error);
  }
  return nullptr;
}

}  // namespace kcc
