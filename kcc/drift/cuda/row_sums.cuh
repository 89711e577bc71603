// The fast kernel: one block a row pair, which comes from memory once.
//
// The first visit adds up every sum but tv's, whose terms need s = sum e E / sum e. The second one,
// which is for tv alone, begins where the first ended, so that what it reads is still in L2; the
// first tiles of the row wait in shared memory. Warps meet once a row, to agree on s, and no
// reduction depends on timing.
#pragma once

#include "kcc/drift/cuda/row_plan.cuh"

namespace kcc {

struct SumsShared {
  float2 sums[2][kWarpsMax];  // of e and q, by row's parity and warp
};

template <class T, bool kAligned, bool kSquare>
class RowSums {
 public:
  __device__ RowSums(const SumsArgs& args, SumsShared* shared, char* kept)
      : args_(args),
        shared_(*shared),
        kept_(kept + threadIdx.x * sizeof(LaneLogits<T>)),
        lane_(static_cast<int>(threadIdx.x) & 31),
        warp_(static_cast<int>(threadIdx.x) >> 5),
        has_cut_(args.vocab % kTileEntries != 0 && (args.tiles - 1) % args.warps == warp_),
        whole_((args.tiles - warp_ + args.warps - 1) / args.warps - (has_cut_ ? 1 : 0)) {}

  __device__ void Run() {
    int64_t row = blockIdx.x;
    if (row >= args_.rows) return;
    LaneLogits<T> sample[2];
    LoadSample(row, sample);
    Seek(row);
    Load<0>(0);
    Load<1>(1);
    for (int parity = 0; row < args_.rows; row += gridDim.x, parity ^= 1) {
      const RowPlan plan = MakePlan(args_, sample[0], sample[1]);
      LaneSums sums;
      LaneMax<T> train_max, infer_max;
      if (plan.plain) {
        AddRow<true>(plan, &sums, &train_max, &infer_max);
      } else {
        AddRow<false>(plan, &sums, &train_max, &infer_max);
      }
      Load<0>(whole_ - 1);
      Load<1>(whole_ - 2);
      const int64_t next = min(row + gridDim.x, args_.rows - 1);
      LoadSample(next, sample);
      const float2 of_warp =
          StoreSums(row, sums, OrderedBits(train_max.Value()), OrderedBits(infer_max.Value()));
      const float slope = AgreeOnSlope(parity, of_warp);
      if (threadIdx.x == 0) {
        args_.heads[row] = {plan.shift, static_cast<int>(-plan.minus_k), plan.shifted ? 1 : 0,
                            slope};
      }
      const float absolute =
          plan.plain ? SecondVisit<true>(plan, slope, sums) : SecondVisit<false>(plan, slope, sums);
      Seek(next);
      Load<0>(0);
      Load<1>(1);
      StoreAbsolute(row, absolute);
    }
  }

 private:
  static constexpr unsigned kAll = 0xffffffffu;
  static constexpr int kTileBytes = kTileEntries * static_cast<int>(sizeof(T));

