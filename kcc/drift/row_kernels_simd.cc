// The sums of one block, two vectors abreast: more would not fit into registers. On CPUs with 256
// bit units the multiply-adds set the pace, so whatever can be an addition or an integer operation
// is one.
#include "kcc/drift/row_kernels.h"

#include <algorithm>
#include <limits>

#include "kcc/base/check.h"
#include "kcc/numeric/highway_targets.h"

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

// Vectors in flight. The order of additions within a lane does not depend on it.
inline constexpr size_t kAbreast = HWY_TARGET == HWY_AVX3 ? 2 : HWY_TARGET == HWY_AVX2 ? 2 : 1;

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

HWY_INLINE FloatVec Exponential(FloatVec a, const BlockArgs& args) {
  // A float compare from below is an unsigned compare from above where the bound is negative; the
  // integer units are less busy.
  const auto bits = hn::Min(hn::BitCast(UintTag(), a), hn::BitCast(UintTag(), Set(args.floor)));
  const FloatVec clamped = hn::BitCast(FloatTag(), bits);
  const FloatVec t = Fma(clamped, Set(args.scale), Set(args.rounding));
  const FloatVec n = hn::Sub(t, Set(args.rounding));
  const FloatVec y = Exp2Fraction(Fms(clamped, Set(args.scale), n));
  return hn::BitCast(
      FloatTag(), hn::Add(hn::BitCast(IntTag(), y), hn::ShiftLeft<23>(hn::BitCast(IntTag(), t))));
}

template <class T>
HWY_INLINE void PrefetchAhead(const char* base, size_t entry) {
  if (base == nullptr) return;
  for (size_t line = 0; line < kGroupEntries * sizeof(T); line += 64) {
    __builtin_prefetch(base + entry * sizeof(T) + line, 0, 2);
  }
}

HWY_INLINE void KeepPeak(FloatVec peak, bool first, float* to) {
  const float value = hn::GetLane(hn::MaxOfLanes(FloatTag(), peak));
  *to = first ? value : std::max(*to, value);
}

struct Accumulators {
  FloatVec e, q, residual, reverse, square, cosh, e_logit, q_logit, d, d_square, min_d, max_d;

  // Written out: a constructor that the compiler adds would not be compiled for the target.
  HWY_INLINE Accumulators() {
    e = q = residual = reverse = square = cosh = e_logit = q_logit = d = d_square = Set(0);
    min_d = Set(std::numeric_limits<float>::infinity());
    max_d = Set(-std::numeric_limits<float>::infinity());
  }

  HWY_INLINE void Store(size_t lane, BlockSums* to) const {
    const FloatVec all[kBlockSums] = {e,       q,       residual, reverse,  square, cosh,
                                      e_logit, q_logit, d,        d_square, min_d,  max_d};
    for (size_t sum = 0; sum < kBlockSums; ++sum) {
      hn::Store(all[sum], FloatTag(), to->lanes[sum] + lane);
    }
  }
};

