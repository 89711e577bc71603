// Launches of the CUDA backend: which kernel, cut how, in which order.
//
// Rows go in batches of kBatchRows, so that the workspace does not grow with them. The cut of a row
// (warps, chunks, cluster) depends on vocabulary, format and device alone, never on the number of
// rows: the bits of a row are the same in every batch.
#include "kcc/drift/cuda/drift_cuda.h"

#include <algorithm>
#include <cmath>

#include "kcc/drift/cuda/row_careful.cuh"
#include "kcc/drift/cuda/row_end.cuh"
#include "kcc/drift/cuda/row_sums.cuh"

namespace kcc {
namespace {

constexpr int64_t kBatchRows = 4096;
constexpr int kCarefulBlocks = 528;
constexpr double kLog2e = 1.4426950408889634;

CudaPlan g_forced;  // ForceCudaPlan

struct Layout {
  size_t partials = 0, heads = 0, counts = 0, candidates = 0, careful = 0, bytes = 0;
};

Layout LayoutFor(int64_t rows, int cluster) {
  const auto batch = static_cast<size_t>(std::min(rows, kBatchRows));
  const auto blocks = batch * static_cast<size_t>(cluster);
  Layout layout;
  const auto take = [&](size_t bytes) {
    const size_t at = layout.bytes;
    layout.bytes += (bytes + 255) / 256 * 256;
    return at;
  };
  layout.careful = take((batch + 1) * sizeof(int32_t));
  layout.partials = take(blocks * kPartials * sizeof(double));
  layout.heads = take(batch * sizeof(RowHead));
  layout.counts = take(blocks * sizeof(uint32_t));
  layout.candidates = take(blocks * 2 * kCandidatesMax * sizeof(uint2));
  return layout;
}

bool IsLogitDType(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
}

using SumsKernel = void (*)(SumsArgs, int);

struct Cut {
  int warps, chunks;
  SumsKernel kernel[2];  // without and with reverse_chi2
  size_t shared;
};

template <class T, int kWarps, int kChunks>
Cut CutOf() {
  // FP8 has the one kernel, to keep the library small.
  constexpr bool kLean = sizeof(T) == 1;
  return {kWarps,
          kChunks,
          {&RowSumsKernel<T, kWarps, kChunks, kLean>, &RowSumsKernel<T, kWarps, kChunks, true>},
          (sizeof(SumsShared<kWarps>) + 127) / 128 * 128};
}

template <class T>
Cut CutFor(int warps, int chunks) {
#ifdef KCC_CUDA_VARIANTS
  if (warps == 9) return CutOf<T, 9, 7>();
#endif
  (void)warps, (void)chunks;
  return CutOf<T, 13, 5>();
}

Cut CutFor(DType dtype, int warps, int chunks) {
  switch (dtype) {
    case DType::kBF16:
      return CutFor<__nv_bfloat16>(warps, chunks);
#ifndef KCC_CUDA_ONLY_BF16
    case DType::kF16:
      return CutFor<__half>(warps, chunks);
    case DType::kF8E4M3:
      return CutFor<__nv_fp8_e4m3>(warps, chunks);
    case DType::kF8E5M2:
      return CutFor<__nv_fp8_e5m2>(warps, chunks);
    default:
      return CutFor<float>(warps, chunks);
#else
    default:
      return CutFor<__nv_bfloat16>(warps, chunks);
#endif
  }
}

struct Device {
  int multiprocessors = 0;
  int major = 0;
  int shared_per_sm = 0;
  int shared_per_block = 0;
};

Device CurrentDevice() {
  int id = 0;
  Device device;
  if (cudaGetDevice(&id) != cudaSuccess) return device;
  cudaDeviceGetAttribute(&device.multiprocessors, cudaDevAttrMultiProcessorCount, id);
  cudaDeviceGetAttribute(&device.major, cudaDevAttrComputeCapabilityMajor, id);
  cudaDeviceGetAttribute(&device.shared_per_sm, cudaDevAttrMaxSharedMemoryPerMultiprocessor, id);
  cudaDeviceGetAttribute(&device.shared_per_block, cudaDevAttrMaxSharedMemoryPerBlockOptin, id);
  return device;
}

// The cut of a row into blocks, one a multiprocessor. With those that serve they are 16 warps, four
// a scheduler, which leaves 128 registers a thread: 80 of them hold e and q of 40 entries.
bool ChooseCut(int64_t tiles, int* warps, int* chunks, int* cluster) {
  if (tiles < 32) return false;  // too few groups to rank, and too little to share
  *warps = 13;
  *chunks = 5;
  if (g_forced.warps != 0) {
    *warps = g_forced.warps;
    *chunks = g_forced.chunks;
  }
  const int64_t block = int64_t{*warps} * *chunks;
  for (*cluster = 2; *cluster <= kClusterMax; *cluster *= 2) {
    if (*cluster * block >= tiles) return true;
  }
  return false;
}

struct Launch {
  CudaPlan plan;
  Cut cut;
  size_t shared = 0;
  int block_tiles = 0;
  int tiles = 0;
  int side_bytes = 0;
};

cudaLaunchConfig_t ConfigOf(const Launch& launch, int clusters, cudaStream_t stream,
                            cudaLaunchAttribute* attribute) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(clusters * launch.plan.cluster));
  config.blockDim = dim3(static_cast<unsigned>((launch.plan.warps + kServingWarps) * 32));
  config.dynamicSmemBytes = launch.shared;
  config.stream = stream;
  attribute->id = cudaLaunchAttributeClusterDimension;
  attribute->val.clusterDim.x = static_cast<unsigned>(launch.plan.cluster);
  attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
  config.attrs = attribute;
  config.numAttrs = 1;
  return config;
}

