// Sixteen virtual lanes on every target: element i of a row belongs to lane i mod 16, and a vector
// of 16, 8 or 1 real lanes walks them in groups, so that a lane's sum has the same terms in the
// same order everywhere. Fused multiply-adds are written out and are fused on every target.
//
// Also the float32 polynomials for 2^r and e^x - 1 with their errors. Included once per target.
#if defined(KCC_NUMERIC_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef KCC_NUMERIC_LANES_INL_H_
#undef KCC_NUMERIC_LANES_INL_H_
#else
#define KCC_NUMERIC_LANES_INL_H_
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr size_t kVirtualLanes = 16;
using FloatTag = hn::CappedTag<float, kVirtualLanes>;
using FloatVec = hn::Vec<FloatTag>;
using IntTag = hn::RebindToSigned<FloatTag>;
using UintTag = hn::RebindToUnsigned<FloatTag>;
using HalfWordTag = hn::Rebind<uint16_t, FloatTag>;
inline constexpr size_t kRealLanes = hn::MaxLanes(FloatTag());

HWY_INLINE FloatVec Set(float value) { return hn::Set(FloatTag(), value); }

// a b + c, rounded once.
HWY_INLINE FloatVec Fma(FloatVec a, FloatVec b, FloatVec c) {
#if HWY_TARGET == HWY_SCALAR
  return FloatVec(std::fma(a.raw, b.raw, c.raw));
#else
  return hn::MulAdd(a, b, c);
#endif
}

// a b - c, rounded once.
HWY_INLINE FloatVec Fms(FloatVec a, FloatVec b, FloatVec c) {
#if HWY_TARGET == HWY_SCALAR
  return FloatVec(std::fma(a.raw, b.raw, -c.raw));
#else
  return hn::MulSub(a, b, c);
#endif
}

// c - a b, rounded once.
HWY_INLINE FloatVec Fnma(FloatVec a, FloatVec b, FloatVec c) {
#if HWY_TARGET == HWY_SCALAR
  return FloatVec(std::fma(-a.raw, b.raw, c.raw));
#else
  return hn::NegMulAdd(a, b, c);
#endif
}

// Rows of float32, or of bfloat16 as their bits.
HWY_INLINE FloatVec LoadFloats(const float* from) { return hn::LoadU(FloatTag(), from); }
HWY_INLINE FloatVec LoadFloats(const uint16_t* from) {
  const auto bits = hn::PromoteTo(UintTag(), hn::LoadU(HalfWordTag(), from));
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(bits));
}

// 2^r for |r| <= 1/2, relative error below 9.5e-8 before rounding.
HWY_INLINE FloatVec Exp2Fraction(FloatVec r) {
  FloatVec sum = Fma(r, Set(0.00132647273f), Set(0.00967151299f));
  sum = Fma(r, sum, Set(0.0555073358f));
  sum = Fma(r, sum, Set(0.240222424f));
  sum = Fma(r, sum, Set(0.693147004f));
  return Fma(r, sum, Set(1.0f));
}

// e^x - 1 by its even and odd halves: with u = x^2,
//   cosh x - 1 = u C(u),  sinh x - x = x u S(u),  e^x - 1 - x = u (C(u) + x S(u)).
// Degrees by range; errors relative to x^2/2: below 4.3e-7, 1.2e-7, 3.1e-8 and 1.1e-7.
enum ExpRange : int { kWithin3Over64, kWithin1Over8, kWithin1Over2, kWithin2, kWide, kRanges };

template <int kRange>
HWY_INLINE FloatVec EvenSeries(FloatVec u) {
  FloatVec sum;
  if constexpr (kRange == kWithin3Over64) {
    sum = Set(0.0416691937f);
  } else if constexpr (kRange == kWithin1Over8) {
    sum = Set(0.0416846499f);
  } else if constexpr (kRange == kWithin1Over2) {
    sum = Fma(u, Set(0.00139754952f), Set(0.0416659974f));
  } else {
    sum = Fma(u, Set(2.96679787e-07f), Set(2.4729763e-05f));
    sum = Fma(u, sum, Set(0.00138898462f));
    sum = Fma(u, sum, Set(0.0416666269f));
  }
  return Fma(u, sum, Set(0.5f));
}

template <int kRange>
HWY_INLINE FloatVec OddSeries(FloatVec u) {
  if constexpr (kRange == kWithin3Over64) {
    return Set(0.166680396f);
  } else if constexpr (kRange == kWithin1Over8) {
    return Fma(u, Set(0.00833720993f), Set(0.166666657f));
  } else if constexpr (kRange == kWithin1Over2) {
    return Fma(u, Fma(u, Set(0.000199621965f), Set(0.00833318196f)), Set(0.166666672f));
  } else {
    FloatVec sum = Fma(u, Set(2.99042676e-06f), Set(0.00019769877f));
    sum = Fma(u, sum, Set(0.00833413284f));
    return Fma(u, sum, Set(0.166666418f));
  }
}

// e^x for |x| <= 86, relative error below 2e-7.
HWY_INLINE FloatVec ExpWide(FloatVec x) {
  const FloatVec round = Set(12582912.0f);  // 1.5 * 2^23
  const FloatVec t = Fma(x, Set(1.44269504f), round);
  const FloatVec n = hn::Sub(t, round);
  FloatVec r = Fnma(n, Set(0.693145752f), x);
  r = Fnma(n, Set(1.42860677e-06f), r);
  FloatVec sum = Fma(r, Set(0.00138146023f), Set(0.00836871564f));
  sum = Fma(r, sum, Set(0.041668389f));
  sum = Fma(r, sum, Set(0.166665211f));
  sum = Fma(r, sum, Set(0.49999994f));
  const FloatVec y = hn::Add(Fma(hn::Mul(r, r), sum, r), Set(1.0f));
  const auto bits = hn::Add(hn::BitCast(IntTag(), y), hn::ShiftLeft<23>(hn::BitCast(IntTag(), t)));
  return hn::BitCast(FloatTag(), bits);
}

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#endif  // per target