  __device__ __forceinline__ void Seek(int64_t row) {
    const int64_t first = static_cast<int64_t>(warp_) * kTileBytes;
    train_at_ = args_.Row(0, row) + first;
    infer_at_ = args_.Row(1, row) + first;
  }
  __device__ __forceinline__ void LoadSample(int64_t row, LaneLogits<T> (&sample)[2]) const {
    LoadTile(args_, args_.Row(0, row), SampleTile(args_, lane_), lane_, &sample[0]);
    LoadTile(args_, args_.Row(1, row), SampleTile(args_, lane_), lane_, &sample[1]);
  }
  // A whole tile of the warp, the k-th; none where there is no k-th.
  template <int kBuffer>
  __device__ __forceinline__ void Load(int k) {
    if (static_cast<unsigned>(k) >= static_cast<unsigned>(whole_)) return;
    const int64_t offset = static_cast<int64_t>(k) * (args_.warps * kTileBytes);
    if constexpr (kAligned) {
      train_[kBuffer].Load(train_at_ + offset, lane_);
      infer_[kBuffer].Load(infer_at_ + offset, lane_);
    } else {
      const auto at = [&](const char* first) { return reinterpret_cast<const T*>(first + offset); };
      train_[kBuffer].LoadEntries(at(train_at_), lane_, kTileEntries);
      infer_[kBuffer].LoadEntries(at(infer_at_), lane_, kTileEntries);
    }
  }
  // The tile that the row's end cuts.
  __device__ __forceinline__ void LoadCut(LaneLogits<T>* train, LaneLogits<T>* infer) const {
    const int count = args_.vocab - (args_.tiles - 1) * kTileEntries;
    const int64_t offset = static_cast<int64_t>(whole_) * (args_.warps * kTileBytes);
    train->LoadEntries(reinterpret_cast<const T*>(train_at_ + offset), lane_, count);
    infer->LoadEntries(reinterpret_cast<const T*>(infer_at_ + offset), lane_, count);
  }

  __device__ __forceinline__ LaneLogits<T>* Kept(int k, int side) const {
    return reinterpret_cast<LaneLogits<T>*>(kept_ + static_cast<size_t>(2 * k + side) *
                                                        (args_.warps * 32 * sizeof(LaneLogits<T>)));
  }

  // `kPlain`: x is y.
  template <bool kPlain>
  __device__ __forceinline__ void AddRow(const RowPlan& plan, LaneSums* sums, LaneMax<T>* train_max,
                                         LaneMax<T>* infer_max) {
    int k = 0;
#pragma unroll 1
    for (; k + 1 < whole_; k += 2) {
      AddBuffer<kPlain, 0>(plan, k, sums, train_max, infer_max);
      AddBuffer<kPlain, 1>(plan, k + 1, sums, train_max, infer_max);
    }
    if (k < whole_) AddBuffer<kPlain, 0>(plan, k, sums, train_max, infer_max);
    if (has_cut_) AddCut<kPlain>(plan, sums, train_max, infer_max);
  }

  template <bool kPlain, int kBuffer>
  __device__ __forceinline__ void AddBuffer(const RowPlan& plan, int k, LaneSums* sums,
                                            LaneMax<T>* train_max, LaneMax<T>* infer_max) {
    train_max->Add(train_[kBuffer]);
    infer_max->Add(infer_[kBuffer]);
    if (k < args_.kept) *Kept(k, 0) = train_[kBuffer], *Kept(k, 1) = infer_[kBuffer];
    float a[8];
    float x[8];
    float y[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      a[j] = train_[kBuffer].At(j);
      x[j] = Apart<kPlain>(plan, a[j], infer_[kBuffer].At(j), &y[j]);
    }
    Load<kBuffer>(k + 2);
    if (!kPlain && plan.shifted) {
      AddSpread(x, sums);
    } else {
      AddSpread(y, sums);
    }
    // NaN lies beyond every bound.
    const bool small = sums->low <= plan.small_low && sums->high <= plan.small_high;
    const bool medium = sums->low <= plan.medium_low && sums->high <= plan.medium_high;
    if (__all_sync(kAll, small)) {
      AddAll<kSmallRange, false>(plan, a, x, 0xff, sums);
    } else if (__all_sync(kAll, medium)) {
      AddAll<kMediumRange, false>(plan, a, x, 0xff, sums);
    } else {
      AddAll<kWholeRange, false>(plan, a, x, 0xff, sums);
    }
  }

