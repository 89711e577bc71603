// The fast kernel: a few blocks, in a cluster, have a row pair to themselves and visit it twice.
//
// The first visit adds up every sum but tv's, whose terms need s = sum e E / sum e; the second one,
// for tv alone, goes back from where the first ended (row_ring.cuh). Each warp has a part of the
// row. They exchange their sums after a first visit, to agree on s; no reduction depends on timing.
#pragma once

#include <cstring>

#include "kcc/drift/cuda/row_ring.cuh"
#include "kcc/drift/cuda/row_sync.cuh"

namespace kcc {

// What the warps of a block share.
struct SumsShared {
  WarpExchange<kRowWarpsMax> slope;                              // (SendWeights)
  uint64_t full[kWarpsMax][kRingSlots];                          // of the warps' rings
  RowPlan plan[2];                                               // by turns
  __align__(16) char sample[2][32 * sizeof(LaneLogits<float>)];  // by side
};
inline constexpr size_t kSumsSharedBytes = (sizeof(SumsShared) + 127) / 128 * 128;

// What comes of a first visit. All but kDone send the row on another one.
enum class Visit {
  kDone,
  kExponentTooSmall,  // the largest entry is so far above 2^K that sums of weights may overflow
  kRangeExceeded,     // some |x| was beyond the range whose series was used
  kSumsCancel,        // c is too far from delta: the sums' difference has lost its digits
};
struct VisitOutcome {
  Visit visit;
  float slope;
  float top;       // the largest train entry
  int after_next;  // the row to take after the next one
};

// `kWarps`, `kBlocks`: of a block and of a row; 0: as the arguments say.
template <class T, bool kAligned, bool kSquare, int kWarps, int kBlocks>
class RowSums {
 public:
  __device__ __forceinline__ RowSums(const SumsArgs& args, SumsShared* shared, char* ring)
      : args_(args),
        shared_(*shared),
        lane_(static_cast<int>(threadIdx.x) & 31),
        warp_(__shfl_sync(kAll, static_cast<int>(threadIdx.x) >> 5, 0)),
        block_(static_cast<int>(blockIdx.x) % Blocks()),
        row_warp_(warp_ == 0 ? block_ : Blocks() + block_ * (Warps() - 1) + warp_ - 1),
        has_cut_(args.HasCut(row_warp_)),
        ring_(args, ring, shared->full[warp_], warp_, lane_, row_warp_) {}

  __device__ __forceinline__ void Run() {
    int64_t row = blockIdx.x / Blocks();
    if (row >= args_.rows) return;
    if (threadIdx.x == 0) {
      shared_.slope.Init();
      if (blockIdx.x == 0) *args_.careful_rows = 0;
    }
    ring_.Begin(row);
    FetchSample(row);
    if (Plans()) {
      const RowPlan plan = MakePlanOfSample();
      if (lane_ == 0) shared_.plan[0] = plan;
    }
    SyncBlocks(Blocks());
    AllowNextKernelToStart();
    int64_t next = row + args_.rows_at_once;
    for (int turn = 0; row < args_.rows; turn ^= 1) {
      FetchSample(min(next, args_.rows - 1));
      TakeRow();
      RowPlan plan = shared_.plan[turn];
      LaneSums sums;
      TermRange range = plan.range;
      VisitOutcome outcome;
      for (bool may_recentre = true;; ring_.Begin(row)) {
        outcome = AddRow(plan, range, row, turn ^ 1, &sums);
        if (outcome.visit == Visit::kExponentTooSmall) {
          plan.minus_k = -rintf(outcome.top * args_.scale);
        } else if (outcome.visit == Visit::kRangeExceeded) {
          range = range <= kSmallRange ? kMediumRange : kWholeRange;
        } else if (outcome.visit == Visit::kSumsCancel && may_recentre) {
          range = range <= kSmallRange ? kMediumRange : kWholeRange;
          Recentre(log1pf(outcome.slope), &plan);
          may_recentre = false;
        } else {
          break;
        }
      }
      if (threadIdx.x == 0 && block_ == 0) {
        args_.records.settings[row] = {plan.shift, static_cast<int>(-plan.minus_k),
                                       plan.shifted ? 1 : 0, outcome.slope};
      }
      StoreSums(sums, Absolute(plan, range, sums, outcome.slope, row, next), row);
      row = next;
      next = outcome.after_next;
    }
    ring_.Drain();
  }

 private:
  static constexpr unsigned kAll = 0xffffffffu;
  static constexpr int kTileBytes = kTileEntries * static_cast<int>(sizeof(T));

