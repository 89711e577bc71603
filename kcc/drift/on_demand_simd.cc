// With y = log(q/p) / 2, E = e^y - 1 and c = cosh y - 1 = E^2 / (2 + 2 E), sinh y = E - c:
//   hellinger = sum p E^2 / 2,  js = sum p e^y (y sinh y - (1 + c) log(1 + c)),
// none of which cancels near 0. log(1 + c) = 2 atanh(c / (2 + c)) by its series.
#include "kcc/drift/on_demand.h"

#include <cmath>
#include <type_traits>

#include "kcc/base/check.h"
#include "kcc/numeric/by_target.h"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12's AVX-512 intrinsics start from undefined vectors on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kcc/drift/on_demand_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, once per target.
#include "kcc/numeric/double_lanes-inl.h"
#include "kcc/numeric/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

// Vectors that go through a series step by step: one alone waits for each of its own products.
inline constexpr size_t kEntriesAbreast = HWY_TARGET == HWY_AVX3   ? 4
                                          : HWY_TARGET == HWY_AVX2 ? 2
                                                                   : 1;

HWY_INLINE DoubleVec LoadDoubles(const float* from) {
  return hn::PromoteTo(DoubleTag(), hn::LoadU(hn::Rebind<float, DoubleTag>(), from));
}
HWY_INLINE DoubleVec LoadDoubles(const uint16_t* from) {
  const hn::Rebind<uint32_t, DoubleTag> words;
  const auto bits = hn::PromoteTo(words, hn::LoadU(hn::Rebind<uint16_t, DoubleTag>(), from));
  const hn::Rebind<float, DoubleTag> floats;
  return hn::PromoteTo(DoubleTag(), hn::BitCast(floats, hn::ShiftLeft<16>(bits)));
}

// (e^r - 1 - r) / r^2 for |r| <= ln2/2 by Taylor, from the last term; what is left out is below
// 2e-15 of it.
inline constexpr double kExpTaylor[] = {1.0 / 479001600.0,
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
// (atanh s) / s - 1, over s^2: for s <= 0.214 within 1e-14.
inline constexpr double kAtanhTaylor[] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                          1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};

// e^x = 2^n (1 + excess), |x| < 700.
template <size_t kCount>
HWY_INLINE void ExpParts(const DoubleVec (&x)[kCount], DoubleVec (&power)[kCount],
                         DoubleVec (&excess)[kCount]) {
  DoubleVec r[kCount];
  for (size_t k = 0; k < kCount; ++k) {
    const ExpReduction reduced = ReduceForExp(x[k]);
    r[k] = reduced.r;
    power[k] = reduced.power;
  }
  Series(kExpTaylor, r, excess);
  for (size_t k = 0; k < kCount; ++k) excess[k] = FmaDouble(hn::Mul(r[k], r[k]), excess[k], r[k]);
}

struct PairSums {
  DoubleVec js, hellinger;
};

// x = log q/p with |x| <= 2.
template <size_t kCount>
HWY_INLINE void AddEntries(const DoubleVec (&log_p)[kCount], const DoubleVec (&x)[kCount],
                           PairSums* sums) {
  const DoubleVec one = SetDouble(1.0);
  DoubleVec power[kCount], excess[kCount], p[kCount], y[kCount], s_square[kCount], log[kCount];
  DoubleVec up[kCount], c[kCount], s[kCount];
  ExpParts(log_p, power, excess);
  for (size_t k = 0; k < kCount; ++k) {
    p[k] = FmaDouble(power[k], excess[k], power[k]);
    y[k] = hn::Mul(x[k], SetDouble(0.5));
  }
  ExpParts(y, power, excess);
  for (size_t k = 0; k < kCount; ++k) {
    up[k] = FmaDouble(power[k], excess[k], hn::Sub(power[k], one));  // E
    const DoubleVec square = hn::Mul(up[k], up[k]);
    sums->hellinger = FmaDouble(p[k], square, sums->hellinger);
    c[k] = hn::Div(hn::Mul(square, SetDouble(0.5)), hn::Add(up[k], one));
    s[k] = hn::Div(c[k], hn::Add(c[k], SetDouble(2.0)));
    s_square[k] = hn::Mul(s[k], s[k]);
  }
  Series(kAtanhTaylor, s_square, log);
  for (size_t k = 0; k < kCount; ++k) {
    const DoubleVec half_log = FmaDouble(hn::Mul(s[k], s_square[k]), log[k], s[k]);
    const DoubleVec cosh_log = hn::Mul(hn::Mul(SetDouble(2.0), hn::Add(c[k], one)), half_log);
    const DoubleVec term = hn::Sub(hn::Mul(y[k], hn::Sub(up[k], c[k])), cosh_log);
    const DoubleVec factor = hn::Mul(p[k], hn::Add(up[k], one));
    sums->js = FmaDouble(factor, hn::Max(term, SetDouble(0.0)), sums->js);
  }
}