// cluster == 0: not for the fast kernel.
Launch LaunchFor(const CudaDriftArgs& args) {
  Launch launch;
  const Device device = CurrentDevice();
  const bool costly = (args.wanted & kCudaWantOnDemand) != 0;
  if (device.major < 9 || args.train.dtype != args.infer.dtype || costly) return launch;
  const int64_t tiles = (args.vocab + kTileEntries - 1) / kTileEntries;
  CudaPlan plan;
  if (!ChooseCut(tiles, &plan.warps, &plan.chunks, &plan.cluster)) return launch;
  launch.cut = CutFor(args.train.dtype, plan.warps, plan.chunks);
  launch.tiles = static_cast<int>(tiles);
  launch.block_tiles = static_cast<int>((tiles + plan.cluster - 1) / plan.cluster);
  // A slot holds what a block has of a row; for F32, where only few would fit, a chunk of it.
  const bool by_chunk = args.train.dtype == DType::kF32;
  const int parts = by_chunk ? plan.chunks : 1;
  launch.side_bytes = (by_chunk ? plan.warps : launch.block_tiles) * kTileEntries *
                      static_cast<int>(DTypeBits(args.train.dtype) / 8);
  const auto slot = 2 * static_cast<size_t>(launch.side_bytes);
  plan.slots = static_cast<int>(
      std::min<size_t>((static_cast<size_t>(device.shared_per_block) - launch.cut.shared) / slot,
                       static_cast<size_t>(std::min(4 * parts, kSlotsMax))));
  if (plan.slots < parts) return launch;
  launch.shared = launch.cut.shared + static_cast<size_t>(plan.slots) * slot;
  const auto kernel =
      reinterpret_cast<const void*>(launch.cut.kernel[(args.wanted & kCudaWantReverseChi2) != 0]);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       static_cast<int>(launch.shared));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  launch.plan = plan;
  cudaLaunchAttribute attribute;
  const cudaLaunchConfig_t config = ConfigOf(launch, 1, nullptr, &attribute);
  int clusters = 0;
  if (cudaOccupancyMaxActiveClusters(&clusters, kernel, &config) != cudaSuccess || clusters == 0) {
    cudaGetLastError();  // cleared: the careful kernel takes the rows
    launch.plan.cluster = 0;
    return launch;
  }
  launch.plan.clusters = clusters;
  return launch;
}

