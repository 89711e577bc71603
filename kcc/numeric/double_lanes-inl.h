// Eight virtual lanes of doubles on every target, as the sixteen of lanes-inl.h: element i belongs
// to lane i mod 8, and multiply-adds are fused everywhere. Included once per target.
#if defined(KCC_NUMERIC_DOUBLE_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KCC_NUMERIC_DOUBLE_LANES_INL_H_
#undef KCC_NUMERIC_DOUBLE_LANES_INL_H_
#else
#define KCC_NUMERIC_DOUBLE_LANES_INL_H_
#endif  // per target

#include <cmath>
#include <cstddef>

#include "hwy/highway.h"
#include "kcc/numeric/target.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using DoubleTag = hn::CappedTag<double, kDoubleLanes>;
using DoubleVec = hn::Vec<DoubleTag>;
using LongTag = hn::RebindToSigned<DoubleTag>;
inline constexpr size_t kRealDoubles = hn::MaxLanes(DoubleTag());

HWY_INLINE DoubleVec SetDouble(double value) { return hn::Set(DoubleTag(), value); }

// a b + c, rounded once.
HWY_INLINE DoubleVec FmaDouble(DoubleVec a, DoubleVec b, DoubleVec c) {
#if HWY_TARGET == HWY_SCALAR
  return DoubleVec(std::fma(a.raw, b.raw, c.raw));
#else
  return hn::MulAdd(a, b, c);
#endif  // per target
}

// A polynomial from its last term. Several vectors go through it step by step: one alone waits for
// each of its own products.
template <size_t kTerms, size_t kCount>
HWY_INLINE void Series(const double (&terms)[kTerms], const DoubleVec (&at)[kCount],
                       DoubleVec (&sum)[kCount]) {
  for (size_t k = 0; k < kCount; ++k) sum[k] = SetDouble(terms[0]);
  for (size_t term = 1; term < kTerms; ++term) {
    for (size_t k = 0; k < kCount; ++k) sum[k] = FmaDouble(sum[k], at[k], SetDouble(terms[term]));
  }
}

// x = n ln2 + r with |r| <= ln2 / 2, and power = 2^n; |x| < 700.
struct ExpReduction {
  DoubleVec n, r, power;
};
HWY_INLINE ExpReduction ReduceForExp(DoubleVec x) {
  const DoubleVec round = SetDouble(6755399441055744.0);  // 1.5 * 2^52: the sum's low bits hold n
  const DoubleVec t = FmaDouble(x, SetDouble(1.4426950408889634), round);
  const DoubleVec n = hn::Sub(t, round);
  const DoubleVec r = FmaDouble(n, SetDouble(-6.93147180369123816490e-01), x);
  const auto bits =
      hn::Add(hn::ShiftLeft<52>(hn::BitCast(LongTag(), t)), hn::BitCast(LongTag(), SetDouble(1.0)));
  return {n, FmaDouble(n, SetDouble(-1.90821492927058770002e-10), r),
          hn::BitCast(DoubleTag(), bits)};
}

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#endif  // per target
