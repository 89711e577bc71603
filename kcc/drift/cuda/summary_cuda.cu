#include "kcc/drift/cuda/summary_cuda.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace kcc {
namespace {

constexpr int kThreads = 256;
constexpr int kSumLow = ExactSum::kLowExponent;
constexpr int kSquareLow = ExactProductSum::kLowExponent;

using Wide = unsigned long long;

__device__ void AddTo(int64_t* chunk, uint64_t piece, bool negative) {
  if (piece == 0) return;
  atomicAdd(reinterpret_cast<Wide*>(chunk), static_cast<Wide>(negative ? ~piece + 1 : piece));
}

struct Split {
  uint64_t mantissa;
  int exponent;
  bool negative;
};

__device__ Split SplitDouble(double value) {
  const auto bits = static_cast<uint64_t>(__double_as_longlong(value));
  const int field = static_cast<int>((bits >> 52) & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return {fraction | (field != 0 ? uint64_t{1} << 52 : 0), (field == 0 ? 1 : field) - 1075,
          (bits >> 63) != 0};
}

// In pieces of 32 bits a chunk has room for 2^31 additions before it must be carried.
__device__ void AddValue(double value, CudaSummary* to) {
  const Split v = SplitDouble(value);
  const int place = v.exponent - kSumLow;
  const int shift = place & 31;
  const uint64_t low = v.mantissa << shift;
  const uint64_t high = shift == 0 ? 0 : v.mantissa >> (64 - shift);
  int64_t* chunk = to->sum + (place >> 5);
  AddTo(chunk, low & 0xffffffff, v.negative);
  AddTo(chunk + 1, low >> 32, v.negative);
  AddTo(chunk + 2, high, v.negative);

  const uint64_t square_low = v.mantissa * v.mantissa;
  const uint64_t square_high = __umul64hi(v.mantissa, v.mantissa);
  const int square_place = 2 * v.exponent - kSquareLow;
  const int by = square_place & 31;
  const uint64_t words[3] = {square_low << by,
                             (square_high << by) | (by == 0 ? 0 : square_low >> (64 - by)),
                             by == 0 ? 0 : square_high >> (64 - by)};
  int64_t* at = to->squares + (square_place >> 5);
  for (int k = 0; k < 3; ++k) {
    AddTo(at + 2 * k, words[k] & 0xffffffff, false);
    AddTo(at + 2 * k + 1, words[k] >> 32, false);
  }
}

__device__ uint64_t OrderedDouble(double value) {
  const auto bits = static_cast<uint64_t>(__double_as_longlong(value + 0.0));
  return bits ^ ((bits >> 63) != 0 ? ~uint64_t{0} : uint64_t{1} << 63);
}

__global__ void __launch_bounds__(kThreads)
    SummaryKernel(const double* values, int64_t count, const double* thresholds, int thresholds_n,
                  CudaSummary* out, uint32_t* buckets) {
  __shared__ CudaSummary mine;
  for (size_t i = threadIdx.x; i < sizeof(mine) / 8; i += kThreads) {
    reinterpret_cast<uint64_t*>(&mine)[i] = 0;
  }
  __syncthreads();
  if (threadIdx.x == 0) mine.min_bits = ~uint64_t{0};
  __syncthreads();
  const auto add = [](uint64_t* to) { atomicAdd(reinterpret_cast<Wide*>(to), Wide{1}); };
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * kThreads) {
    const double value = values[i];
    if (isnan(value)) {
      add(&mine.nan);
      continue;
    }
    add(&mine.count);
    if (value == 0) add(&mine.zeros);
    if (isinf(value)) {
      add(value > 0 ? &mine.plus_infinite : &mine.minus_infinite);
    } else {
      AddValue(value, &mine);
    }
    int below = 0;  // thresholds below the value
    while (below < thresholds_n && thresholds[below] < value) ++below;
    const bool at = below < thresholds_n && thresholds[below] == value;
    if (thresholds_n > 0) add(&mine.intervals[2 * below + (at ? 1 : 0)]);
    const uint64_t ordered = OrderedDouble(value);
    atomicMin(reinterpret_cast<Wide*>(&mine.min_bits), static_cast<Wide>(ordered));
    atomicMax(reinterpret_cast<Wide*>(&mine.max_bits), static_cast<Wide>(ordered));
    atomicAdd(&buckets[ordered >> 45], 1u);
  }
  __syncthreads();
  const auto* from = reinterpret_cast<const uint64_t*>(&mine);
  auto* to = reinterpret_cast<Wide*>(out);
  for (size_t i = threadIdx.x; i < sizeof(mine) / 8; i += kThreads) {
    if (i == offsetof(CudaSummary, min_bits) / 8) {
      atomicMin(to + i, static_cast<Wide>(from[i]));
    } else if (i == offsetof(CudaSummary, max_bits) / 8) {
      atomicMax(to + i, static_cast<Wide>(from[i]));
    } else if (from[i] != 0) {
      atomicAdd(to + i, static_cast<Wide>(from[i]));
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    BucketKernel(const uint32_t* buckets, CudaSummary* out, CudaBucket* histogram, uint32_t room) {
  const uint32_t bucket = blockIdx.x * kThreads + threadIdx.x;
  const uint32_t count = buckets[bucket];
  if (count == 0) return;
  const auto at = static_cast<uint32_t>(atomicAdd(reinterpret_cast<Wide*>(&out->buckets), Wide{1}));
  if (at < room) histogram[at] = {bucket, count};
}

double FromOrdered(uint64_t ordered) {
  const uint64_t bits = (ordered >> 63) != 0 ? ordered ^ (uint64_t{1} << 63) : ~ordered;
  double value;
  __builtin_memcpy(&value, &bits, 8);
  return value;
}

}  // namespace

const char* SummarizeCuda(const double* values, int64_t count, const double* thresholds,
                          int threshold_count, CudaSummary* summary, uint32_t* scratch,
                          CudaBucket* histogram, uint32_t histogram_max, void* stream_pointer) {
  if (count < 0 || count > (int64_t{1} << 31)) return "at most 2^31 values can be summed at once";
  if (threshold_count < 0 || threshold_count > kCudaThresholdsMax) {
    return "more thresholds than kCudaThresholdsMax";
  }
  const auto stream = static_cast<cudaStream_t>(stream_pointer);
  cudaMemsetAsync(summary, 0, sizeof(CudaSummary), stream);
  cudaMemsetAsync(&summary->min_bits, 0xff, 8, stream);
  cudaMemsetAsync(scratch, 0, kCudaBuckets * sizeof(uint32_t), stream);
  const auto blocks = static_cast<unsigned>(
      count == 0 ? 1 : std::min<int64_t>((count + kThreads - 1) / kThreads, 264));
  SummaryKernel<<<blocks, kThreads, 0, stream>>>(values, count, thresholds, threshold_count,
                                                 summary, scratch);
  BucketKernel<<<kCudaBuckets / kThreads, kThreads, 0, stream>>>(scratch, summary, histogram,
                                                                 histogram_max);
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? nullptr : cudaGetErrorString(error);
}

double CudaSummaryMin(const CudaSummary& summary) { return FromOrdered(summary.min_bits); }
double CudaSummaryMax(const CudaSummary& summary) { return FromOrdered(summary.max_bits); }

CanonicalSum CanonicalFromChunks(std::span<const int64_t> chunks) {
  std::vector<int64_t> words(chunks.begin(), chunks.end());
  const auto carry = [&] {
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      words[i + 1] += words[i] >> 32;
      words[i] &= 0xffffffff;
    }
  };
  carry();
  CanonicalSum form;
  form.sign = words.back() < 0 ? -1 : 1;
  if (form.sign < 0) {
    for (int64_t& word : words) word = -word;
    carry();
  }
  size_t first = 0;
  size_t last = words.size();
  while (first < words.size() && words[first] == 0) ++first;
  if (first == words.size()) return {};
  while (words[last - 1] == 0) --last;
  form.first = static_cast<uint32_t>(first);
  for (size_t i = first; i < last; ++i) form.words.push_back(static_cast<uint32_t>(words[i]));
  return form;
}

}  // namespace kcc
