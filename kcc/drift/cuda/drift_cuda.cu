// Launches of the CUDA backend: which kernel, cut how, in which order.
//
// The algorithm, for someone who has read a softmax kernel. Two rows of V logits, a (train) and b
// (infer), become some twenty numbers: KL both ways, tv, chi2, entropies, norms of b - a, the top
// ten of both sides. A softmax kernel finds the maximum, then sums e^(a - max). Here that is not
// good enough: KL as sum p (log p - log q) subtracts numbers near 1 to find one near 1e-9.
//
//   Form. With x = (b - a - c)/tau for some constant c near delta = log sum p e^((b - a)/tau),
//   every divergence is a combination of sums of e * f(x), where e = 2^(a log2(e)/tau - K) is the
//   train weight and f(x), like e^x - 1 - x, is small when x is small (row_terms.cuh; solved in
//   row_end.cuh with the formulas of drift/row_end.cc). One exponential an entry, for e; f comes
//   from a short polynomial in x. The weights of infer are never computed: they are e * (1 + E), E
//   = e^x - 1.
//
//   Guess, then check. A softmax needs its maximum first; K and c need only be near. They are taken
//   from 256 entries spread over the row (MakePlan), and so is the range of x, which decides how
//   long the polynomial must be. The visit itself finds the true maximum and the true range. Where
//   the guess was wrong the row is visited again with a better one: a larger K (kExponentTooSmall),
//   a longer polynomial (kRangeExceeded), c = delta (kSumsCancel).
//
//   Two visits. All sums but one come from the first visit. tv = 1/2 sum |q - p| is a sum of
//   |E - s| e with the slope s = sum e E / sum e, which is known only at its end; the second visit
//   is for tv alone, and goes backwards, since the end of the row is still in shared memory and
//   much of the rest in L2 (row_ring.cuh).
//
//   Who does what. Two blocks in a cluster, 8 warps each, have a row to themselves; a lane has
//   eight entries of each tile of 256 (row_cut.h). Each warp keeps two slots of shared memory
//   filled by bulk copies. Between the visits the warps exchange their parts of s, once, through
//   shared memory (row_sync.cuh); after the second they store their sums and are done: the blocks
//   take the next row. One warp of each block makes the plan of the next row while this one is
//   summed.
//
//   The pivot. Where one token has nearly all the mass, its float weight swamps the sums of the
//   others. The largest train entry is therefore taken out and carried in double. Nobody knows
//   which it is until the end, so each warp keeps the sums of the lane that had its largest entry
//   apart from those of the other lanes; the lane with the row's largest is summed again without
//   it.
//
//   The end (row_gather.cuh, row_end.cuh): a second kernel, one warp a row. Each lane has kept the
//   largest entry of each piece of its tiles (row_tops.cuh). The ten largest of those maxima give a
//   threshold; only the few lanes' pieces above it are searched for the top ten. Then one thread a
//   row solves for the divergences in double, and asks whether they can be trusted.
//
//   The rest (row_careful.cuh): rows that failed that question, rows with -inf, rows too short to
//   share out, js, hellinger and rank, are measured in double by the definitions; slow and right.
//
// Rows go in batches of kBatchRows, so that the workspace does not grow with them. The cut of a row
// (warps, blocks) depends on vocabulary, format and device alone, never on the number of rows, and
// every reduction is a fixed tree: the bits of a row are the same in every batch and every run.
#include "kcc/drift/cuda/drift_cuda.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kcc/drift/cuda/row_careful.cuh"
#include "kcc/drift/cuda/row_gather.cuh"
#include "kcc/drift/cuda/row_sums.cuh"