template <class T, bool kShifted, int kRange, bool kSquare>
void SumBlock(const BlockArgs& args) {
  const T* HWY_RESTRICT train = static_cast<const T*>(args.train);
  const T* HWY_RESTRICT infer = static_cast<const T*>(args.infer);
  const FloatVec lowest = Set(-std::numeric_limits<float>::infinity());
  for (size_t lane = 0; lane < kVirtualLanes; lane += kRealLanes) {
    Accumulators sums;
    for (size_t begin = 0; begin < args.count; begin += kSubBlockEntries) {
      const size_t end = std::min(begin + kSubBlockEntries, args.count);
      FloatVec train_peak = lowest;
      FloatVec infer_peak = lowest;
      for (size_t i = begin; i < end; i += kVirtualLanes * kAbreast) {
        if (lane == 0 && i % kGroupEntries == 0) {
          PrefetchAhead<T>(args.prefetch_train, i);
          PrefetchAhead<T>(args.prefetch_infer, i);
        }
        FloatVec a[kAbreast], d[kAbreast], u[kAbreast], e[kAbreast];
        Terms terms[kAbreast];
        for (size_t k = 0; k < kAbreast; ++k) {
          const size_t at = i + k * kVirtualLanes + lane;
          a[k] = LoadFloats(train + at);
          const FloatVec b = LoadFloats(infer + at);
          train_peak = hn::Max(train_peak, a[k]);
          infer_peak = hn::Max(infer_peak, b);
          if constexpr (kShifted) {
            d[k] = ShiftedDifference(a[k], b, Set(args.shift));
            a[k] = hn::Sub(a[k], Set(args.origin));
          } else {
            d[k] = hn::Sub(b, a[k]);
          }
          sums.min_d = hn::Min(sums.min_d, d[k]);
          sums.max_d = hn::Max(sums.max_d, d[k]);
        }
        for (size_t k = 0; k < kAbreast; ++k) e[k] = Exponential(a[k], args);
        for (size_t k = 0; k < kAbreast; ++k) {
          sums.d = hn::Add(sums.d, d[k]);
          if constexpr (kShifted) {
            sums.d_square = Fma(d[k], d[k], sums.d_square);
            d[k] = hn::Mul(d[k], Set(args.inverse_temperature));
          }
          u[k] = hn::Mul(d[k], d[k]);
          if constexpr (!kShifted) sums.d_square = hn::Add(sums.d_square, u[k]);
        }
        for (size_t k = 0; k < kAbreast; ++k) terms[k] = ExpTerms<kRange>(d[k], u[k]);
        for (size_t k = 0; k < kAbreast; ++k) {
          const size_t at = i + k * kVirtualLanes + lane;
          const FloatVec q = hn::Mul(e[k], terms[k].excess);
          hn::StoreU(e[k], FloatTag(), args.e + at);
          hn::StoreU(q, FloatTag(), args.q + at);
          sums.e = hn::Add(sums.e, e[k]);
          sums.q = hn::Add(sums.q, q);
          // e u S and e u C share a factor.
          const FloatVec weight = kRange == kWide ? e[k] : hn::Mul(e[k], u[k]);
          sums.residual = Fma(weight, terms[k].series, sums.residual);
          sums.cosh = Fma(weight, terms[k].even, sums.cosh);
          sums.reverse = kRange == kWide ? Fma(e[k], terms[k].reverse, sums.reverse)
                                         : Fma(q, d[k], sums.reverse);
          if constexpr (kSquare) sums.square = Fma(q, terms[k].excess, sums.square);
          const FloatVec logit = hn::Sub(a[k], Set(args.centre));
          sums.e_logit = Fma(e[k], logit, sums.e_logit);
          sums.q_logit = Fma(q, logit, sums.q_logit);
        }
      }
      KeepPeak(train_peak, lane == 0, args.train_peaks + begin / kSubBlockEntries);
      KeepPeak(infer_peak, lane == 0, args.infer_peaks + begin / kSubBlockEntries);
    }
    sums.Store(lane, args.sums);
  }
}

template <class T>
ScanResult Scan(const void* train_row, const void* infer_row, size_t count) {
  const T* train = static_cast<const T*>(train_row);
  const T* infer = static_cast<const T*>(infer_row);
  FloatVec high = Set(-std::numeric_limits<float>::infinity());
  FloatVec low = Set(std::numeric_limits<float>::infinity());
  FloatVec min_d = low;
  FloatVec max_d = high;
  for (size_t i = 0; i < count; i += kRealLanes) {
    const FloatVec a = LoadFloats(train + i);
    const FloatVec d = hn::Sub(LoadFloats(infer + i), a);
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

void AddBlocks(const BlockSums* blocks, size_t count, double (*lanes)[16]) {
  const hn::CappedTag<double, kVirtualLanes / 2> wide;
  const hn::Rebind<float, decltype(wide)> narrow;
  for (size_t sum = 0; sum <= kSumDSquare; ++sum) {
    for (size_t lane = 0; lane < kVirtualLanes; lane += hn::Lanes(wide)) {
      auto total = hn::Zero(wide);
      for (size_t block = 0; block < count; ++block) {
        const auto part = hn::LoadU(narrow, blocks[block].lanes[sum] + lane);
        total = hn::Add(total, hn::PromoteTo(wide, part));
      }
      hn::StoreU(total, wide, lanes[sum] + lane);
    }
  }
}

void SumAbsolute(const float* e, const float* q, size_t count, float slope, float* lanes) {
  for (size_t lane = 0; lane < kVirtualLanes; lane += kRealLanes) {
    FloatVec sum = Set(0);
    for (size_t i = lane; i < count; i += kVirtualLanes) {
      const FloatVec of_e = hn::LoadU(FloatTag(), e + i);
      const FloatVec of_q = hn::LoadU(FloatTag(), q + i);
      sum = hn::Add(sum, hn::Abs(Fnma(Set(slope), of_e, of_q)));
    }
    hn::StoreU(sum, FloatTag(), lanes + lane);
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

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kcc {

const RowKernels& RowKernelsFor(Target target) {
  static const RowKernels scalar = N_SCALAR::MakeKernels();
#if HWY_TARGETS & HWY_AVX2
  static const RowKernels avx2 = N_AVX2::MakeKernels();
  if (target == Target::kAvx2) return avx2;
#endif
#if HWY_TARGETS & HWY_AVX3
  static const RowKernels avx512 = N_AVX3::MakeKernels();
  if (target == Target::kAvx512) return avx512;
#endif
  KCC_CHECK(target == Target::kScalar);
  return scalar;
}

}  // namespace kcc
#endif  // HWY_ONCE
