// The sums of one block, in two loops over each sub-block while it is in the nearest cache: first
// the weights, then the differences. One loop over both has too long a chain and too many sums for
// the registers. Multiply-adds, additions and integer operations have their own units, so each is
// given its share: largest and smallest values are found among integers.
#include "kcc/drift/row_kernels.h"

#include <algorithm>
#include <limits>

#include "kcc/base/check.h"
#include "kcc/numeric/by_target.h"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12's AVX-512 intrinsics start from undefined vectors on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kcc/drift/row_kernels_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, once per target.
#include "kcc/numeric/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

// Vectors in flight. The order of additions within a lane does not depend on it. With 16 registers
// a second one costs more than it hides: sums then live in memory.
inline constexpr size_t kWeighAbreast = HWY_TARGET == HWY_AVX3 ? 4 : 1;
inline constexpr size_t kCompareAbreast = HWY_TARGET == HWY_AVX3 ? 2 : 1;

// What a block sums up about x, in the form that costs least: near 0 as series in u = x^2,
//   E = x + u S, E - x = u S, cosh x - 1 = u C.
struct Terms {
  FloatVec excess;   // E
  FloatVec series;   // S; in the wide range E - x itself
  FloatVec even;     // C; in the wide range cosh x - 1 itself
  FloatVec reverse;  // wide range only
};

template <int kRange>
HWY_INLINE Terms ExpTerms(FloatVec x, FloatVec u) {
  Terms terms;
  terms.even = EvenSeries<kRange>(u);
  terms.series = Fma(x, OddSeries<kRange>(u), terms.even);
  terms.excess = Fma(u, terms.series, x);
  terms.reverse = x;
  if constexpr (kRange == kWide) {
    const auto is_near = hn::Le(hn::Abs(x), Set(1.0f));
    const FloatVec one = Set(1.0f);
    const FloatVec e_x = ExpWide(x);
    const FloatVec excess = hn::Sub(e_x, one);
    const FloatVec twice_cosh = hn::Div(hn::Mul(excess, excess), e_x);
    const FloatVec residual = hn::Mul(u, terms.series);
    terms.reverse =
        hn::IfThenElse(is_near, Fms(x, terms.excess, residual), Fma(e_x, hn::Sub(x, one), one));
    terms.series = hn::IfThenElse(is_near, residual, hn::Sub(excess, x));
    terms.even = hn::IfThenElse(is_near, hn::Mul(u, terms.even), hn::Mul(twice_cosh, Set(0.5f)));
    terms.excess = hn::IfThenElse(is_near, terms.excess, excess);
  }
  return terms;
}

// infer - train - shift with one rounding at the end: the part lost in the first subtraction is
// found again (Knuth's two-sum), so that a large shift leaves small differences exact.
HWY_INLINE FloatVec ShiftedDifference(FloatVec train, FloatVec infer, FloatVec shift) {
  const FloatVec s = hn::Sub(infer, train);
  const FloatVec infer_part = hn::Add(s, train);
  const FloatVec train_part = hn::Sub(infer_part, s);
  const FloatVec lost = hn::Add(hn::Sub(infer, infer_part), hn::Sub(train_part, train));
  return hn::Add(hn::Sub(s, shift), lost);
}

// Where the weight e of entry i is in the scratch, i being in a vector that starts in virtual lane
// `lane` of a group; e E follows 16 further on.
HWY_INLINE size_t ScratchOf(size_t i, size_t lane) { return 2 * i - lane; }

// By the first group of real lanes, for all 16 virtual ones; of vectors abreast, the k-th where it
// begins a line.
template <class T, bool kFetch>
HWY_INLINE void FetchAhead(const char* base, size_t i, size_t k) {
  constexpr size_t kVectorsPerLine = 64 / (kVirtualLanes * sizeof(T));
  if (kFetch && k % kVectorsPerLine == 0) __builtin_prefetch(base + i * sizeof(T), 0, 2);
}

// Sums of the weights of one group of real lanes.
struct WeightSums {
  FloatVec e, e_logit, absolute;

  // Written out: a constructor that the compiler adds would not be compiled for the target.
  HWY_INLINE WeightSums() { e = e_logit = absolute = Set(0); }
  HWY_INLINE WeightSums(const WeightSums& from) { *this = from; }
  // Field by field: g++ copies a struct of this size by `rep movs`, which costs as much as a loop.
  HWY_INLINE WeightSums& operator=(const WeightSums& from) {
    e = from.e;
    e_logit = from.e_logit;
    absolute = from.absolute;
    return *this;
  }
};