namespace kcc {
namespace {

static_assert(kDeviceF32 == static_cast<int>(DType::kF32) &&
              kDeviceF16 == static_cast<int>(DType::kF16) &&
              kDeviceBF16 == static_cast<int>(DType::kBF16) &&
              kDeviceF8E4M3 == static_cast<int>(DType::kF8E4M3) &&
              kDeviceF8E5M2 == static_cast<int>(DType::kF8E5M2));

constexpr int64_t kBatchRows = 8192;
constexpr int kCarefulBlocks = 264;  // a multiple of kCarefulCluster
constexpr double kLog2e = 1.4426950408889634;

struct Layout {
  size_t careful = 0, parts = 0, tops = 0, settings = 0, taken = 0, bytes = 0;
};

Layout LayoutFor(int64_t rows, const CudaPlan& plan) {
  const auto warps = static_cast<size_t>(plan.warps * plan.blocks);
  const auto batch = static_cast<size_t>(std::min(rows, kBatchRows));
  Layout layout;
  const auto take = [&](size_t bytes) {
    const size_t at = layout.bytes;
    layout.bytes += (bytes + 255) / 256 * 256;
    return at;
  };
  layout.careful = take((batch + 1) * sizeof(int32_t));
  layout.parts = take(batch * warps * sizeof(WarpPart));
  layout.tops = take(batch * warps * kTopWords * 32 * sizeof(uint32_t));
  layout.settings = take(batch * sizeof(RowSettings));
  layout.taken = take(sizeof(int));
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

struct Kernels {
  void (*sums)(SumsArgs) = nullptr;
  void (*end)(EndArgs) = nullptr;
};

template <class T>
Kernels KernelsFor(bool aligned, bool square, const CudaPlan& plan) {
  // FP8 and rows that start anywhere have the one kernel, with reverse_chi2, to keep the library
  // small.
  if (!aligned) return {&RowSumsKernel<T, false, true, 0, 0>, &RowEndKernel<T>};
  if (square || sizeof(T) == 1) return {&RowSumsKernel<T, true, true, 0, 0>, &RowEndKernel<T>};
  if constexpr (sizeof(T) == 2) {
    if (plan.warps == kWarpsMax && plan.blocks == kBlocksMax) {
      return {&RowSumsKernel<T, true, false, kWarpsMax, kBlocksMax>, &RowEndKernel<T>};
    }
  }
  return {&RowSumsKernel<T, true, sizeof(T) == 1, 0, 0>, &RowEndKernel<T>};
}

Kernels KernelsFor(DType dtype, bool aligned, bool square, const CudaPlan& plan) {
  switch (dtype) {
#ifndef KCC_CUDA_ONLY_BF16
    case DType::kF16:
      return KernelsFor<__half>(aligned, square, plan);
    case DType::kF8E4M3:
      return KernelsFor<__nv_fp8_e4m3>(aligned, square, plan);
    case DType::kF8E5M2:
      return KernelsFor<__nv_fp8_e5m2>(aligned, square, plan);
    case DType::kF32:
      return KernelsFor<float>(aligned, square, plan);
#endif
    default:
      return KernelsFor<__nv_bfloat16>(aligned, square, plan);
  }
}

struct Device {
  int multiprocessors = 0;
  int major = 0;
  int shared_bytes = 0;  // that a block may have
  int code = 0;          // for which architecture what runs here was compiled, 90 or 80
};

// Asking takes as long as a launch, so a thread remembers its last answer.
Device CurrentDevice() {
  thread_local int known_id = -1;
  thread_local Device known;
  int id = 0;
  if (cudaGetDevice(&id) != cudaSuccess) return {};
  if (id == known_id) return known;
  Device device;
  cudaDeviceGetAttribute(&device.multiprocessors, cudaDevAttrMultiProcessorCount, id);
  cudaDeviceGetAttribute(&device.major, cudaDevAttrComputeCapabilityMajor, id);
  cudaDeviceGetAttribute(&device.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, id);
  cudaFuncAttributes attributes = {};
  cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&CarefulKernel));
  device.code = attributes.ptxVersion;
  known_id = id;
  return known = device;
}

// A launch in clusters, or before the kernel ahead of it has ended (row_sync.cuh).
struct Starter {
  Starter(unsigned blocks, unsigned threads, cudaStream_t stream, bool early, int cluster) {
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.stream = stream;
    config.attrs = attributes;
    if (early) {
      cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
      attribute.val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
      cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim.x = static_cast<unsigned>(cluster);
      attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    }
  }
  Starter(const Starter&) = delete;

  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
};

// How many clusters of so many blocks a kernel can have on this device at once. Asking takes as
// long as a launch, so a thread remembers its last answers.
int ClustersAtOnce(const void* kernel, const Device& on, int threads, size_t shared, int blocks) {
  struct Answer {
    const void* kernel;
    int device, threads, blocks;
    size_t shared;
    int clusters;
  };
  thread_local std::vector<Answer> answers;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  for (const Answer& known : answers) {
    if (known.kernel == kernel && known.device == device && known.threads == threads &&
        known.blocks == blocks && known.shared == shared) {
      return known.clusters;
    }
  }
  // As much as any plan needs: the answer is kept, and the attribute is the kernel's, not the
  // plan's.
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, on.shared_bytes);
  int clusters = 0;
  if (blocks > 1) {
    Starter many(static_cast<unsigned>(blocks) * 1024, static_cast<unsigned>(threads), nullptr,
                 false, blocks);
    many.config.dynamicSmemBytes = shared;
    cudaOccupancyMaxActiveClusters(&clusters, kernel, &many.config);
  } else {
    int of_one = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&of_one, kernel, threads, shared);
    clusters = of_one * on.multiprocessors;
  }
  answers.push_back({kernel, device, threads, blocks, shared, clusters});
  return clusters;
}

struct Launch {
  CudaPlan plan;
  Kernels kernels;
  size_t shared = 0;
  bool has_clusters = false;
  bool starts_early = false;
};

