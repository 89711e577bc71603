// SumRlRow by Highway: one body, compiled for each target.
#include "kcc/rl/row_kernel.h"

#include <algorithm>
#include <cmath>
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

// d = n ln2 + r, e^d - 1 = 2^n (e^r - 1) + (2^n - 1); the series of (e^r - 1 - r) / r^2 by Taylor,
// whose next term is below 2^-57.
HWY_INLINE RlTerms RlExp(RlVec d) {
  const RlVec round = RlSet(6755399441055744.0);  // 1.5 * 2^52: the sum's low bits hold n
  const RlVec t = RlFma(d, RlSet(1.4426950408889634), round);
  const RlVec n = hn::Sub(t, round);
  RlVec r = RlFma(n, RlSet(-6.93147180369123816490e-01), d);
  r = RlFma(n, RlSet(-1.90821492927058770002e-10), r);
  RlVec sum = RlSet(1.0 / 87178291200.0);
  sum = RlFma(sum, r, RlSet(1.0 / 6227020800.0));
  sum = RlFma(sum, r, RlSet(1.0 / 479001600.0));
  sum = RlFma(sum, r, RlSet(1.0 / 39916800.0));
  sum = RlFma(sum, r, RlSet(1.0 / 3628800.0));
  sum = RlFma(sum, r, RlSet(1.0 / 362880.0));
  sum = RlFma(sum, r, RlSet(1.0 / 40320.0));
  sum = RlFma(sum, r, RlSet(1.0 / 5040.0));
  sum = RlFma(sum, r, RlSet(1.0 / 720.0));
  sum = RlFma(sum, r, RlSet(1.0 / 120.0));
  sum = RlFma(sum, r, RlSet(1.0 / 24.0));
  sum = RlFma(sum, r, RlSet(1.0 / 6.0));
  sum = RlFma(sum, r, RlSet(0.5));
  const RlVec residual = hn::Mul(hn::Mul(r, r), sum);
  const auto bits =
      hn::Add(hn::ShiftLeft<52>(hn::BitCast(RlIntTag(), t)), hn::BitCast(RlIntTag(), RlSet(1.0)));
  const RlVec scale = hn::BitCast(RlTag(), bits);
  RlTerms terms;
  terms.e = RlFma(scale, hn::Add(r, residual), hn::Sub(scale, RlSet(1.0)));
  terms.k3 = hn::IfThenElse(hn::Eq(n, RlSet(0.0)), residual, hn::Sub(terms.e, d));
  return terms;
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
      const RlVec abs_e = hn::Abs(terms.e);
      sums.d = hn::Add(sums.d, x);
      sums.abs_d = hn::Add(sums.abs_d, hn::Abs(x));
      sums.square_d = RlFma(x, x, sums.square_d);
      sums.e = hn::Add(sums.e, terms.e);
      sums.abs_e = hn::Add(sums.abs_e, abs_e);
      sums.square_e = RlFma(terms.e, terms.e, sums.square_e);
      sums.k3 = hn::Add(sums.k3, terms.k3);
      sums.k3_reverse = hn::Add(sums.k3_reverse, hn::Sub(hn::Mul(x, terms.e), terms.k3));
      sums.below = hn::Add(sums.below, hn::Max(hn::Neg(terms.e), RlSet(0)));
      if (train != nullptr) {
        sums.train = hn::Add(sums.train, hn::LoadU(tag, train + i));
        sums.rollout = hn::Add(sums.rollout, hn::LoadU(tag, rollout + i));
      }
      if (i < whole) {
        sums.min_d = hn::Min(sums.min_d, x);
        sums.max_d = hn::Max(sums.max_d, x);
      }
    }
    const RlVec all[11] = {sums.d,     sums.abs_d,    sums.square_d, sums.e,
                           sums.abs_e, sums.square_e, sums.k3,       sums.k3_reverse,
                           sums.below, sums.train,    sums.rollout};
    for (size_t s = 0; s < 11; ++s) hn::StoreU(all[s], tag, to->lane[s] + lane);
    to->min_d = std::min(to->min_d, hn::GetLane(hn::MinOfLanes(tag, sums.min_d)));
    to->max_d = std::max(to->max_d, hn::GetLane(hn::MaxOfLanes(tag, sums.max_d)));
  }
  for (size_t i = whole; i < count; ++i) {
    to->min_d = std::min(to->min_d, d[i]);
    to->max_d = std::max(to->max_d, d[i]);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kcc {
namespace {

double AddLanes(const double* lane) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

template <class Store>
RlRowSums Gather(const Store& store, size_t count) {
  RlRowSums sums;
  double* to[11] = {&sums.d,     &sums.abs_d,    &sums.square_d, &sums.e,
                    &sums.abs_e, &sums.square_e, &sums.k3,       &sums.k3_reverse,
                    &sums.below, &sums.train,    &sums.rollout};
  for (size_t s = 0; s < 11; ++s) *to[s] = AddLanes(store.lane[s]);
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

}  // namespace kcc
#endif  // HWY_ONCE
