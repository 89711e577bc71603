// Eight virtual lanes of doubles (row_kernel.h), e^d - 1 and e^d - 1 - d together, and the sums of
// a chunk of log-ratios in them. Included once per target.
#if defined(KCC_RL_ROW_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KCC_RL_ROW_LANES_INL_H_
#undef KCC_RL_ROW_LANES_INL_H_
#else
#define KCC_RL_ROW_LANES_INL_H_
#endif  // per target

#include <cmath>
#include <cstddef>
#include <limits>

#include "hwy/highway.h"
#include "kcc/rl/row_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using RlTag = hn::CappedTag<double, kRlLanes>;
using RlVec = hn::Vec<RlTag>;
using RlFloatTag = hn::Rebind<float, RlTag>;
using RlIntTag = hn::RebindToSigned<RlTag>;
inline constexpr size_t kRlReal = hn::MaxLanes(RlTag());

HWY_INLINE RlVec RlSet(double value) { return hn::Set(RlTag(), value); }

// a b + c, rounded once on every target.
HWY_INLINE RlVec RlFma(RlVec a, RlVec b, RlVec c) {
#if HWY_TARGET == HWY_SCALAR
  return RlVec(std::fma(a.raw, b.raw, c.raw));
#else
  return hn::MulAdd(a, b, c);
#endif  // per target
}

// The polynomials of (e^r - 1 - r) / r^2, from the last term, by interpolation at Chebyshev's
// points: within 2^-57 of it for |r| <= 1/8, 2^-55 for |r| <= ln2 / 2, both relative.
inline constexpr double kRlShortSeries[] = {
    0x1.27f6eadb38abep-22, 0x1.71f9218da2e29p-19, 0x1.a01a00ecbe6ffp-16,
    0x1.a01a00930ee10p-13, 0x1.6c16c16c18ff6p-10, 0x1.11111111146e0p-7,
    0x1.5555555555555p-5,  0x1.5555555555555p-3,  0.5};
inline constexpr double kRlSeries[] = {0x1.1f66e6fce31d7p-29,
                                       0x1.af38b6cc9f96ap-26,
                                       0x1.27e4e1f15f05bp-22,
                                       0x1.71de0da8e0958p-19,
                                       0x1.a01a01a47bd4dp-16,
                                       0x1.a01a01a7c588ap-13,
                                       0x1.6c16c16c167e0p-10,
                                       0x1.11111111109b1p-7,
                                       0x1.5555555555555p-5,
                                       0x1.5555555555556p-3,
                                       0.5};

// Several vectors go through the series step by step: one alone waits for each of its own products.
template <size_t kCount, size_t kTerms>
HWY_INLINE void EvaluateSeries(const double (&series)[kTerms], const RlVec (&r)[kCount],
                               RlVec (&sum)[kCount]) {
  for (size_t k = 0; k < kCount; ++k) sum[k] = RlSet(series[0]);
  for (size_t term = 1; term < kTerms; ++term) {
    for (size_t k = 0; k < kCount; ++k) sum[k] = RlFma(sum[k], r[k], RlSet(series[term]));
  }
}

template <size_t kCount>
struct RlTerms {
  RlVec d[kCount];
  RlVec square[kCount];  // d^2
  RlVec e[kCount];       // e^d - 1
  RlVec k3[kCount];      // e^d - 1 - d
};

// |d| <= kRlSmall.
template <size_t kCount>
HWY_INLINE void RlExpSmall(RlTerms<kCount>* terms) {
  RlVec sum[kCount];
  EvaluateSeries(kRlShortSeries, terms->d, sum);
  for (size_t k = 0; k < kCount; ++k) {
    terms->square[k] = hn::Mul(terms->d[k], terms->d[k]);
    terms->k3[k] = hn::Mul(terms->square[k], sum[k]);
    terms->e[k] = hn::Add(terms->d[k], terms->k3[k]);
  }
}