  __device__ __forceinline__ int Warps() const { return kWarps != 0 ? kWarps : args_.warps; }
  __device__ __forceinline__ int Blocks() const { return kBlocks != 0 ? kBlocks : args_.blocks; }
  __device__ __forceinline__ int RowWarps() const { return Warps() * Blocks(); }

  // A warp plans for all of its block; they see it once they have met. The first one, since the
  // last may have the cut tile.
  __device__ __forceinline__ bool Plans() const { return warp_ == 0; }
  // The entries it plans by are asked for when it begins the row before.
  __device__ __forceinline__ void FetchSample(int64_t row) {
    if (!Plans()) return;
    const int place = LaneOffset<T>(lane_);
    const int64_t tile = static_cast<int64_t>(SampleTile(args_, lane_)) * kTileBytes + place;
    CopyTile<T, kAligned>(args_.Row(0, row) + tile, shared_.sample[0] + place);
    CopyTile<T, kAligned>(args_.Row(1, row) + tile, shared_.sample[1] + place);
    CommitCopies();
  }
  __device__ __forceinline__ RowPlan MakePlanOfSample() const {
    AwaitCopies<0>();
    LaneLogits<T> train, infer;
    train.Load(shared_.sample[0], lane_);
    infer.Load(shared_.sample[1], lane_);
    return MakePlan(args_, train, infer);
  }

  // It also takes rows for both blocks, from the first one.
  __device__ __forceinline__ bool TakesRows() const { return Plans() && block_ == 0; }
  __device__ __forceinline__ void TakeRow() {
    if (TakesRows() && lane_ == 0) taken_ = args_.few ? 0 : atomicAdd(args_.records.taken, 1);
  }

  // The tile that the row's end cuts.
  __device__ __forceinline__ void LoadCut(int64_t row, LaneLogits<T>* train,
                                          LaneLogits<T>* infer) const {
    // Or all warps would reckon the addresses, ahead of the one that needs them.
    asm volatile("" : "+l"(row));
    const int first = (args_.tiles - 1) * kTileEntries;
    const int count = args_.vocab - first;
    train->LoadEntries(reinterpret_cast<const T*>(args_.Row(0, row)) + first, lane_, count);
    infer->LoadEntries(reinterpret_cast<const T*>(args_.Row(1, row)) + first, lane_, count);
  }

  // The first visit.
  __device__ __forceinline__ VisitOutcome AddRow(const RowPlan& plan, TermRange range, int64_t row,
                                                 int next_turn, LaneSums* sums) {
    LaneMax<T> train_max, infer_max;
    tops_.Begin();
    *sums = LaneSums();
    if (plan.plain && range == kCloseRange) {
      AddTiles<true, kCloseRange>(plan, row, sums, &train_max, &infer_max);
    } else if (plan.plain && range == kMediumRange) {
      AddTiles<true, kMediumRange>(plan, row, sums, &train_max, &infer_max);
    } else if (range == kCloseRange) {
      AddTiles<false, kCloseRange>(plan, row, sums, &train_max, &infer_max);
    } else if (range == kSmallRange) {
      AddTiles<false, kSmallRange>(plan, row, sums, &train_max, &infer_max);
    } else if (range == kMediumRange) {
      AddTiles<false, kMediumRange>(plan, row, sums, &train_max, &infer_max);
    } else {
      AddTiles<false, kWholeRange>(plan, row, sums, &train_max, &infer_max);
    }
    if (range == kCloseRange) FromMoments<kSquare>(sums);
    if (has_cut_) AddCut(plan, row, sums, &train_max, &infer_max);
    if (Plans()) {
      const RowPlan next = MakePlanOfSample();
      float4 words;
      static_assert(sizeof next == sizeof words);
      memcpy(&words, &next, sizeof words);
      shared_.slope.SendWithinBlock(exchanges_, words,
                                    reinterpret_cast<float4*>(&shared_.plan[next_turn]), block_,
                                    Blocks(), lane_);
    }
    if (TakesRows()) {
      const int taken = __shfl_sync(kAll, taken_, 0);
      shared_.slope.SendRowNumber(exchanges_, 2 * args_.rows_at_once + taken, Blocks(), lane_);
    }
    tops_.EndPiece(&train_max, &infer_max);
    const int train_top = tops_.Train();
    const int top = __reduce_max_sync(kAll, train_top);
    top_lane_ = __ffs(static_cast<int>(__ballot_sync(kAll, train_top == top))) - 1;
    SendWeights(*sums, Largest(plan, range, *sums), top, row);
    StoreTops(row);
    return ReceiveOutcome(plan, range);
  }

