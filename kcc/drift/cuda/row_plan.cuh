// What the warps of the fast kernel (row_sums.cuh) share: arguments, the plan of a row, the
// barriers and buffers in shared memory; and the tile that is too wide for the common path.
#pragma once

#include <cstdint>

#include "kcc/drift/cuda/row_terms.cuh"

namespace kcc {

inline constexpr int kSlotsMax = 32;
inline constexpr int kPartials = 16;  // doubles a block leaves about a row; 13 in use
inline constexpr int kPartialLow = 10;
inline constexpr int kPartialHigh = 11;
inline constexpr int kPartialAbsolute = 12;
inline constexpr int kCandidatesMax = 32;  // a block and side; more: the row is measured in double
inline constexpr int kClusterMax = 16;
inline constexpr int kServingWarps = 3;
// One lane arrives for its warp, after __syncwarp. Racecheck does not follow that; a build for it
// lets every lane arrive.
#ifdef KCC_CUDA_EVERY_LANE_ARRIVES
inline constexpr int kVoices = 32;
#else
inline constexpr int kVoices = 1;
#endif

struct RowHead {
  float top_train;  // NaN or infinite: not a row for this kernel
  float shift;      // c / tau
  int exponent;     // K
  int shifted;      // whether y is x
  float pivot_train;
  float pivot_infer;
  float unused[2];
};

struct SumsArgs {
  const char* train;
  const char* infer;
  int64_t train_stride;  // bytes
  int64_t infer_stride;
  int64_t rows;
  int vocab;
  int tiles;        // of a row
  int block_tiles;  // of a block, but the last ones may have fewer
  int slots;        // of the ring
  int side_bytes;   // of a slot and side
  bool aligned;     // rows start at multiples of 16 bytes
  float scale;      // log2(e) / tau
  float inverse_tau;
  float tau;
  int top_rank;  // the threshold is the largest but so many of the group maxima
  double* partials;
  RowHead* heads;
  uint32_t* counts;  // candidates: train in the low half, infer in the high one
  uint2* candidates;
};

struct RowPlan {
  float minus_k;
  float shift;
  uint32_t small_low, medium_low;  // bounds of LaneSums::low and ::high
  int small_high, medium_high;
  int train_threshold, infer_threshold;  // ordered bits
  int top_train;
  int pivot_warp;  // in the cluster
  int pivot;       // its lane * 64 + place among the lane's entries; known to its own block
  int shifted;
};

template <int kWarps>
struct SumsShared {
  uint64_t full[kSlotsMax];
  uint64_t empty[kSlotsMax];
  uint64_t maxima_here[8];  // of so many rows, since a fast neighbour may be far ahead of a keeper
  uint64_t plan_ready[4];
  uint64_t sums_done[2];
  uint64_t exchanged[2];
  uint64_t slope_ready[2];
  uint64_t maxima[8][kClusterMax * kWarps];
  uint64_t exchange[2][kClusterMax * kWarps];  // sums of e and q by warp, as floats
  uint64_t pivot_here[4];
  uint64_t pivot[4];                        // its train and infer logit, as floats
  uint32_t sums[2][kWarps][kLaneSums + 2];  // floats; low and high as in LaneSums
  float absolute[2][kWarps];
  RowPlan plan[4];
  float slope[2];
  uint32_t found[4];  // train candidates
  alignas(16) int groups[2][32];
};

// A tile with a wide range of x.
struct RareTile {
  float a[8];
  float x[8];
  float e[8];
  float q[8];
  float sum[kLaneSums];
  unsigned counts;  // by entry: not the pivot, not beyond the row's end
  float scale;
  float minus_k;
};

// Out of line, to keep the common path short in the instruction cache.
template <bool kSquare>
__device__ __noinline__ void AddRareTile(RareTile* tile) {
  LaneSums sums;
  for (int k = 0; k < kLaneSums; ++k) sums.sum[k] = tile->sum[k];
#pragma unroll 4
  for (int j = 0; j < 8; ++j) {
    AddTerms<kWholeRange, true, kSquare>(tile->a[j], tile->x[j], tile->scale, tile->minus_k,
                                         (tile->counts >> j & 1) != 0, &sums, &tile->e[j],
                                         &tile->q[j]);
  }
  for (int k = 0; k < kLaneSums; ++k) tile->sum[k] = sums.sum[k];
}

}  // namespace kcc