bool IsAligned(const CudaLogits& logits) {
  const auto address = reinterpret_cast<uintptr_t>(logits.data);
  const int64_t stride = logits.row_stride * static_cast<int64_t>(DTypeBits(logits.dtype)) / 8;
  return address % 16 == 0 && stride % 16 == 0;
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
        layout_(LayoutFor(args.rows, launch.plan.cluster)) {}

  cudaError_t Measure(int64_t first, int64_t count) {
    const RowArgs row = RowArgsOf(args_, At<int32_t>(layout_.careful));
    const auto blocks = static_cast<unsigned>(std::min<int64_t>(count, kCarefulBlocks));
    if (launch_.plan.cluster == 0) {
      CarefulKernel<<<blocks, kCarefulThreads, 0, stream_>>>(row, first, count, true);
      return cudaGetLastError();
    }
    cudaMemsetAsync(row.careful_rows, 0, sizeof(int32_t), stream_);
    const SumsArgs sums = SumsOf(first, count);
    cudaLaunchAttribute attribute;
    const int clusters = static_cast<int>(std::min<int64_t>(launch_.plan.clusters, count));
    const cudaLaunchConfig_t config = ConfigOf(launch_, clusters, stream_, &attribute);
    const SumsKernel kernel = launch_.cut.kernel[(args_.wanted & kCudaWantReverseChi2) != 0];
    const cudaError_t error = cudaLaunchKernelEx(&config, kernel, sums, launch_.plan.cluster);
    if (error != cudaSuccess) return error;
    EndArgs end = {};
    end.row = row;
    end.partials = sums.partials;
    end.heads = sums.heads;
    end.counts = sums.counts;
    end.candidates = sums.candidates;
    end.first_row = first;
    end.count = count;
    end.cluster = launch_.plan.cluster;
    end.scale = sums.scale;
    end.inverse_tau = sums.inverse_tau;
    const auto end_blocks = static_cast<unsigned>((count + kEndWarps - 1) / kEndWarps);
    RowEndKernel<<<end_blocks, kEndWarps * 32, 0, stream_>>>(end);
    CarefulKernel<<<blocks, kCarefulThreads, 0, stream_>>>(row, first, count, false);
    return cudaGetLastError();
  }

 private:
  template <class T>
  T* At(size_t offset) const {
    return reinterpret_cast<T*>(static_cast<char*>(args_.workspace) + offset);
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
    sums.block_tiles = launch_.block_tiles;
    sums.slots = launch_.plan.slots;
    sums.side_bytes = launch_.side_bytes;
    sums.aligned = IsAligned(args_.train) && IsAligned(args_.infer);
    sums.scale = static_cast<float>(kLog2e / args_.temperature);
    sums.inverse_tau = static_cast<float>(1 / args_.temperature);
    sums.tau = static_cast<float>(args_.temperature);
    sums.top_rank = (args_.wanted & kCudaWantTopK) != 0 ? 9 : 1;
    sums.partials = At<double>(layout_.partials);
    sums.heads = At<RowHead>(layout_.heads);
    sums.counts = At<uint32_t>(layout_.counts);
    sums.candidates = At<uint2>(layout_.candidates);
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

void ForceCudaPlan(const CudaPlan& plan) { g_forced = plan; }

size_t CudaDriftWorkspaceBytes(const CudaDriftArgs& args) {
  return LayoutFor(args.rows, LaunchFor(args).plan.cluster).bytes;
}

const char* MeasureDriftCuda(const CudaDriftArgs& args) {
  if (const char* problem = CheckCudaDrift(args)) return problem;
  if (args.rows == 0) return nullptr;
  const Launch launch = LaunchFor(args);
  if (args.workspace_bytes < LayoutFor(args.rows, launch.plan.cluster).bytes) {
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