// One group of real lanes. Far entries count as if they were equal; `is_far` gets a bit for each.
template <class T>
HWY_INLINE void AddLanes(const EntryArgs& args, size_t begin, size_t end, size_t lane,
                         EntrySums* to, uint8_t* is_far) {
  const T* HWY_RESTRICT train = static_cast<const T*>(args.train);
  const T* HWY_RESTRICT infer = static_cast<const T*>(args.infer);
  const DoubleTag tag;
  const DoubleVec scale = SetDouble(args.inverse_temperature);
  const DoubleVec far = SetDouble(2.0);
  PairSums sums;
  sums.js = hn::LoadU(tag, to->js + lane);
  sums.hellinger = hn::LoadU(tag, to->hellinger + lane);
  const auto add = [&](auto abreast, size_t i) HWY_ATTR {
    constexpr size_t kCount = decltype(abreast)::value;
    DoubleVec log_p[kCount], x[kCount];
    for (size_t k = 0; k < kCount; ++k) {
      const size_t at = i + k * kDoubleLanes;
      const DoubleVec a = LoadDoubles(train + at);
      const DoubleVec d = hn::Sub(hn::Sub(LoadDoubles(infer + at), a), SetDouble(args.shift));
      const DoubleVec moved = hn::Sub(a, SetDouble(args.origin));
      log_p[k] = hn::Max(FmaDouble(moved, scale, SetDouble(args.log_p)), SetDouble(-690.0));
      x[k] = FmaDouble(d, scale, SetDouble(-args.delta));
      const auto beyond = hn::Gt(hn::Abs(x[k]), far);
      x[k] = hn::IfThenZeroElse(beyond, x[k]);
      uint8_t bits[8] = {};
      if (!hn::AllFalse(tag, beyond)) hn::StoreMaskBits(tag, beyond, bits);
      const auto shifted = static_cast<uint8_t>(bits[0] << lane);
      uint8_t& group = is_far[(at - begin) / kDoubleLanes];
      group = static_cast<uint8_t>(group | shifted);
    }
    AddEntries(log_p, x, &sums);
  };
  size_t i = begin + lane;
  for (; i + (kEntriesAbreast - 1) * kDoubleLanes < end; i += kEntriesAbreast * kDoubleLanes) {
    add(std::integral_constant<size_t, kEntriesAbreast>(), i);
  }
  for (; i < end; i += kDoubleLanes) add(std::integral_constant<size_t, 1>(), i);
  hn::StoreU(sums.js, tag, to->js + lane);
  hn::StoreU(sums.hellinger, tag, to->hellinger + lane);
}

template <class T>
size_t AddToSums(const EntryArgs& args, size_t begin, size_t end, EntrySums* sums, int32_t* far) {
  uint8_t is_far[kBlockEntries / kDoubleLanes] = {};
  for (size_t lane = 0; lane < kDoubleLanes; lane += kRealDoubles) {
    AddLanes<T>(args, begin, end, lane, sums, is_far);
  }
  size_t count = 0;
  for (size_t i = begin; i < end; ++i) {
    const size_t at = i - begin;
    if (is_far[at / kDoubleLanes] == 0) {
      i += kDoubleLanes - 1;
    } else if (is_far[at / kDoubleLanes] >> (at % kDoubleLanes) & 1) {
      far[count++] = static_cast<int32_t>(i);
    }
  }
  return count;
}

template <class T>
size_t CountAbove(const void* from, size_t begin, size_t end, float than, bool or_equal) {
  const T* row = static_cast<const T*>(from);
  const FloatTag tag;
  const FloatVec bound = Set(than);
  size_t count = 0;
  size_t i = begin;
  for (; i + kRealLanes <= end; i += kRealLanes) {
    const FloatVec value = LoadFloats(row + i);
    count += hn::CountTrue(tag, or_equal ? hn::Ge(value, bound) : hn::Gt(value, bound));
  }
  for (; i < end; ++i) {
    alignas(64) T last[kVirtualLanes] = {row[i]};
    const float value = hn::GetLane(LoadFloats(last));
    count += value > than || (or_equal && value == than) ? 1 : 0;
  }
  return count;
}

OnDemandKernels MakeOnDemandKernels() {
  OnDemandKernels kernels;
  kernels.add[kRowF32] = &AddToSums<float>;
  kernels.add[kRowBF16] = &AddToSums<uint16_t>;
  kernels.count[kRowF32] = &CountAbove<float>;
  kernels.count[kRowBF16] = &CountAbove<uint16_t>;
  return kernels;
}
const OnDemandKernels& TheOnDemandKernels() {
  static const OnDemandKernels kernels = MakeOnDemandKernels();
  return kernels;
}

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kcc {

const OnDemandKernels& OnDemandKernelsFor(Target target) {
  KCC_RETURN_BY_TARGET(target, TheOnDemandKernels());
}

}  // namespace kcc
#endif  // HWY_ONCE
