// SumRlRow and SumRlPair by Highway: one body, compiled for each target.
#include "kcc/rl/row_kernel.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "kcc/base/check.h"
#include "kcc/numeric/highway_targets.h"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12's AVX-512 intrinsics start from undefined vectors on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kcc/rl/row_kernel_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using RlTag = hn::CappedTag<double, kRlLanes>;
using RlVec = hn::Vec<RlTag>;
using RlIntTag = hn::RebindToSigned<RlTag>;
inline constexpr size_t kRlReal = hn::MaxLanes(RlTag());

HWY_INLINE RlVec RlSet(double value) { return hn::Set(RlTag(), value); }

// a b + c, rounded once on every target.
HWY_INLINE RlVec RlFma(RlVec a, RlVec b, RlVec c) {
#if HWY_TARGET == HWY_SCALAR
  return RlVec(std::fma(a.raw, b.raw, c.raw));
#else
  return hn::MulAdd(a, b, c);
#endif
}

struct RlTerms {
  RlVec e;   // e^d - 1
  RlVec k3;  // e^d - 1 - d
};

// The series of (e^r - 1 - r) / r^2 by Taylor, from the last term; the next is below 2^-57.
inline constexpr double kRlSeries[] = {1.0 / 87178291200.0,
                                       1.0 / 6227020800.0,
                                       1.0 / 479001600.0,
                                       1.0 / 39916800.0,
                                       1.0 / 3628800.0,
                                       1.0 / 362880.0,
                                       1.0 / 40320.0,
                                       1.0 / 5040.0,
                                       1.0 / 720.0,
                                       1.0 / 120.0,
                                       1.0 / 24.0,
                                       1.0 / 6.0,
                                       0.5};

// d = n ln2 + r, e^d - 1 = 2^n (e^r - 1) + (2^n - 1). Several vectors go through the series step by
// step: one alone waits for each of its own products.
template <size_t kCount>
HWY_INLINE void RlExp(const RlVec (&d)[kCount], RlTerms (&terms)[kCount]) {
  const RlVec round = RlSet(6755399441055744.0);  // 1.5 * 2^52: the sum's low bits hold n
  RlVec t[kCount], n[kCount], r[kCount], sum[kCount];
  for (size_t k = 0; k < kCount; ++k) {
    t[k] = RlFma(d[k], RlSet(1.4426950408889634), round);
    n[k] = hn::Sub(t[k], round);
    r[k] = RlFma(n[k], RlSet(-6.93147180369123816490e-01), d[k]);
    r[k] = RlFma(n[k], RlSet(-1.90821492927058770002e-10), r[k]);
    sum[k] = RlSet(kRlSeries[0]);
  }
  for (size_t term = 1; term < std::size(kRlSeries); ++term) {
    for (size_t k = 0; k < kCount; ++k) sum[k] = RlFma(sum[k], r[k], RlSet(kRlSeries[term]));
  }
  for (size_t k = 0; k < kCount; ++k) {
    const RlVec residual = hn::Mul(hn::Mul(r[k], r[k]), sum[k]);
    const auto bits = hn::Add(hn::ShiftLeft<52>(hn::BitCast(RlIntTag(), t[k])),
                              hn::BitCast(RlIntTag(), RlSet(1.0)));
    const RlVec scale = hn::BitCast(RlTag(), bits);
    terms[k].e = RlFma(scale, hn::Add(r[k], residual), hn::Sub(scale, RlSet(1.0)));
    terms[k].k3 = hn::IfThenElse(hn::Eq(n[k], RlSet(0.0)), residual, hn::Sub(terms[k].e, d[k]));
  }
}
HWY_INLINE RlTerms RlExp(RlVec d) {
  const RlVec one[1] = {d};
  RlTerms terms[1];
  RlExp(one, terms);
  return terms[0];
}

struct RlLaneSums {
  RlVec d, abs_d, square_d, e, abs_e, square_e, k3, k3_reverse, below, train, rollout, min_d, max_d;

  HWY_INLINE RlLaneSums() {
    d = abs_d = square_d = e = abs_e = square_e = k3 = k3_reverse = below = train = rollout =
        RlSet(0);
    min_d = RlSet(std::numeric_limits<double>::infinity());
    max_d = RlSet(-std::numeric_limits<double>::infinity());
  }
};

