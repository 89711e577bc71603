// How a row is cut and planned for the fast kernel (row_sums.cuh), and what its warps leave behind.
//
// A row is cut into tiles of 256 entries, eight a lane; each warp of its blocks has some that lie
// side by side.
#pragma once

#include <climits>
#include <cstdint>

#include "kcc/drift/cuda/row_terms.cuh"

namespace kcc {

inline constexpr int kWarpsMax = 12;    // of a block, of which a multiprocessor has two
inline constexpr int kWarpsMaxF32 = 6;  // whose tiles take twice the room
inline constexpr int kBlocksMax = 2;    // of a row
inline constexpr int kRowWarpsMax = kWarpsMax * kBlocksMax;
static_assert(kRowWarpsMax <= 32);  // a lane takes a warp's word
// Subtractions may enlarge the float32 error this much before a row is measured in double.
inline constexpr float kAmplificationMax = 32;

// Of a weight 2^t; sums of weights and of their products with t stay finite.
inline constexpr float kExponentMax = 64;

// What a warp leaves about its tiles. The lane with the largest train entry is kept apart: if that
// is the row's largest, its sums are taken again without it (row_gather.cuh).
struct WarpPart {
  float sum[kLaneSums];  // as in LaneSums
  float absolute;        // sum |q - s e|
  int apart;             // the lane
  float apart_sum[kLaneSums];
  float apart_absolute;
  uint32_t low;  // as in LaneSums
  int high;
  int tops[2];  // ordered bits of its largest train and infer entry
  int unused[5];
};
static_assert(sizeof(WarpPart) == 128);

struct RowHead {
  float shift;   // c / tau
  int exponent;  // K
  int shifted;   // whether y is x
  float slope;   // s
};

// What the warps leave about the rows.
struct RowBoard {
  RowHead* heads;   // by row
  WarpPart* parts;  // by row and warp
  int2* tops;       // ordered bits of the largest train and infer entry, by row and thread
  int* taken;       // how many rows were taken, beyond the first two of each row's blocks
};

struct SumsArgs {
  const char* train;
  const char* infer;
  int64_t train_stride;  // bytes
  int64_t infer_stride;
  int64_t rows;
  int rows_at_once;  // the blocks of a row take the next one when they are done with it
  bool few;          // no row is left beyond the first two of each row's blocks
  int vocab;
  int tiles;   // of a row
  int warps;   // of a block
  int blocks;  // of a row
  int share;   // of a warp, in whole tiles; the first `longer` warps have one more
  int longer;
  bool aligned;  // rows start at multiples of 16 bytes
  float scale;   // log2(e) / tau
  float inverse_tau;
  float tau;
  RowBoard board;
  int32_t* careful_rows;  // whose number, the first, is set to 0

  __device__ int RowWarps() const { return warps * blocks; }
  __device__ int FirstTileOf(int row_warp) const {
    return row_warp * share + min(row_warp, longer);
  }
  // Whole ones. The last warp also has the tile that the row's end cuts.
  __device__ int TilesOf(int row_warp) const { return share + (row_warp < longer ? 1 : 0); }
  __device__ bool HasCut(int row_warp) const {
    return row_warp == RowWarps() - 1 && vocab % kTileEntries != 0;
  }
  __device__ int WarpOfTile(int tile) const {
    const int in_longer = longer * (share + 1);
    if (tile < in_longer) return tile / (share + 1);
    return min(longer + (tile - in_longer) / share, RowWarps() - 1);
  }
  __device__ const char* Row(int side, int64_t row) const {
    return side == 0 ? train + row * train_stride : infer + row * infer_stride;
  }
};

struct RowPlan {
  float minus_k;
  float shift;
  uint32_t close_low, small_low, medium_low;  // bounds of LaneSums::low and ::high
  int close_high, small_high, medium_high;
  bool shifted;
  bool plain;       // x is y
  TermRange range;  // what the sample lets expect; the first visit finds out

