// SumRlPhi and FindOneRun by Highway: one body, compiled for each target.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kcc/base/check.h"
#include "kcc/numeric/by_target.h"
#include "kcc/rl/row_kernel.h"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12's AVX-512 intrinsics start from undefined vectors on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kcc/rl/row_weight_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, once per target.
#include "kcc/rl/row_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

struct PhiLanes {
  DoubleVec weight, kept, square, bias_token, bias_sequence, outside;
  HWY_INLINE PhiLanes() {
    weight = kept = square = bias_token = bias_sequence = outside = SetDouble(0);
  }
};

struct PhiStore {
  double lane[6][kRlLanes];
};

// How a weight comes about: as given, from w by the rule, or w itself, which no bound touches.
enum class PhiKind : uint8_t { kGiven, kBounded, kRatio };

// One vector of tokens; kPartly: `live` says which of them are tokens.
template <PhiKind kKind, bool kPartly>
HWY_INLINE DoubleVec AddPhi(const RlPhiInput& in, size_t i, hn::Mask<DoubleTag> live,
                            PhiLanes* lanes) {
  const DoubleTag tag;
  const auto of_tokens = [&](DoubleVec v) { return kPartly ? hn::IfThenElseZero(live, v) : v; };
  const DoubleVec w = hn::Add(SetDouble(1), hn::LoadU(tag, in.excess + i));
  DoubleVec phi = w;
  if (kKind == PhiKind::kGiven) {
    phi = hn::LoadU(tag, in.phi + i);
  } else if (kKind == PhiKind::kBounded) {
    const DoubleVec low = SetDouble(in.low), high = SetDouble(in.high);
    const auto outside = hn::Or(hn::Lt(w, low), hn::Gt(w, high));
    DoubleVec weight = hn::Min(hn::Max(w, low), high);
    if (in.zero_outside) weight = hn::IfThenElse(outside, SetDouble(0), weight);
    lanes->outside = hn::Add(lanes->outside, of_tokens(hn::IfThenElseZero(outside, SetDouble(1))));
    lanes->weight = hn::Add(lanes->weight, of_tokens(weight));
    phi = in.reject ? SetDouble(0) : hn::Mul(weight, SetDouble(in.scale));
  }
  const DoubleVec counted = of_tokens(phi);
  lanes->kept = hn::Add(lanes->kept, counted);
  lanes->square = FmaDouble(counted, counted, lanes->square);
  if (kKind != PhiKind::kRatio) {
    lanes->bias_token = hn::Add(lanes->bias_token, of_tokens(hn::Abs(hn::Sub(w, phi))));
  }
  const DoubleVec sequence = hn::Abs(hn::Sub(SetDouble(in.sequence_ratio), phi));
  lanes->bias_sequence = hn::Add(lanes->bias_sequence, of_tokens(sequence));
  return phi;
}

template <PhiKind kKind>
void SumPhiLanes(const RlPhiInput& in, float* phi, double* phi_double, PhiStore* to) {
  const DoubleTag tag;
  const NarrowTag narrow;
  const size_t whole = in.count / kRlLanes * kRlLanes;
  for (size_t lane = 0; lane < kRlLanes; lane += kRealDoubles) {
    PhiLanes lanes;
    const auto all = hn::FirstN(tag, kRealDoubles);
    for (size_t i = lane; i < whole; i += kRlLanes) {
      const DoubleVec value = AddPhi<kKind, false>(in, i, all, &lanes);
      if (phi != nullptr) hn::StoreU(hn::DemoteTo(narrow, value), narrow, phi + i);
      if (phi_double != nullptr) hn::StoreU(value, tag, phi_double + i);
    }
    const size_t at = whole + lane;
    if (at < in.count) {
      const size_t some = std::min(kRealDoubles, in.count - at);
      const DoubleVec value = AddPhi<kKind, true>(in, at, hn::FirstN(tag, some), &lanes);
      double last[kRlLanes];
      hn::StoreU(value, tag, last);
      for (size_t k = 0; k < some; ++k) {
        if (phi != nullptr) phi[at + k] = static_cast<float>(last[k]);
        if (phi_double != nullptr) phi_double[at + k] = last[k];
      }
    }
    if (kKind == PhiKind::kRatio) lanes.weight = lanes.kept;
    const DoubleVec sums[6] = {lanes.weight,     lanes.kept,          lanes.square,
                               lanes.bias_token, lanes.bias_sequence, lanes.outside};
    for (size_t s = 0; s < 6; ++s) hn::StoreU(sums[s], tag, to->lane[s] + lane);
  }
}