// d = n ln2 + r, e^d - 1 = 2^n (e^r - 1) + (2^n - 1).
template <size_t kCount>
HWY_INLINE void RlExp(RlTerms<kCount>* terms) {
  const RlVec round = RlSet(6755399441055744.0);  // 1.5 * 2^52: the sum's low bits hold n
  RlVec t[kCount], n[kCount], r[kCount], sum[kCount];
  for (size_t k = 0; k < kCount; ++k) {
    t[k] = RlFma(terms->d[k], RlSet(1.4426950408889634), round);
    n[k] = hn::Sub(t[k], round);
    r[k] = RlFma(n[k], RlSet(-6.93147180369123816490e-01), terms->d[k]);
    r[k] = RlFma(n[k], RlSet(-1.90821492927058770002e-10), r[k]);
  }
  EvaluateSeries(kRlSeries, r, sum);
  for (size_t k = 0; k < kCount; ++k) {
    const RlVec d = terms->d[k];
    const RlVec residual = hn::Mul(hn::Mul(r[k], r[k]), sum[k]);
    const auto bits = hn::Add(hn::ShiftLeft<52>(hn::BitCast(RlIntTag(), t[k])),
                              hn::BitCast(RlIntTag(), RlSet(1.0)));
    const RlVec scale = hn::BitCast(RlTag(), bits);
    terms->square[k] = hn::Mul(d, d);
    terms->e[k] = RlFma(scale, hn::Add(r[k], residual), hn::Sub(scale, RlSet(1.0)));
    terms->k3[k] = hn::IfThenElse(hn::Eq(n[k], RlSet(0.0)), residual, hn::Sub(terms->e[k], d));
  }
}

struct RlLaneSums {
  RlVec d, abs_d, square_d, e, square_e, negative_e, k3, product;
};
inline constexpr size_t kRlSums = 9;  // and the rollout's log-probs

struct RlLaneStore {
  double lane[kRlSums][kRlLanes] = {};
  double min_d = std::numeric_limits<double>::infinity();
  double max_d = -std::numeric_limits<double>::infinity();
};

HWY_INLINE RlLaneSums LoadLanes(const RlLaneStore& from, size_t lane) {
  const RlTag tag;
  const auto load = [&](size_t s) { return hn::LoadU(tag, from.lane[s] + lane); };
  return {load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)};
}

HWY_INLINE void StoreLanes(const RlLaneSums& sums, size_t lane, RlLaneStore* to) {
  const RlVec all[8] = {sums.d,        sums.abs_d,      sums.square_d, sums.e,
                        sums.square_e, sums.negative_e, sums.k3,       sums.product};
  for (size_t s = 0; s < 8; ++s) hn::StoreU(all[s], RlTag(), to->lane[s] + lane);
}

// kCount vectors of log-ratios, kRlLanes apart.
template <bool kSmall, size_t kCount>
HWY_INLINE void AddTerms(const double* d, double* excess, RlLaneSums* sums) {
  const RlTag tag;
  RlTerms<kCount> terms;
  for (size_t k = 0; k < kCount; ++k) terms.d[k] = hn::LoadU(tag, d + k * kRlLanes);
  if constexpr (kSmall) {
    RlExpSmall(&terms);
  } else {
    RlExp(&terms);
  }
  for (size_t k = 0; k < kCount; ++k) {
    const RlVec x = terms.d[k], e = terms.e[k];
    if (excess != nullptr) hn::StoreU(e, tag, excess + k * kRlLanes);
    sums->d = hn::Add(sums->d, x);
    sums->abs_d = hn::Add(sums->abs_d, hn::Abs(x));
    sums->square_d = hn::Add(sums->square_d, terms.square[k]);
    sums->e = hn::Add(sums->e, e);
    sums->square_e = RlFma(e, e, sums->square_e);
    sums->negative_e = hn::Add(sums->negative_e, hn::Min(e, RlSet(0)));
    sums->k3 = hn::Add(sums->k3, terms.k3[k]);
    sums->product = RlFma(x, e, sums->product);
  }
}

// One lane's part of up to a chunk.
template <bool kSmall>
HWY_INLINE void AddChunk(const double* d, size_t begin, size_t end, double* excess,
                         RlLaneSums* sums) {
  const auto at = [&](size_t i) { return excess == nullptr ? nullptr : excess + i; };
  size_t i = begin;
  for (; i + 3 * kRlLanes < end; i += 4 * kRlLanes) AddTerms<kSmall, 4>(d + i, at(i), sums);
  for (; i + kRlLanes < end; i += 2 * kRlLanes) AddTerms<kSmall, 2>(d + i, at(i), sums);
  for (; i < end; i += kRlLanes) AddTerms<kSmall, 1>(d + i, at(i), sums);
}

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#endif  // per target