struct DriftSums {
  FloatVec q, residual, reverse, square, cosh, q_logit, d, d_square;
  // The largest of d as a signed integer is the largest d, or 0; as an unsigned one the smallest d,
  // or -0. Unlike float compares, which share their unit with additions.
  hn::Vec<IntTag> max_d;
  hn::Vec<UintTag> min_d;

  HWY_INLINE DriftSums() {
    q = residual = reverse = square = cosh = q_logit = d = d_square = Set(0);
    max_d = hn::Zero(IntTag());
    min_d = hn::BitCast(UintTag(), Set(-0.0f));
  }
  HWY_INLINE DriftSums(const DriftSums& from) { *this = from; }
  HWY_INLINE DriftSums& operator=(const DriftSums& from) {
    q = from.q;
    residual = from.residual;
    reverse = from.reverse;
    square = from.square;
    cosh = from.cosh;
    q_logit = from.q_logit;
    d = from.d;
    d_square = from.d_square;
    max_d = from.max_d;
    min_d = from.min_d;
    return *this;
  }
};

// max(a, floor): a float compare from below is an unsigned compare from above where the bound is
// negative.
HWY_INLINE FloatVec Raise(FloatVec a, hn::Vec<UintTag> floor) {
  return hn::BitCast(FloatTag(), hn::Min(hn::BitCast(UintTag(), a), floor));
}

// The weights of a sub-block: e into the scratch, once what lay there is summed up; the train row
// as floats into `widened` where it is not, and the largest t (lanes-inl.h).
template <class T, bool kShifted, bool kFetch>
HWY_INLINE hn::Vec<IntTag> Weigh(const BlockArgs& args, size_t begin, size_t end, size_t lane,
                                 float* widened, WeightSums* to) {
  const T* HWY_RESTRICT train = static_cast<const T*>(args.train);
  float* HWY_RESTRICT scratch = args.scratch;
  const char* const ahead = args.prefetch_train;
  const TableOf8 table = LoadTable(kExp2Table);
  const FloatVec scale = Set(args.scale);
  const FloatVec rounding = Set(args.rounding);
  const FloatVec centre = Set(args.centre);
  const FloatVec slope = Set(args.slope);
  const auto floor = hn::BitCast(UintTag(), Set(args.floor));
  auto peak = hn::Zero(IntTag());
  WeightSums sums = *to;
  for (size_t i = begin + lane; i < end; i += kVirtualLanes * kWeighAbreast) {
    FloatVec a[kWeighAbreast], t[kWeighAbreast], r[kWeighAbreast], e[kWeighAbreast];
    for (size_t k = 0; k < kWeighAbreast; ++k) {
      FetchAhead<T, kFetch>(ahead, i + k * kVirtualLanes, k);
      a[k] = LoadFloats(train + i + k * kVirtualLanes);
      if constexpr (sizeof(T) != sizeof(float)) {
        hn::StoreU(a[k], FloatTag(), widened + (i - begin) + k * kVirtualLanes);
      }
      if constexpr (kShifted) a[k] = hn::Sub(a[k], Set(args.origin));
      // A mask may be a number as large as any: its product with a raised weight must not count.
      a[k] = Raise(a[k], floor);
      t[k] = Fma(a[k], scale, rounding);
    }
    for (size_t k = 0; k < kWeighAbreast; ++k) {
      peak = hn::Max(peak, hn::BitCast(IntTag(), t[k]));
      e[k] = Exp2Whole(table, t[k]);
      r[k] = Fms(a[k], scale, hn::Sub(t[k], rounding));
    }
    for (size_t k = 0; k < kWeighAbreast; ++k) r[k] = Exp2Excess(r[k]);
    for (size_t k = 0; k < kWeighAbreast; ++k) {
      float* const at = scratch + ScratchOf(i + k * kVirtualLanes, lane);
      const FloatVec old_e = hn::LoadU(FloatTag(), at);
      const FloatVec old_q = hn::LoadU(FloatTag(), at + kVirtualLanes);
      sums.absolute = hn::Add(sums.absolute, hn::Abs(Fnma(slope, old_e, old_q)));
      e[k] = Fma(e[k], r[k], e[k]);
      hn::StoreU(e[k], FloatTag(), at);
      sums.e = hn::Add(sums.e, e[k]);
      sums.e_logit = Fma(e[k], hn::Sub(a[k], centre), sums.e_logit);
    }
  }
  *to = sums;
  return peak;
}