// warps == 0: not for the fast kernel.
Launch LaunchFor(const CudaDriftArgs& args) {
  Launch launch;
  const Device device = CurrentDevice();
  launch.has_clusters = launch.starts_early = device.major >= 9 && device.code >= 90;
  const bool costly = (args.wanted & kCudaWantOnDemand) != 0;
  if (device.major < 8 || args.train.dtype != args.infer.dtype || costly) return launch;
  const int64_t tiles = (args.vocab + kTileEntries - 1) / kTileEntries;
  if (tiles < 32) return launch;  // too few threads to rank, and too little to share
  const bool aligned = IsAligned(args.train) && IsAligned(args.infer);
  const size_t entry_bytes = DTypeBits(args.train.dtype) / 8;
  const int in_ring = kRingSlots * GroupTiles(entry_bytes);
  const size_t ring = static_cast<size_t>(in_ring) * 2 * RingTileBytes(entry_bytes, aligned);
  const size_t room = (static_cast<size_t>(device.shared_bytes) - kSumsSharedBytes) / ring;
  const int most = std::min(kWarpsMax, static_cast<int>(room) / 2 * 2);
  if (most == 0) return launch;
  const WarpsOfRow chosen = ChooseWarps(tiles, most, entry_bytes, launch.has_clusters);
  launch.plan = {chosen.warps, chosen.blocks, 0};
  if (launch.plan.warps == 0) return launch;
  launch.kernels =
      KernelsFor(args.train.dtype, aligned, (args.wanted & kCudaWantReverseChi2) != 0, launch.plan);
  launch.shared = kSumsSharedBytes + static_cast<size_t>(launch.plan.warps) * ring;
  launch.plan.rows = ClustersAtOnce(reinterpret_cast<const void*>(launch.kernels.sums), device,
                                    launch.plan.warps * 32, launch.shared, launch.plan.blocks);
  if (launch.plan.rows == 0) launch.plan = {};
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
        layout_(LayoutFor(args.rows, launch.plan)) {}

  cudaError_t Measure(int64_t first, int64_t count) {
    const RowArgs row = RowArgsOf(args_, At<int32_t>(layout_.careful));
    if (launch_.plan.warps == 0) return MeasureCarefully(row, first, count, true);
    EndArgs end = {};
    end.row = row;
    end.sums = SumsOf(first, count);
    end.first_row = first;
    end.count = count;
    end.top_rank = (args_.wanted & kCudaWantTopK) != 0 ? 9 : 1;
    if (!end.sums.few) {
      const cudaError_t error = cudaMemsetAsync(end.sums.records.taken, 0, sizeof(int), stream_);
      if (error != cudaSuccess) return error;
    }
    const CudaPlan& plan = launch_.plan;
    const auto blocks = static_cast<unsigned>(end.sums.rows_at_once * plan.blocks);
    Starter sums(blocks, static_cast<unsigned>(plan.warps) * 32, stream_, false, plan.blocks);
    sums.config.dynamicSmemBytes = launch_.shared;
    const cudaError_t error = cudaLaunchKernelEx(&sums.config, launch_.kernels.sums, end.sums);
    if (error != cudaSuccess) return error;  // the next kernel has nothing to end
    const auto end_blocks = static_cast<unsigned>((count + kGatherWarps - 1) / kGatherWarps);
    const Starter ends(end_blocks, kGatherWarps * 32, stream_, launch_.starts_early, 1);
    cudaLaunchKernelEx(&ends.config, launch_.kernels.end, end);
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
    const auto blocks = static_cast<unsigned>(std::min<int64_t>(count * cluster, kCarefulBlocks));
    const Starter rows(blocks, kCarefulThreads, stream_, launch_.starts_early && !all, cluster);
    const cudaError_t error =
        cudaLaunchKernelEx(&rows.config, CarefulKernel, row, first, count, all);
    return error != cudaSuccess ? error : cudaGetLastError();
  }

  SumsArgs SumsOf(int64_t first, int64_t count) const {
    const auto bytes = static_cast<int64_t>(DTypeBits(args_.train.dtype) / 8);
    SumsArgs sums = {CutRow(static_cast<int>(args_.vocab), static_cast<size_t>(bytes),
                            {launch_.plan.warps, launch_.plan.blocks})};
    sums.train_stride = args_.train.row_stride * bytes;
    sums.infer_stride = args_.infer.row_stride * bytes;
    sums.train = static_cast<const char*>(args_.train.data) + first * sums.train_stride;
    sums.infer = static_cast<const char*>(args_.infer.data) + first * sums.infer_stride;
    sums.rows = count;
    sums.rows_at_once = static_cast<int>(std::min<int64_t>(launch_.plan.rows, count));
    sums.few = count <= 2 * int64_t{sums.rows_at_once};
    sums.aligned = IsAligned(args_.train) && IsAligned(args_.infer);
    sums.scale = static_cast<float>(kLog2e / args_.temperature);
    sums.inverse_tau = static_cast<float>(1 / args_.temperature);
    sums.tau = static_cast<float>(args_.temperature);
    sums.records = {At<RowSettings>(layout_.settings), At<WarpPart>(layout_.parts),
                    At<uint32_t>(layout_.tops), At<int>(layout_.taken)};
    sums.careful_rows = At<int32_t>(layout_.careful);
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
  return LayoutFor(args.rows, LaunchFor(args).plan).bytes;
}

const char* MeasureDriftCuda(const CudaDriftArgs& args) {
  if (const char* problem = CheckCudaDrift(args)) return problem;
  if (args.rows == 0) return nullptr;
  const Launch launch = LaunchFor(args);
  if (args.workspace_bytes < LayoutFor(args.rows, launch.plan).bytes) {
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