struct RlLaneStore {
  double lane[11][kRlLanes];
  double min_d, max_d;
};

HWY_INLINE void AddTerms(RlVec x, const RlTerms& terms, RlLaneSums* sums) {
  sums->d = hn::Add(sums->d, x);
  sums->abs_d = hn::Add(sums->abs_d, hn::Abs(x));
  sums->square_d = RlFma(x, x, sums->square_d);
  sums->e = hn::Add(sums->e, terms.e);
  sums->abs_e = hn::Add(sums->abs_e, hn::Abs(terms.e));
  sums->square_e = RlFma(terms.e, terms.e, sums->square_e);
  sums->k3 = hn::Add(sums->k3, terms.k3);
  sums->k3_reverse = hn::Add(sums->k3_reverse, hn::Sub(hn::Mul(x, terms.e), terms.k3));
  sums->below = hn::Add(sums->below, hn::Max(hn::Neg(terms.e), RlSet(0)));
}

HWY_INLINE void StoreLanes(const RlLaneSums& sums, size_t lane, RlLaneStore* to) {
  const RlTag tag;
  const RlVec all[11] = {sums.d,     sums.abs_d,    sums.square_d, sums.e,
                         sums.abs_e, sums.square_e, sums.k3,       sums.k3_reverse,
                         sums.below, sums.train,    sums.rollout};
  for (size_t s = 0; s < 11; ++s) hn::StoreU(all[s], tag, to->lane[s] + lane);
  to->min_d = std::min(to->min_d, hn::GetLane(hn::MinOfLanes(tag, sums.min_d)));
  to->max_d = std::max(to->max_d, hn::GetLane(hn::MaxOfLanes(tag, sums.max_d)));
}

void SumLanes(const double* d, const double* train, const double* rollout, size_t count,
              double* excess, RlLaneStore* to) {
  const RlTag tag;
  const size_t whole = count / kRlLanes * kRlLanes;
  const size_t padded = (count + kRlLanes - 1) / kRlLanes * kRlLanes;
  to->min_d = std::numeric_limits<double>::infinity();
  to->max_d = -to->min_d;
  for (size_t lane = 0; lane < kRlLanes; lane += kRlReal) {
    RlLaneSums sums;
    for (size_t i = lane; i < padded; i += kRlLanes) {
      const RlVec x = hn::LoadU(tag, d + i);
      const RlTerms terms = RlExp(x);
      if (excess != nullptr) hn::StoreU(terms.e, tag, excess + i);
      AddTerms(x, terms, &sums);
      if (train != nullptr) {
        sums.train = hn::Add(sums.train, hn::LoadU(tag, train + i));
        sums.rollout = hn::Add(sums.rollout, hn::LoadU(tag, rollout + i));
      }
      if (i < whole) {
        sums.min_d = hn::Min(sums.min_d, x);
        sums.max_d = hn::Max(sums.max_d, x);
      }
    }
    StoreLanes(sums, lane, to);
  }
  for (size_t i = whole; i < count; ++i) {
    to->min_d = std::min(to->min_d, d[i]);
    to->max_d = std::max(to->max_d, d[i]);
  }
}

using RlFloatTag = hn::Rebind<float, RlTag>;

HWY_INLINE RlVec Widened(const float* from) {
  return hn::PromoteTo(RlTag(), hn::LoadU(RlFloatTag(), from));
}
HWY_INLINE RlVec Widened(const double* from) { return hn::LoadU(RlTag(), from); }

// Whether the float32 forms have the same bits, as a double 1 or 0. Of numbers that come from
// float32 the difference says it.
HWY_INLINE RlVec SameFloat(const float*, RlVec, RlVec, RlVec d) {
  return hn::IfThenElseZero(hn::Eq(d, RlSet(0)), RlSet(1));
}
HWY_INLINE RlVec SameFloat(const double*, RlVec t, RlVec r, RlVec) {
  const RlFloatTag tag;
  const RlVec a = hn::PromoteTo(RlTag(), hn::DemoteTo(tag, t));
  const RlVec b = hn::PromoteTo(RlTag(), hn::DemoteTo(tag, r));
  return hn::IfThenElseZero(hn::Eq(a, b), RlSet(1));
}