  __device__ __forceinline__ void StoreTops(int64_t row) const {
    const int64_t warp = row * RowWarps() + row_warp_;
    tops_.Store(args_.records.tops + warp * (kTopWords * 32), PartOf(row)->tops, lane_);
  }

  // `kPlain`: x is y.
  template <bool kPlain, TermRange kRange>
  __device__ __forceinline__ void AddTiles(const RowPlan& plan, int64_t row, LaneSums* sums,
                                           LaneMax<T>* train_max, LaneMax<T>* infer_max) {
    ring_.Forward(
        row,
        [&](const LaneLogits<T>& train, const LaneLogits<T>& infer) {
          AddTile<kPlain, kRange>(plan, train, infer, sums, train_max, infer_max);
        },
        [&] { tops_.EndPiece(train_max, infer_max); });
  }

  template <bool kPlain, TermRange kRange>
  __device__ __forceinline__ void AddTile(const RowPlan& plan, const LaneLogits<T>& train,
                                          const LaneLogits<T>& infer, LaneSums* sums,
                                          LaneMax<T>* train_max, LaneMax<T>* infer_max) const {
    train_max->Add(train);
    infer_max->Add(infer);
    float a[8], x[8], y[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      a[j] = train.At(j);
      x[j] = Difference<kPlain>(plan, a[j], infer.At(j), &y[j]);
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      if constexpr (kRange == kCloseRange) {
        AddMoments<kSquare>(a[j], x[j], args_.scale, plan.minus_k, sums);
      } else {
        AddTerms<kRange, false, kSquare>(a[j], x[j], args_.scale, plan.minus_k, true, sums);
      }
    }
    // After the terms: so the compiler spreads what is read over both register banks best.
    if (!kPlain && plan.shifted) {
      AddSpread(x, sums);
    } else {
      AddSpread(y, sums);
    }
  }

  __device__ __forceinline__ void AddCut(const RowPlan& plan, int64_t row, LaneSums* sums,
                                         LaneMax<T>* train_max, LaneMax<T>* infer_max) {
    LaneLogits<T> train, infer;
    LoadCut(row, &train, &infer);
    train_max->Add(train);
    infer_max->Add(infer);
    const unsigned inside = Inside();
    float a[8], x[8], y[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      a[j] = train.At(j);
      x[j] = Difference<false>(plan, a[j], infer.At(j), &y[j]);
      // An outsider moves no extreme: y takes both signs, or is 0 throughout.
      if ((inside >> j & 1) == 0) a[j] = x[j] = y[j] = 0;
    }
    if (plan.shifted) {
      AddSpread(x, sums);
    } else {
      AddSpread(y, sums);
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      AddTerms<kWholeRange, true, kSquare>(a[j], x[j], args_.scale, plan.minus_k,
                                           (inside >> j & 1) != 0, sums);
    }
  }

  // By bits, which entries of the cut tile lie in the row.
  __device__ __forceinline__ unsigned Inside() const {
    const int first = (args_.tiles - 1) * kTileEntries;
    unsigned inside = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const bool is_inside = first + PlaceInTile<T>(lane_, j) < args_.vocab;
      inside |= static_cast<unsigned>(is_inside) << j;
    }
    return inside;
  }

  // x; *y = b - a.
  template <bool kPlain>
  __device__ __forceinline__ float Difference(const RowPlan& plan, float a, float b,
                                              float* y) const {
    *y = b - a;
    if constexpr (kPlain) return *y;
    return Moved<sizeof(T) == 4>(a, b, *y, args_.inverse_tau, plan.shift);
  }