  __device__ __forceinline__ bool Holds(TermRange which, const LaneSums& sums) const {
    if (which == kCloseRange) return sums.low <= close_low && sums.high <= close_high;
    if (which == kSmallRange) return sums.low <= small_low && sums.high <= small_high;
    return sums.low <= medium_low && sums.high <= medium_high;
  }
};

// The lane's entries of a tile, which may start anywhere; beyond the row's end the lowest value,
// which is no maximum.
template <class T>
__device__ __forceinline__ void LoadTile(const SumsArgs& args, const char* row, int tile, int lane,
                                         LaneLogits<T>* to) {
  const char* at = row + static_cast<int64_t>(tile) * kTileEntries * static_cast<int>(sizeof(T));
  if (args.aligned && (tile + 1) * kTileEntries <= args.vocab) {
    to->Load(at, lane);
  } else {
    to->LoadEntries(reinterpret_cast<const T*>(at), lane, args.vocab - tile * kTileEntries);
  }
}

// |x| <= end as bounds of y's bits: the largest as an unsigned and as a signed integer. Where
// the bounds of y do not enclose 0 the range is not to be used.
__device__ __forceinline__ void SetBounds(const SumsArgs& args, bool shifted, float shift,
                                          float end, uint32_t* low, int* high) {
  const float from = shifted ? -end : (shift - end) * args.tau;
  const float to = shifted ? end : (shift + end) * args.tau;
  const bool usable = from < 0 && to > 0;
  *low = usable ? __float_as_uint(from) : 0u;
  *high = usable ? __float_as_int(to) : INT_MIN;
}

__device__ __forceinline__ void SetBounds(const SumsArgs& args, RowPlan* plan) {
  SetBounds(args, plan->shifted, plan->shift, kCloseEnd, &plan->close_low, &plan->close_high);
  SetBounds(args, plan->shifted, plan->shift, kSmallEnd, &plan->small_low, &plan->small_high);
  SetBounds(args, plan->shifted, plan->shift, kMediumEnd, &plan->medium_low, &plan->medium_high);
}

// How much a range's error may grow before it shows in the fifth digit: it falls with the largest
// |x| where moments are taken.
__device__ __forceinline__ float AmplificationIn(TermRange range, float largest) {
  if (range == kSmallRange) return 8;
  const float most = 0.5f * kAmplificationMax;
  if (range > kSmallRange) return most;
  return fminf(most, __fdividef(3.6e-3f, largest * largest * largest));
}

// Where the weights beside the pivot moved alike, by delta, what they contribute to KL is the small
// difference of large sums; whether too small, nearly as SolveEnd sees it. `rest`: without the
// pivot; both: sums of e, q and e (E - x).
__device__ __forceinline__ bool Cancels(const float (&all)[3], const float (&rest)[3],
                                        float amplification) {
  const float s = all[1] / all[0];           // e^delta - 1
  const float less = __fdividef(-s, 1 + s);  // e^-delta - 1
  // s - delta and e^-delta - 1 + delta
  float over, under;
  if (fabsf(s) < 0.0625f) {
    over = s * s * fmaf(s, fmaf(s, 0.25f, -0.33333333f), 0.5f);
    under = s * s * fmaf(s, fmaf(s, 0.75f, -0.66666667f), 0.5f);
  } else {
    const float delta = log1pf(s);
    over = s - delta;
    under = less + delta;
  }
  const float kl = all[2] - all[0] * over;
  const float magnitude = rest[2] + fabsf(less * rest[1]) + rest[0] * under;
  return magnitude > 1e-3f * all[2] && magnitude > amplification * kl;
}
// They do not cancel about delta.
__device__ __forceinline__ void Recentre(const SumsArgs& args, float delta, RowPlan* plan) {
  plan->shift += delta;
  plan->plain = false;
  SetBounds(args, plan);
}

// From 256 entries, spread over the row. K is near the largest of
// them. Where their differences lie on both sides of 0 nothing is shifted: formats of few bits
// leave most large entries unmoved, and those then add nothing at all. Else c is what happened to
// the largest entry of the sample. Any value would be right; sums that cancel are found at the
// row's end.
template <class T>
__device__ __forceinline__ RowPlan MakePlan(const SumsArgs& args, const LaneLogits<T>& train,
                                            const LaneLogits<T>& infer) {
  const unsigned all = 0xffffffffu;
  float top = -kFloatInf, top_moved = 0, low = kFloatInf, high = -kFloatInf;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const float a = train.At(j);
    const float d = infer.At(j) - a;
    if (!(fabsf(a) < 1e6f) || !(fabsf(d) < 1e6f)) continue;
    if (a > top) top = a, top_moved = d;
    low = fminf(low, d);
    high = fmaxf(high, d);
  }
  const int mine = OrderedBits(top);
  const int best = __reduce_max_sync(all, mine);
  const unsigned owners = __ballot_sync(all, mine == best);
  const float moved = __shfl_sync(all, top_moved, __ffs(static_cast<int>(owners)) - 1);
  low = FromOrderedBits(__reduce_min_sync(all, OrderedBits(low)));
  high = FromOrderedBits(__reduce_max_sync(all, OrderedBits(high)));
  const float found = FromOrderedBits(best);
  RowPlan plan;
  plan.minus_k = found > -kFloatInf ? -rintf(found * args.scale) : 0.0f;
  plan.shifted = low > 0 || high < 0;
  plan.shift = plan.shifted && found > -kFloatInf ? moved * args.inverse_tau : 0.0f;
  plan.plain = !plan.shifted && args.inverse_tau == 1;
  SetBounds(args, &plan);
  // A row strays about 1.6 times as far as 256 of its entries. Where a format has few bits, its
  // largest entries move by as much as 1/128 of themselves, but only where half of that strays:
  // most do not, so that the close range is tried up to a little beyond its end.
  const float strayed = fmaxf(fabsf(low * args.inverse_tau - plan.shift),
                              fabsf(high * args.inverse_tau - plan.shift));
  const float step = sizeof(T) == 4 ? 0.0f : 0.0079f * fabsf(found) * args.inverse_tau;
  const float spread = 1.7f * strayed;
  const float reach = fmaxf(spread, fminf(strayed + step, 2 * spread));
  plan.range = spread <= kCloseEnd && reach <= 1.34f * kCloseEnd ? kCloseRange
               : reach <= kSmallEnd                              ? kSmallRange
               : reach <= kMediumEnd                             ? kMediumRange
                                                                 : kWholeRange;
  return plan;
}

// The sample's entries of a lane.
__device__ __forceinline__ int SampleTile(const SumsArgs& args, int lane) {
  return static_cast<int>(static_cast<int64_t>(args.vocab / kTileEntries) * lane / 32);
}

}  // namespace kcc