RlPhiSums GatherPhi(const PhiStore& store, const RlPhiInput& in) {
  double sums[6];
  for (size_t s = 0; s < 6; ++s) sums[s] = AddRlLanes(store.lane[s]);
  return {in.phi != nullptr ? sums[1] : sums[0], sums[1], sums[2], sums[3], sums[4],
          static_cast<int64_t>(sums[5])};
}

RlPhiSums SumRlPhiOf(const RlPhiInput& in, float* phi, double* phi_double) {
  PhiStore store;
  if (in.phi != nullptr) {
    SumPhiLanes<PhiKind::kGiven>(in, phi, phi_double, &store);
  } else if (in.inside && !in.reject && in.scale == 1) {
    SumPhiLanes<PhiKind::kRatio>(in, phi, phi_double, &store);
  } else {
    SumPhiLanes<PhiKind::kBounded>(in, phi, phi_double, &store);
  }
  return GatherPhi(store, in);
}

// Whether elements count; a NaN is neither zero nor that.
template <class T>
HWY_INLINE auto Counts(hn::Vec<hn::ScalableTag<T>> v) {
  const auto zero = hn::Zero(hn::ScalableTag<T>());
  if constexpr (std::is_floating_point_v<T>) {
    return hn::Gt(hn::Abs(v), zero);
  } else {
    return hn::Not(hn::Eq(v, zero));
  }
}

// The first element from `at` on that does not count, or that is not zero.
template <bool kOnes, class T>
size_t FindMask(const T* mask, size_t at, size_t count) {
  const hn::ScalableTag<T> tag;
  const size_t step = hn::Lanes(tag);
  for (; at + step <= count; at += step) {
    const auto v = hn::LoadU(tag, mask + at);
    const auto on = kOnes ? Counts<T>(v) : hn::Eq(v, hn::Zero(tag));
    if (!hn::AllTrue(tag, on)) break;
  }
  const auto goes_on = [](T v) { return kOnes ? v < T{0} || v > T{0} : v == T{0}; };
  while (at < count && goes_on(mask[at])) ++at;
  return at;
}

template <class T>
bool FindRun(const void* data, size_t count, size_t* begin, size_t* end) {
  const T* mask = static_cast<const T*>(data);
  *begin = FindMask<false>(mask, 0, count);
  *end = FindMask<true>(mask, *begin, count);
  return FindMask<false>(mask, *end, count) == count;
}

bool FindRunOf(const void* mask, RlType type, size_t count, size_t* begin, size_t* end) {
  switch (type) {
    case RlType::kF32:
      return FindRun<float>(mask, count, begin, end);
    case RlType::kF64:
      return FindRun<double>(mask, count, begin, end);
    case RlType::kU8:
      return FindRun<uint8_t>(mask, count, begin, end);
    case RlType::kI32:
      return FindRun<int32_t>(mask, count, begin, end);
    case RlType::kI64:
      return FindRun<int64_t>(mask, count, begin, end);
  }
  return false;
}

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kcc {

RlPhiSums SumRlPhi(const RlPhiInput& in, float* phi, double* phi_double, Target target) {
  KCC_RETURN_BY_TARGET(target, SumRlPhiOf(in, phi, phi_double));
}

bool FindOneRun(const void* mask, RlType type, size_t count, size_t* begin, size_t* end,
                Target target) {
  KCC_RETURN_BY_TARGET(target, FindRunOf(mask, type, count, begin, end));
}

}  // namespace kcc
#endif  // HWY_ONCE
