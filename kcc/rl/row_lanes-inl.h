// e^d - 1 and e^d - 1 - d together, and the sums of a chunk of log-ratios, in eight lanes. Included
// once per target.
#if defined(KCC_RL_ROW_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KCC_RL_ROW_LANES_INL_H_
#undef KCC_RL_ROW_LANES_INL_H_
#else
#define KCC_RL_ROW_LANES_INL_H_
#endif  // per target

#include <cstddef>
#include <limits>

#include "kcc/numeric/double_lanes-inl.h"
#include "kcc/rl/row_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

using NarrowTag = hn::Rebind<float, DoubleTag>;

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

template <size_t kCount>
struct RlTerms {
  DoubleVec d[kCount];
  DoubleVec square[kCount];  // d^2
  DoubleVec e[kCount];       // e^d - 1
  DoubleVec k3[kCount];      // e^d - 1 - d
};

// |d| <= kRlSmall.
template <size_t kCount>
HWY_INLINE void RlExpSmall(RlTerms<kCount>* terms) {
  DoubleVec sum[kCount];
  Series(kRlShortSeries, terms->d, sum);
  for (size_t k = 0; k < kCount; ++k) {
    terms->square[k] = hn::Mul(terms->d[k], terms->d[k]);
    terms->k3[k] = hn::Mul(terms->square[k], sum[k]);
    terms->e[k] = hn::Add(terms->d[k], terms->k3[k]);
  }
}

// d = n ln2 + r, e^d - 1 = 2^n (e^r - 1) + (2^n - 1).
template <size_t kCount>
HWY_INLINE void RlExp(RlTerms<kCount>* terms) {
  ExpReduction reduced[kCount];
  DoubleVec r[kCount], sum[kCount];
  for (size_t k = 0; k < kCount; ++k) {
    reduced[k] = ReduceForExp(terms->d[k]);
    r[k] = reduced[k].r;
  }
  Series(kRlSeries, r, sum);
  for (size_t k = 0; k < kCount; ++k) {
    const DoubleVec d = terms->d[k];
    const DoubleVec residual = hn::Mul(hn::Mul(r[k], r[k]), sum[k]);
    const DoubleVec scale = reduced[k].power;
    terms->square[k] = hn::Mul(d, d);
    terms->e[k] = FmaDouble(scale, hn::Add(r[k], residual), hn::Sub(scale, SetDouble(1.0)));
    terms->k3[k] =
        hn::IfThenElse(hn::Eq(reduced[k].n, SetDouble(0.0)), residual, hn::Sub(terms->e[k], d));
  }
}

struct RlLaneSums {
  DoubleVec d, abs_d, square_d, e, square_e, negative_e, k3, product;
};
inline constexpr size_t kRlSums = 9;  // and the rollout's log-probs

struct RlLaneStore {
  double lane[kRlSums][kRlLanes] = {};
  double min_d = std::numeric_limits<double>::infinity();
  double max_d = -std::numeric_limits<double>::infinity();
};

HWY_INLINE RlLaneSums LoadLanes(const RlLaneStore& from, size_t lane) {
  const DoubleTag tag;
  const auto load = [&](size_t s) { return hn::LoadU(tag, from.lane[s] + lane); };
  return {load(0), load(1), load(2), load(3), load(4), load(5), load(6), load(7)};
}

HWY_INLINE void StoreLanes(const RlLaneSums& sums, size_t lane, RlLaneStore* to) {
  const DoubleVec all[8] = {sums.d,        sums.abs_d,      sums.square_d, sums.e,
                            sums.square_e, sums.negative_e, sums.k3,       sums.product};
  for (size_t s = 0; s < 8; ++s) hn::StoreU(all[s], DoubleTag(), to->lane[s] + lane);
}

// kCount vectors of log-ratios, kRlLanes apart.
template <bool kSmall, size_t kCount>
HWY_INLINE void AddTerms(const double* d, double* excess, RlLaneSums* sums) {
  const DoubleTag tag;
  RlTerms<kCount> terms;
  for (size_t k = 0; k < kCount; ++k) terms.d[k] = hn::LoadU(tag, d + k * kRlLanes);
  if constexpr (kSmall) {
    RlExpSmall(&terms);
  } else {
    RlExp(&terms);
  }
  for (size_t k = 0; k < kCount; ++k) {
    const DoubleVec x = terms.d[k], e = terms.e[k];
    if (excess != nullptr) hn::StoreU(e, tag, excess + k * kRlLanes);
    sums->d = hn::Add(sums->d, x);
    sums->abs_d = hn::Add(sums->abs_d, hn::Abs(x));
    sums->square_d = hn::Add(sums->square_d, terms.square[k]);
    sums->e = hn::Add(sums->e, e);
    sums->square_e = FmaDouble(e, e, sums->square_e);
    sums->negative_e = hn::Add(sums->negative_e, hn::Min(e, SetDouble(0)));
    sums->k3 = hn::Add(sums->k3, terms.k3[k]);
    sums->product = FmaDouble(x, e, sums->product);
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