  __device__ __forceinline__ static void AddSpread(const float (&y)[8], LaneSums* sums) {
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      sums->high = __vimax3_s32(sums->high, __float_as_int(y[j]), __float_as_int(y[j + 1]));
      sums->low = __vimax3_u32(sums->low, __float_as_uint(y[j]), __float_as_uint(y[j + 1]));
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      sums->sum[8] += y[j];
      sums->sum[9] = fmaf(y[j], y[j], sums->sum[9]);
    }
  }

  __device__ WarpPart* PartOf(int64_t row) const {
    return args_.records.parts + row * RowWarps() + row_warp_;
  }

  // |x|, about; infinite where it is beyond the range, as NaN is.
  __device__ __forceinline__ float Largest(const RowPlan& plan, TermRange range,
                                           const LaneSums& sums) const {
    if (range == kWholeRange) return 0;
    if (!Holds(args_, plan, range, sums)) return kFloatInf;
    float low, high;
    ExtremesOf(sums.high, sums.low, &low, &high);
    if (plan.plain || plan.shifted) return fmaxf(-low, high);
    return fmaxf(fabsf(fmaf(low, args_.inverse_tau, -plan.shift)),
                 fabsf(fmaf(high, args_.inverse_tau, -plan.shift)));
  }

  // What the slope is made of: sums of e, q and e (E - x) of the other lanes and of top_lane_;
  // beside them the largest |x| and the largest train entry.
  __device__ __forceinline__ void SendWeights(const LaneSums& sums, float largest, int top,
                                              int64_t row) {
    const bool is_top_lane = lane_ == top_lane_;
    const float all =
        ReduceThree(is_top_lane ? 0.0f : sums.sum[0], is_top_lane ? 0.0f : sums.sum[1],
                    is_top_lane ? 0.0f : sums.sum[2], lane_);
    const int far = __reduce_max_sync(kAll, __float_as_int(largest));
    float rest[3], of_top_lane[3];
#pragma unroll
    for (int k = 0; k < 3; ++k) {
      rest[k] = __shfl_sync(kAll, all, ReducedThree(k));
      of_top_lane[k] = __shfl_sync(kAll, sums.sum[k], top_lane_);
    }
    const WarpMessage message = {
        make_float4(rest[0], rest[1], rest[2], __int_as_float(far)),
        make_float4(of_top_lane[0], of_top_lane[1], of_top_lane[2], __int_as_float(top))};
    shared_.slope.Send(exchanges_, message, row_warp_, RowWarps(), Blocks(), warp_, lane_);
    if (lane_ == 0) PartOf(row)->message = message;
  }

  // Everything else, when the row is done.
  __device__ __forceinline__ void StoreSums(const LaneSums& sums, float absolute,
                                            int64_t row) const {
    static_assert(kOtherSums == 8 && sizeof(float4) * 2 == sizeof(float) * kOtherSums);
    float mine[kOtherSums], rest[kOtherSums];
#pragma unroll
    for (int k = 0; k < kOtherSums; ++k) {
      mine[k] = k + 1 < kOtherSums ? sums.sum[kMessageSums + k] : absolute;
      rest[k] = lane_ == top_lane_ ? 0.0f : mine[k];
    }
    WarpPart* const to = PartOf(row);
    if (lane_ == top_lane_) {
      auto* const four = reinterpret_cast<float4*>(to->top_lane_sum);
      four[0] = make_float4(mine[0], mine[1], mine[2], mine[3]);
      four[1] = make_float4(mine[4], mine[5], mine[6], mine[7]);
    }
    const float value = ReduceEight(rest, lane_);
    if (lane_ % 4 == 0) to->sum[ReducedEight(lane_)] = value;
    const auto low = static_cast<int>(__reduce_max_sync(kAll, sums.low));
    const int high = __reduce_max_sync(kAll, sums.high);
    if (lane_ == 0) *reinterpret_cast<int4*>(&to->low) = make_int4(low, high, top_lane_, 0);
  }

  // On the slope and on what comes of the visit, all warps alike.
  __device__ __forceinline__ VisitOutcome ReceiveOutcome(const RowPlan& plan, TermRange range) {
    const WarpMessage* const messages = shared_.slope.Receive(exchanges_, Blocks());
    const int after_next = shared_.slope.RowNumberOf(exchanges_++);
    WarpMessage its = {make_float4(0.0f, 0.0f, 0.0f, 0.0f),
                       make_float4(0.0f, 0.0f, 0.0f, __int_as_float(INT_MIN))};
    if (lane_ < RowWarps()) its = messages[lane_];
    const float sums = ReduceThree(its.first.x + its.second.x, its.first.y + its.second.y,
                                   its.first.z + its.second.z, lane_);
    const int top = __reduce_max_sync(kAll, __float_as_int(its.second.w));
    const float largest = __int_as_float(__reduce_max_sync(kAll, __float_as_int(its.first.w)));
    const Weights all = {__shfl_sync(kAll, sums, ReducedThree(0)),
                         __shfl_sync(kAll, sums, ReducedThree(1)),
                         __shfl_sync(kAll, sums, ReducedThree(2))};
    VisitOutcome outcome = {Visit::kDone, all.q * InverseApprox(all.e), FromOrderedBits(top),
                            after_next};
    // With the product rounded, as where minus_k was taken from it: the next visit must not find
    // the same.
    const float exponent = outcome.top * args_.scale + plan.minus_k;
    if (exponent > kExponentMax && outcome.top < kFloatInf) {
      outcome.visit = Visit::kExponentTooSmall;
    } else if (largest == kFloatInf) {
      outcome.visit = Visit::kRangeExceeded;
    } else if (!CannotCancel(all, outcome.slope, range) &&
               Cancels(all, WithoutPivot(all, its.second, top), AmplificationIn(range, largest))) {
      outcome.visit = Visit::kSumsCancel;
    }
    return outcome;
  }

  // Sums without the lane that has the pivot; its other entries do not matter here.
  __device__ __forceinline__ Weights WithoutPivot(const Weights& all, const float4& its_top_lane,
                                                  int top) const {
    const unsigned owners = __ballot_sync(kAll, __float_as_int(its_top_lane.w) == top);
    const int owner = __ffs(static_cast<int>(owners)) - 1;
    return {all.e - __shfl_sync(kAll, its_top_lane.x, owner),
            all.q - __shfl_sync(kAll, its_top_lane.y, owner),
            all.residual - __shfl_sync(kAll, its_top_lane.z, owner)};
  }

  // sum |q - s e|, from the last tile to the first; on the way the next row is begun.
  __device__ __forceinline__ float Absolute(const RowPlan& plan, TermRange range,
                                            const LaneSums& sums, float slope, int64_t row,
                                            int64_t next) {
    float sum[2] = {0, 0};
    if (has_cut_) sum[0] = AbsoluteOfCut(plan, slope, row);
    const bool nearest = __all_sync(kAll, sums.low <= __float_as_uint(-kNearestEnd) &&
                                              sums.high <= __float_as_int(kNearestEnd));
    if (plan.plain && nearest) {
      AbsoluteOfTiles<true, kNearestRange>(plan, slope, next, sum);
    } else if (plan.plain && range == kCloseRange) {
      AbsoluteOfTiles<true, kCloseRange>(plan, slope, next, sum);
    } else if (range == kCloseRange) {
      AbsoluteOfTiles<false, kCloseRange>(plan, slope, next, sum);
    } else if (range == kSmallRange) {
      AbsoluteOfTiles<false, kSmallRange>(plan, slope, next, sum);
    } else if (range == kMediumRange) {
      AbsoluteOfTiles<false, kMediumRange>(plan, slope, next, sum);
    } else {
      AbsoluteOfTiles<false, kWholeRange>(plan, slope, next, sum);
    }
    return sum[0] + sum[1];
  }

  __device__ __forceinline__ float AbsoluteOfCut(const RowPlan& plan, float slope,
                                                 int64_t row) const {
    LaneLogits<T> train, infer;
    LoadCut(row, &train, &infer);
    const unsigned inside = Inside();
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float term = AbsoluteOf<false, kWholeRange>(plan, slope, train.At(j), infer.At(j));
      if ((inside >> j & 1) != 0) sum += term;
    }
    return sum;
  }

  template <bool kPlain, TermRange kRange>
  __device__ __forceinline__ void AbsoluteOfTiles(const RowPlan& plan, float slope, int64_t next,
                                                  float (&sum)[2]) {
    ring_.Backward(next, [&](const LaneLogits<T>& train, const LaneLogits<T>& infer) {
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        sum[j & 1] += AbsoluteOf<kPlain, kRange>(plan, slope, train.At(j), infer.At(j));
      }
    });
  }

  template <bool kPlain, TermRange kRange>
  __device__ __forceinline__ float AbsoluteOf(const RowPlan& plan, float slope, float a,
                                              float b) const {
    float y;
    const float x = Difference<kPlain>(plan, a, b, &y);
    const float e = Exp2Approx(fmaf(a, args_.scale, plan.minus_k));
    return fabsf(e * ExcessLess<kRange>(x, slope));
  }

  const SumsArgs& args_;
  SumsShared& shared_;
  const int lane_;
  const int warp_;
  const int block_;     // of the row's
  const int row_warp_;  // of the row's
  const bool has_cut_;  // the warp's last tile is cut by the row's end
  TileRing<T, kAligned> ring_;
  int taken_ = 0;      // how many rows were taken before, in the warp that takes them
  int top_lane_ = 0;   // the lane with the warp's largest train entry
  int exchanges_ = 0;  // for the slope, so far
  LaneTops<T> tops_;
};

template <class T, bool kAligned, bool kSquare, int kWarps, int kBlocks>
__global__ void __launch_bounds__(kWarpsMax * 32, 2)
    RowSumsKernel(const __grid_constant__ SumsArgs args) {
  extern __shared__ __align__(128) char memory[];
  RowSums<T, kAligned, kSquare, kWarps, kBlocks>(args, reinterpret_cast<SumsShared*>(memory),
                                                 memory + kSumsSharedBytes)
      .Run();
}

}  // namespace kcc