// What the differences of a sub-block add up to, once its weights are known.
template <class T, bool kShifted, int kRange, bool kSquare, bool kFetch>
HWY_INLINE void Compare(const BlockArgs& args, size_t begin, size_t end, size_t lane,
                        const float* train, DriftSums* to) {
  const T* HWY_RESTRICT infer = static_cast<const T*>(args.infer);
  float* HWY_RESTRICT scratch = args.scratch;
  const char* const ahead = args.prefetch_infer;
  const auto floor = hn::BitCast(UintTag(), Set(args.floor));
  DriftSums sums = *to;
  for (size_t i = begin + lane; i < end; i += kVirtualLanes * kCompareAbreast) {
    FloatVec a[kCompareAbreast], d[kCompareAbreast], u[kCompareAbreast];
    Terms terms[kCompareAbreast];
    for (size_t k = 0; k < kCompareAbreast; ++k) {
      const size_t at = i + k * kVirtualLanes;
      FetchAhead<T, kFetch>(ahead, at, k);
      a[k] = LoadFloats(train + (at - begin));
      const FloatVec b = LoadFloats(infer + at);
      if constexpr (kShifted) {
        d[k] = ShiftedDifference(a[k], b, Set(args.shift));
        // Raised as in Weigh: a mask on both sides moves by the shift, and its product with the
        // logit must not count. Where nothing is shifted it does not move.
        a[k] = Raise(hn::Sub(a[k], Set(args.origin)), floor);
      } else {
        d[k] = hn::Sub(b, a[k]);
      }
      sums.max_d = hn::Max(sums.max_d, hn::BitCast(IntTag(), d[k]));
      sums.min_d = hn::Max(sums.min_d, hn::BitCast(UintTag(), d[k]));
      sums.d = hn::Add(sums.d, d[k]);
      if constexpr (kShifted) {
        sums.d_square = Fma(d[k], d[k], sums.d_square);
        d[k] = hn::Mul(d[k], Set(args.inverse_temperature));
      }
      u[k] = hn::Mul(d[k], d[k]);
      if constexpr (!kShifted) sums.d_square = hn::Add(sums.d_square, u[k]);
    }
    for (size_t k = 0; k < kCompareAbreast; ++k) terms[k] = ExpTerms<kRange>(d[k], u[k]);
    for (size_t k = 0; k < kCompareAbreast; ++k) {
      const size_t at = i + k * kVirtualLanes;
      const FloatVec e = hn::LoadU(FloatTag(), scratch + ScratchOf(at, lane));
      const FloatVec q = hn::Mul(e, terms[k].excess);
      hn::StoreU(q, FloatTag(), scratch + ScratchOf(at, lane) + kVirtualLanes);
      sums.q = hn::Add(sums.q, q);
      // e u S and e u C share a factor.
      const FloatVec weight = kRange == kWide ? e : hn::Mul(e, u[k]);
      if constexpr (kRange == kNearest) {
        sums.residual = hn::Add(sums.residual, weight);
        sums.cosh = Fma(weight, u[k], sums.cosh);
      } else {
        sums.residual = Fma(weight, terms[k].series, sums.residual);
        sums.cosh = Fma(weight, terms[k].even, sums.cosh);
      }
      sums.reverse =
          kRange == kWide ? Fma(e, terms[k].reverse, sums.reverse) : Fma(q, d[k], sums.reverse);
      if constexpr (kSquare) sums.square = Fma(q, terms[k].excess, sums.square);
      sums.q_logit = Fma(q, a[k], sums.q_logit);
    }
  }
  *to = sums;
}

HWY_INLINE void StoreSums(const WeightSums& weights, const DriftSums& drift, size_t lane,
                          BlockSums* to) {
  const FloatVec all[kBlockSums] = {weights.e,    drift.q,        drift.residual,  drift.reverse,
                                    drift.square, drift.cosh,     weights.e_logit, drift.q_logit,
                                    drift.d,      drift.d_square, weights.absolute};
  for (size_t sum = 0; sum < kBlockSums; ++sum) {
    hn::Store(all[sum], FloatTag(), to->lanes[sum] + lane);
  }
}

