// Summaries of per-row values on the device, so that only they cross the bus: counts, exceedances,
// exact sums (the fixed point of numeric/exact_sum.h) and the histogram of summary/histogram.h.
// Integers throughout, so the order of threads cannot be seen; the same numbers as the CPU's
// Moments, given the same values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kcc/numeric/exact_sum.h"

namespace kcc {

inline constexpr int kCudaThresholdsMax = 64;
inline constexpr uint32_t kCudaBuckets = 1u << 19;

// What comes back, plain integers.
struct CudaSummary {
  uint64_t count;  // of all values but NaN
  uint64_t nan;
  uint64_t zeros;
  uint64_t plus_infinite;
  uint64_t minus_infinite;
  uint64_t min_bits;  // in the order of doubles as unsigned integers; see CudaSummaryMin
  uint64_t max_bits;
  uint64_t buckets;                                // used ones
  uint64_t intervals[2 * kCudaThresholdsMax + 1];  // below the first threshold, at it, between …
  int64_t sum[ExactSum::kChunkCount];              // 32 bits of the sum each, with carries to come
  int64_t squares[ExactProductSum::kChunkCount];
};

struct CudaBucket {
  uint32_t bucket;
  uint32_t count;
};

// Enqueues the summary of `count` doubles. `thresholds` (device): sorted, distinct, at most
// kCudaThresholdsMax. `scratch`: kCudaBuckets uint32 on the device. `histogram`: room for
// histogram_max buckets in no particular order; `summary->buckets` says how many there are. Null on
// success, else what is wrong.
const char* SummarizeCuda(const double* values, int64_t count, const double* thresholds,
                          int threshold_count, CudaSummary* summary, uint32_t* scratch,
                          CudaBucket* histogram, uint32_t histogram_max, void* stream);

// On the host, of a summary that was copied there.
double CudaSummaryMin(const CudaSummary& summary);
double CudaSummaryMax(const CudaSummary& summary);
CanonicalSum CanonicalFromChunks(std::span<const int64_t> chunks);

}  // namespace kcc