  template <bool kPlain>
  __device__ __forceinline__ void AddCut(const RowPlan& plan, LaneSums* sums, LaneMax<T>* train_max,
                                         LaneMax<T>* infer_max) {
    LaneLogits<T> train, infer;
    LoadCut(&train, &infer);
    train_max->Add(train);
    infer_max->Add(infer);
    const unsigned inside = Inside();
    float a[8];
    float x[8];
    float y[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      a[j] = train.At(j);
      x[j] = Apart<kPlain>(plan, a[j], infer.At(j), &y[j]);
      // An outsider moves no extreme: y takes both signs, or is 0 throughout.
      if ((inside >> j & 1) == 0) a[j] = x[j] = y[j] = 0;
    }
    AddSpread(!kPlain && plan.shifted ? x : y, sums);
    AddAll<kWholeRange, true>(plan, a, x, inside, sums);
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

  template <bool kPlain>
  __device__ __forceinline__ float Apart(const RowPlan& plan, float a, float b, float* y) const {
    if constexpr (kPlain) return *y = b - a;
    return Moved<sizeof(T) == 4>(a, b, args_.inverse_tau, plan.shift, y);
  }

  __device__ __forceinline__ static void AddSpread(const float (&y)[8], LaneSums* sums) {
#pragma unroll
    for (int j = 0; j < 8; j += 2) {
      sums->high = max(sums->high, max(__float_as_int(y[j]), __float_as_int(y[j + 1])));
      sums->low = max(sums->low, max(__float_as_uint(y[j]), __float_as_uint(y[j + 1])));
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      sums->sum[8] += y[j];
      sums->sum[9] = fmaf(y[j], y[j], sums->sum[9]);
    }
  }

  template <TermRange kRange, bool kMasked>
  __device__ __forceinline__ void AddAll(const RowPlan& plan, const float (&a)[8],
                                         const float (&x)[8], unsigned counts, LaneSums* sums) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float e, q;
      AddTerms<kRange, kMasked, kSquare>(a[j], x[j], args_.scale, plan.minus_k,
                                         (counts >> j & 1) != 0, sums, &e, &q);
    }
  }

  __device__ WarpPart* PartOf(int64_t row) const { return args_.parts + row * args_.warps + warp_; }

  // Returns the warp's sums of e and q.
  __device__ __forceinline__ float2 StoreSums(int64_t row, const LaneSums& sums, int train_top,
                                              int infer_top) {
    args_.tops[row * (args_.warps * 32) + threadIdx.x] = make_int2(train_top, infer_top);
    const int top = __reduce_max_sync(kAll, train_top);
    apart_ = __ffs(static_cast<int>(__ballot_sync(kAll, train_top == top))) - 1;
    const bool is_apart = lane_ == apart_;
    WarpPart* to = PartOf(row);
    float rest[kLaneSums];
#pragma unroll
    for (int k = 0; k < kLaneSums; ++k) {
      if (is_apart) to->apart_sum[k] = sums.sum[k];
      rest[k] = is_apart ? 0.0f : sums.sum[k];
    }
    const float both = ReduceTwo(rest[0], rest[1], lane_);
    if (lane_ % 16 == 0) to->sum[lane_ / 16] = both;
    const float value = ReduceEight(rest + 2, lane_);
    if (lane_ % 4 == 0) to->sum[2 + ReducedEight(lane_)] = value;
    const unsigned low = __reduce_max_sync(kAll, sums.low);
    const int high = __reduce_max_sync(kAll, sums.high);
    if (lane_ == 0) {
      to->low = low;
      to->high = high;
      to->apart = apart_;
    }
    return make_float2(__shfl_sync(kAll, both, 0) + __shfl_sync(kAll, sums.sum[0], apart_),
                       __shfl_sync(kAll, both, 16) + __shfl_sync(kAll, sums.sum[1], apart_));
  }

  __device__ __forceinline__ float AgreeOnSlope(int parity, float2 of_warp) {
    if (lane_ == 0) shared_.sums[parity][warp_] = of_warp;
    __syncthreads();
    const float2 mine = lane_ < args_.warps ? shared_.sums[parity][lane_] : make_float2(0.0f, 0.0f);
    const float both = ReduceTwo(mine.x, mine.y, lane_);
    return __fdividef(__shfl_sync(kAll, both, 16), __shfl_sync(kAll, both, 0));
  }