template <class T, bool kShifted, int kRange, bool kSquare>
void SumBlock(const BlockArgs& args) {
  constexpr size_t kParts = kVirtualLanes / kRealLanes;
  WeightSums weights[kParts];
  DriftSums drift[kParts];
  alignas(64) float widened[sizeof(T) == sizeof(float) ? 16 : kSubBlockEntries];
  for (size_t begin = 0; begin < args.count; begin += kSubBlockEntries) {
    const size_t end = std::min(begin + kSubBlockEntries, args.count);
    auto peak = Weigh<T, kShifted, true>(args, begin, end, 0, widened, &weights[0]);
    for (size_t part = 1; part < kParts; ++part) {
      peak = hn::Max(peak, Weigh<T, kShifted, false>(args, begin, end, part * kRealLanes, widened,
                                                     &weights[part]));
    }
    args.peaks[begin / kSubBlockEntries] = hn::GetLane(hn::MaxOfLanes(IntTag(), peak));
    const float* train = widened;
    if constexpr (sizeof(T) == sizeof(float)) train = static_cast<const T*>(args.train) + begin;
    Compare<T, kShifted, kRange, kSquare, true>(args, begin, end, 0, train, &drift[0]);
    for (size_t part = 1; part < kParts; ++part) {
      Compare<T, kShifted, kRange, kSquare, false>(args, begin, end, part * kRealLanes, train,
                                                   &drift[part]);
    }
  }
  auto max_d = drift[0].max_d;
  auto min_d = drift[0].min_d;
  for (size_t part = 0; part < kParts; ++part) {
    StoreSums(weights[part], drift[part], part * kRealLanes, args.sums);
    max_d = hn::Max(max_d, drift[part].max_d);
    min_d = hn::Max(min_d, drift[part].min_d);
  }
  max_d = hn::MaxOfLanes(IntTag(), max_d);
  min_d = hn::MaxOfLanes(UintTag(), min_d);
  args.sums->max_d = hn::GetLane(hn::BitCast(FloatTag(), max_d));
  args.sums->min_d = hn::GetLane(hn::BitCast(FloatTag(), min_d));
}

template <class T>
ScanResult Scan(const void* train_row, const void* infer_row, size_t count, float shift) {
  const T* train = static_cast<const T*>(train_row);
  const T* infer = static_cast<const T*>(infer_row);
  FloatVec high = Set(-std::numeric_limits<float>::infinity());
  FloatVec low = Set(std::numeric_limits<float>::infinity());
  FloatVec min_d = low;
  FloatVec max_d = high;
  for (size_t i = 0; i < count; i += kRealLanes) {
    const FloatVec a = LoadFloats(train + i);
    const FloatVec d = ShiftedDifference(a, LoadFloats(infer + i), Set(shift));
    high = hn::Max(high, a);
    low = hn::Min(low, a);
    min_d = hn::Min(min_d, d);
    max_d = hn::Max(max_d, d);
  }
  const FloatTag tag;
  return {hn::GetLane(hn::MaxOfLanes(tag, high)), hn::GetLane(hn::MinOfLanes(tag, low)),
          hn::GetLane(hn::MinOfLanes(tag, min_d)), hn::GetLane(hn::MaxOfLanes(tag, max_d))};
}

template <class T>
size_t Collect(const void* from, size_t begin, size_t end, float threshold, int32_t* positions) {
  const T* row = static_cast<const T*>(from);
  const FloatVec at_least = Set(threshold);
  size_t count = 0;
  size_t i = begin;
  for (; i + kRealLanes <= end; i += kRealLanes) {
    const auto is_high = hn::Ge(LoadFloats(row + i), at_least);
    if (hn::AllFalse(FloatTag(), is_high)) continue;
    uint8_t bits[8] = {};
    hn::StoreMaskBits(FloatTag(), is_high, bits);
    for (size_t lane = 0; lane < kRealLanes; ++lane) {
      if (bits[lane / 8] >> (lane % 8) & 1) positions[count++] = static_cast<int32_t>(i + lane);
    }
  }
  for (; i < end; ++i) {
    const hn::CappedTag<float, 1> one;
    float value;
    if constexpr (sizeof(T) == 4) {
      value = row[i];
    } else {
      value = hn::GetLane(hn::BitCast(one, hn::Set(hn::RebindToUnsigned<decltype(one)>(),
                                                   static_cast<uint32_t>(row[i]) << 16)));
    }
    if (value >= threshold) positions[count++] = static_cast<int32_t>(i);
  }
  return count;
}