// The bucket of each d, as CountRlBuckets has it; |d| <= 700 needs no bound above.
HWY_INLINE void StoreBuckets(RlVec d, int64_t* to) {
  const RlIntTag tag;
  const auto sign = hn::ShiftRight<63>(hn::BitCast(tag, d));
  const auto size = hn::BitCast(tag, hn::Max(hn::Abs(d), RlSet(0x1p-30)));
  const auto at = hn::Sub(hn::ShiftRight<46>(size), hn::Set(tag, kRlBucketFirst));
  const auto bucket = hn::Add(hn::Xor(at, sign), hn::Set(tag, int64_t{kRlBucketsOneSide}));
  hn::StoreU(bucket, tag, to);
}

struct RlPairLanes {
  RlLaneSums sums;
  RlVec top, equal;
  HWY_INLINE RlPairLanes() {
    top = RlSet(-std::numeric_limits<double>::infinity());
    equal = RlSet(0);
  }
};

// kCount vectors of pairs, kRlLanes apart; *x gets their differences.
template <size_t kCount, class T>
HWY_INLINE void AddPairs(const T* train, const T* rollout, size_t i, const RlPairOutput& out,
                         RlPairLanes* lanes, RlVec (&x)[kCount]) {
  const RlTag tag;
  RlVec t[kCount], r[kCount];
  RlTerms terms[kCount];
  for (size_t k = 0; k < kCount; ++k) {
    t[k] = Widened(train + k * kRlLanes);
    r[k] = Widened(rollout + k * kRlLanes);
    x[k] = hn::Sub(t[k], r[k]);
  }
  RlExp(x, terms);
  for (size_t k = 0; k < kCount; ++k) {
    const size_t at = i + k * kRlLanes;
    if (out.excess != nullptr) hn::StoreU(terms[k].e, tag, out.excess + at);
    if (out.log_ratio != nullptr) hn::StoreU(x[k], tag, out.log_ratio + at);
    if (out.buckets != nullptr) StoreBuckets(x[k], out.buckets + at);
    AddTerms(x[k], terms[k], &lanes->sums);
    lanes->sums.train = hn::Add(lanes->sums.train, t[k]);
    lanes->sums.rollout = hn::Add(lanes->sums.rollout, r[k]);
    lanes->top = hn::Max(lanes->top, hn::Max(t[k], r[k]));
    lanes->equal = hn::Add(lanes->equal, SameFloat(train, t[k], r[k], x[k]));
  }
}

template <size_t kCount>
HWY_INLINE void AddExtremes(const RlVec (&x)[kCount], RlPairLanes* lanes) {
  for (size_t k = 0; k < kCount; ++k) {
    lanes->sums.min_d = hn::Min(lanes->sums.min_d, x[k]);
    lanes->sums.max_d = hn::Max(lanes->sums.max_d, x[k]);
  }
}

// Reads exactly `count` numbers of each side: what is left of a multiple of 8 goes through copies
// that end in zeros.
template <class T>
void SumPairLanes(const T* train, const T* rollout, size_t count, const RlPairOutput& out,
                  RlLaneStore* to, double* top, double* equal) {
  const RlTag tag;
  const size_t whole = count / kRlLanes * kRlLanes;
  T last_train[kRlLanes] = {}, last_rollout[kRlLanes] = {};
  std::copy(train + whole, train + count, last_train);
  std::copy(rollout + whole, rollout + count, last_rollout);
  to->min_d = std::numeric_limits<double>::infinity();
  to->max_d = -to->min_d;
  *top = -to->min_d;
  *equal = 0;
  for (size_t lane = 0; lane < kRlLanes; lane += kRlReal) {
    RlPairLanes lanes;
    RlVec both[2], one[1];
    size_t i = lane;
    for (; i + kRlLanes < whole; i += 2 * kRlLanes) {
      AddPairs(train + i, rollout + i, i, out, &lanes, both);
      AddExtremes(both, &lanes);
    }
    if (i < whole) {
      AddPairs(train + i, rollout + i, i, out, &lanes, one);
      AddExtremes(one, &lanes);
    }
    *top = std::max(*top, hn::GetLane(hn::MaxOfLanes(tag, lanes.top)));
    if (whole < count) {
      AddPairs(last_train + lane, last_rollout + lane, whole + lane, out, &lanes, one);
    }
    *equal += hn::GetLane(hn::SumOfLanes(tag, lanes.equal));
    StoreLanes(lanes.sums, lane, to);
  }
  for (size_t i = whole; i < count; ++i) {
    const double t = last_train[i - whole], r = last_rollout[i - whole];
    to->min_d = std::min(to->min_d, t - r);
    to->max_d = std::max(to->max_d, t - r);
    *top = std::max({*top, t, r});
  }
  if (whole < count) *equal -= static_cast<double>(whole + kRlLanes - count);
}

