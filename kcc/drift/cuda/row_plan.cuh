// What a row is planned by, for the fast kernel (row_sums.cuh), and what its warps leave behind.
#pragma once

#include <climits>
#include <cstdint>

#include "kcc/drift/cuda/row_sync.cuh"
#include "kcc/drift/cuda/row_terms.cuh"
#include "kcc/drift/cuda/row_tops.cuh"

namespace kcc {

// Subtractions may enlarge the float32 error this much before a row is measured in double.
inline constexpr float kAmplificationMax = 32;

// Of a weight 2^t; sums of weights and of their products with t stay finite.
inline constexpr float kExponentMax = 64;

inline constexpr int kMessageSums = 3;                           // that a warp's message has
inline constexpr int kOtherSums = kLaneSums - kMessageSums + 1;  // the last one is sum |q - s e|

// What a warp leaves about its tiles. The sums of top_lane, the lane with the warp's largest train
// entry, are kept apart from the others': if that entry is the row's largest, the lane's sums are
// taken again without it (row_gather.cuh).
struct alignas(16) WarpPart {
  WarpMessage message;
  float sum[kOtherSums];  // as in LaneSums, of all lanes but top_lane
  float top_lane_sum[kOtherSums];
  uint32_t low;  // as in LaneSums
  int high;
  int top_lane;
  int unused;
  uint32_t tops[kTopWords];  // (row_tops.cuh)
};
static_assert(sizeof(WarpPart) == 128);

struct RowSettings {
  float shift;   // c / tau
  int exponent;  // K
  int shifted;   // whether y is x
  float slope;   // s
};

// What the warps leave about the rows.
struct RowRecords {
  RowSettings* settings;  // by row
  WarpPart* parts;        // by row and warp
  uint32_t* tops;         // by row, warp, word and lane
  int* taken;             // how many rows were taken, beyond the first two of each row's blocks
};

struct SumsArgs : RowCut {
  const char* train;
  const char* infer;
  int64_t train_stride;  // bytes
  int64_t infer_stride;
  int64_t rows;
  int rows_at_once;  // the blocks of a row take the next one when they are done with it
  bool few;          // no row is left beyond the first two of each row's blocks
  bool aligned;      // rows start at multiples of 16 bytes
  float scale;       // log2(e) / tau
  float inverse_tau;
  float tau;
  RowRecords records;
  int32_t* careful_rows;  // whose number, the first, is set to 0

  __device__ const char* Row(int side, int64_t row) const {
    return side == 0 ? train + row * train_stride : infer + row * infer_stride;
  }
};

struct alignas(16) RowPlan {
  float minus_k;
  float shift;
  bool shifted;
  bool plain;       // x is y
  TermRange range;  // what the sample lets expect; the first visit finds out
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

// Whether |x| was within the range. Its ends are bounds of y's bits: of the largest as an unsigned
// and as a signed integer. Where they do not enclose 0 the range is not to be used.
__device__ __forceinline__ bool Holds(const SumsArgs& args, const RowPlan& plan, TermRange range,
                                      const LaneSums& sums) {
  const float end = range == kCloseRange   ? kCloseEnd
                    : range == kSmallRange ? kSmallEnd
                                           : kMediumEnd;
  const float from = plan.shifted ? -end : (plan.shift - end) * args.tau;
  const float to = plan.shifted ? end : (plan.shift + end) * args.tau;
  return from < 0 && to > 0 && sums.low <= __float_as_uint(from) && sums.high <= __float_as_int(to);
}

// How much a range's error may grow before it shows in the fifth digit: it falls with the largest
// |x| where moments are taken.
__device__ __forceinline__ float AmplificationIn(TermRange range, float largest) {
  if (range == kSmallRange) return 8;
  const float most = 0.5f * kAmplificationMax;
  if (range > kSmallRange) return most;
  return fminf(most, __fdividef(3.6e-3f, largest * largest * largest));
}

// Sums of e, q and e (E - x).
struct Weights {
  float e, q, residual;
};

// Where the weights beside the pivot moved alike, by delta, what they contribute to KL is the small
// difference of large sums; whether too small, nearly as SolveEnd sees it. `rest`: without the
// pivot.
__device__ __forceinline__ bool Cancels(const Weights& all, const Weights& rest,
                                        float amplification) {
  const float s = all.q / all.e;             // e^delta - 1
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
  const float kl = all.residual - all.e * over;
  const float magnitude = rest.residual + fabsf(less * rest.q) + rest.e * under;
  return magnitude > 1e-3f * all.residual && magnitude > amplification * kl;
}
// That they do not is plain where the mean move is small beside the spread, as it mostly is: kl is
// then above 0.7 all.residual and, by Cauchy's inequality for rest.q, its parts together are
// below 2.4, 2.8 and 6.3 times kl in the three ranges, which is less than any amplification there.
__device__ __forceinline__ bool CannotCancel(const Weights& all, float slope, TermRange range) {
  return range < kWholeRange && all.q * slope <= 0.3f * all.residual;
}
// They do not cancel about delta.
__device__ __forceinline__ void Recentre(float delta, RowPlan* plan) {
  plan->shift += delta;
  plan->plain = false;
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
  // The largest |x| of a row is about 1.6 times that of 256 of its entries. Where a format has few
  // bits, the largest logits move in steps of 1/128 of themselves, but only where the true move is
  // half of a step: most do not move, so the close range is tried a little beyond its end.
  const float largest_move = fmaxf(fabsf(low * args.inverse_tau - plan.shift),
                                   fabsf(high * args.inverse_tau - plan.shift));
  const float step = sizeof(T) == 4 ? 0.0f : 0.0079f * fabsf(found) * args.inverse_tau;
  const float spread = 1.7f * largest_move;
  const float reach = fmaxf(spread, fminf(largest_move + step, 2 * spread));
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