  // sum |q - s e|, from the last tile to the first.
  template <bool kPlain>
  __device__ __forceinline__ float SecondVisit(const RowPlan& plan, float slope,
                                               const LaneSums& sums) {
    float absolute[2] = {0, 0};
    const bool small = __all_sync(kAll, sums.low <= plan.small_low && sums.high <= plan.small_high);
    if (small) {
      VisitWhole<kPlain, kSmallRange>(plan, slope, absolute);
    } else {
      VisitWhole<kPlain, kWholeRange>(plan, slope, absolute);
    }
    if (has_cut_) {
      LaneLogits<T> train, infer;
      LoadCut(&train, &infer);
      const unsigned inside = Inside();
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const float term = AbsoluteOf<kPlain, kWholeRange>(plan, slope, train.At(j), infer.At(j));
        if ((inside >> j & 1) != 0) absolute[j & 1] += term;
      }
    }
    return absolute[0] + absolute[1];
  }

  template <bool kPlain, TermRange kRange>
  __device__ __forceinline__ void VisitWhole(const RowPlan& plan, float slope,
                                             float (&absolute)[2]) {
    int k = whole_ - 1;
#pragma unroll 1
    for (; k >= 1; k -= 2) {
      VisitBuffer<kPlain, kRange, 0>(plan, slope, k, absolute);
      VisitBuffer<kPlain, kRange, 1>(plan, slope, k - 1, absolute);
    }
    if (k == 0) VisitBuffer<kPlain, kRange, 0>(plan, slope, k, absolute);
  }

  template <bool kPlain, TermRange kRange, int kBuffer>
  __device__ __forceinline__ void VisitBuffer(const RowPlan& plan, float slope, int k,
                                              float (&absolute)[2]) {
    float a[8];
    float b[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) a[j] = train_[kBuffer].At(j), b[j] = infer_[kBuffer].At(j);
    if (k - 2 >= args_.kept) {
      Load<kBuffer>(k - 2);
    } else if (k >= 2) {
      train_[kBuffer] = *Kept(k - 2, 0), infer_[kBuffer] = *Kept(k - 2, 1);
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      absolute[j & 1] += AbsoluteOf<kPlain, kRange>(plan, slope, a[j], b[j]);
    }
  }

  template <bool kPlain, TermRange kRange>
  __device__ __forceinline__ float AbsoluteOf(const RowPlan& plan, float slope, float a,
                                              float b) const {
    float y;
    const float x = Apart<kPlain>(plan, a, b, &y);
    const float e = Exp2Approx(fmaf(a, args_.scale, plan.minus_k));
    return fabsf(e * (ExcessOf<kRange>(x) - slope));
  }

  __device__ __forceinline__ void StoreAbsolute(int64_t row, float absolute) {
    WarpPart* to = PartOf(row);
    if (lane_ == apart_) to->apart_absolute = absolute;
    float sum = lane_ == apart_ ? 0.0f : absolute;
    for (int mask = 16; mask > 0; mask >>= 1) sum += __shfl_xor_sync(kAll, sum, mask);
    if (lane_ == 0) to->absolute = sum;
  }

  const SumsArgs& args_;
  SumsShared& shared_;
  char* const kept_;
  const int lane_;
  const int warp_;
  const bool has_cut_;              // the warp's last tile is cut by the row's end
  const int whole_;                 // tiles of the warp but that one
  const char* train_at_ = nullptr;  // the warp's first tile of the row
  const char* infer_at_ = nullptr;
  LaneLogits<T> train_[2], infer_[2];  // the next two tiles
  int apart_ = 0;
};

template <class T, bool kAligned, bool kSquare>
__global__ void __launch_bounds__((sizeof(T) == 4 ? kWarpsMaxF32 : kWarpsMax) * 32, 1)
    RowSumsKernel(const __grid_constant__ SumsArgs args) {
  extern __shared__ __align__(128) char memory[];
  constexpr size_t kShared = (sizeof(SumsShared) + 127) / 128 * 128;
  RowSums<T, kAligned, kSquare>(args, reinterpret_cast<SumsShared*>(memory), memory + kShared)
      .Run();
}

}  // namespace kcc