// Several sums at a time: one alone would wait for each addition.
void AddBlocks(const BlockSums* blocks, const int* ranges, size_t count, int first, int last,
               double (*lanes)[16]) {
  const hn::CappedTag<double, kVirtualLanes / 2> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  constexpr size_t kAbreast = 5;
  static_assert((kSumDSquare + 1) % kAbreast == 0);
  for (size_t sum = 0; sum <= kSumDSquare; sum += kAbreast) {
    for (size_t lane = 0; lane < kVirtualLanes; lane += hn::Lanes(wide)) {
      hn::Vec<decltype(wide)> total[kAbreast];
      for (auto& each : total) each = hn::Zero(wide);
      for (size_t block = 0; block < count; ++block) {
        if (ranges[block] < first || ranges[block] > last) continue;
        for (size_t k = 0; k < kAbreast; ++k) {
          const auto part = hn::LoadU(narrow, blocks[block].lanes[sum + k] + lane);
          total[k] = hn::Add(total[k], hn::PromoteTo(wide, part));
        }
      }
      for (size_t k = 0; k < kAbreast; ++k) hn::StoreU(total[k], wide, lanes[sum + k] + lane);
    }
  }
}

void SumAbsolute(const float* scratch, size_t count, float slope, float* lanes) {
  constexpr size_t kParts = kVirtualLanes / kRealLanes;
  FloatVec sums[kParts];
  for (FloatVec& sum : sums) sum = Set(0);
  const FloatVec factor = Set(slope);
  for (const float* at = scratch; at < scratch + 2 * count; at += 2 * kVirtualLanes) {
    for (size_t part = 0; part < kParts; ++part) {
      const FloatVec e = hn::LoadU(FloatTag(), at + part * kRealLanes);
      const FloatVec q = hn::LoadU(FloatTag(), at + kVirtualLanes + part * kRealLanes);
      sums[part] = hn::Add(sums[part], hn::Abs(Fnma(factor, e, q)));
    }
  }
  for (size_t part = 0; part < kParts; ++part) {
    hn::StoreU(sums[part], FloatTag(), lanes + part * kRealLanes);
  }
}

// The plain kernels of small ranges exist without the sum of squares too.
template <class T>
void FillBlocks(RowKernels::BlockFunction (*block)[2][kExpRanges]) {
  block[0][0][0] = &SumBlock<T, false, 0, false>;
  block[0][0][1] = &SumBlock<T, false, 1, false>;
  block[1][0][0] = &SumBlock<T, false, 0, true>;
  block[1][0][1] = &SumBlock<T, false, 1, true>;
  for (size_t square = 0; square < 2; ++square) {
    block[square][0][2] = &SumBlock<T, false, 2, true>;
    block[square][0][3] = &SumBlock<T, false, 3, true>;
    block[square][0][4] = &SumBlock<T, false, 4, true>;
    block[square][1][0] = &SumBlock<T, true, 0, true>;
    block[square][1][1] = &SumBlock<T, true, 1, true>;
    block[square][1][2] = &SumBlock<T, true, 2, true>;
    block[square][1][3] = &SumBlock<T, true, 3, true>;
    block[square][1][4] = &SumBlock<T, true, 4, true>;
  }
}

RowKernels MakeKernels() {
  static_assert(kRanges == kExpRanges && kWide == kWideRange);
  RowKernels kernels;
  FillBlocks<float>(kernels.block[kRowF32]);
  FillBlocks<uint16_t>(kernels.block[kRowBF16]);
  kernels.scan[kRowF32] = &Scan<float>;
  kernels.scan[kRowBF16] = &Scan<uint16_t>;
  kernels.collect[kRowF32] = &Collect<float>;
  kernels.collect[kRowBF16] = &Collect<uint16_t>;
  kernels.add = &AddBlocks;
  kernels.absolute = &SumAbsolute;
  return kernels;
}
const RowKernels& TheRowKernels() {
  static const RowKernels kernels = MakeKernels();
  return kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kcc {

const RowKernels& RowKernelsFor(Target target) { KCC_RETURN_BY_TARGET(target, TheRowKernels()); }

}  // namespace kcc
#endif  // HWY_ONCE