void SumPairLanesOf(const RlPairInput& in, const RlPairOutput& out, RlLaneStore* to, double* top,
                    double* equal) {
  if (in.is_double) {
    SumPairLanes(static_cast<const double*>(in.train), static_cast<const double*>(in.rollout),
                 in.count, out, to, top, equal);
  } else {
    SumPairLanes(static_cast<const float*>(in.train), static_cast<const float*>(in.rollout),
                 in.count, out, to, top, equal);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kcc {
namespace {

template <class Store>
RlRowSums Gather(const Store& store, size_t count) {
  RlRowSums sums;
  double* to[11] = {&sums.d,     &sums.abs_d,    &sums.square_d, &sums.e,
                    &sums.abs_e, &sums.square_e, &sums.k3,       &sums.k3_reverse,
                    &sums.below, &sums.train,    &sums.rollout};
  for (size_t s = 0; s < 11; ++s) *to[s] = AddRlLanes(store.lane[s]);
  if (count > 0) {
    sums.min_d = store.min_d;
    sums.max_d = store.max_d;
  }
  return sums;
}

}  // namespace

RlRowSums SumRlRow(const double* d, const double* train, const double* rollout, size_t count,
                   double* excess, Target target) {
#if HWY_TARGETS & HWY_AVX2
  if (target == Target::kAvx2) {
    N_AVX2::RlLaneStore store;
    N_AVX2::SumLanes(d, train, rollout, count, excess, &store);
    return Gather(store, count);
  }
#endif
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::kAvx512) {
    N_AVX3::RlLaneStore store;
    N_AVX3::SumLanes(d, train, rollout, count, excess, &store);
    return Gather(store, count);
  }
#endif
  KCC_CHECK(target == Target::kScalar);
  N_SCALAR::RlLaneStore store;
  N_SCALAR::SumLanes(d, train, rollout, count, excess, &store);
  return Gather(store, count);
}

namespace {

// Everything usual: |d| <= 700 and no log-prob above 1e-3. A NaN or an infinity shows in the sum.
template <class Store>
RlPairSums GatherPair(const Store& store, size_t count, double top, double equal) {
  RlPairSums sums;
  sums.row = Gather(store, count);
  sums.equal = static_cast<int64_t>(equal);
  sums.usual =
      count == 0 || (std::isfinite(sums.row.d) && top <= kRlLogProbMax &&
                     sums.row.min_d >= -kRlLogRatioMax && sums.row.max_d <= kRlLogRatioMax);
  return sums;
}

}  // namespace

RlPairSums SumRlPair(const RlPairInput& in, const RlPairOutput& out, Target target) {
  double top = 0, equal = 0;
#if HWY_TARGETS & HWY_AVX2
  if (target == Target::kAvx2) {
    N_AVX2::RlLaneStore store;
    N_AVX2::SumPairLanesOf(in, out, &store, &top, &equal);
    return GatherPair(store, in.count, top, equal);
  }
#endif
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::kAvx512) {
    N_AVX3::RlLaneStore store;
    N_AVX3::SumPairLanesOf(in, out, &store, &top, &equal);
    return GatherPair(store, in.count, top, equal);
  }
#endif
  KCC_CHECK(target == Target::kScalar);
  N_SCALAR::RlLaneStore store;
  N_SCALAR::SumPairLanesOf(in, out, &store, &top, &equal);
  return GatherPair(store, in.count, top, equal);
}

}  // namespace kcc
#endif  // HWY_ONCE
