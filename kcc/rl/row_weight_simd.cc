// SumRlPhi and FindOneRun by Highway: one body, compiled for each target.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kcc/base/check.h"
#include "kcc/numeric/highway_targets.h"
#include "kcc/rl/row_kernel.h"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12's AVX-512 intrinsics start from undefined vectors on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kcc/rl/row_weight_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using PhiTag = hn::CappedTag<double, kRlLanes>;
using PhiFloatTag = hn::Rebind<float, PhiTag>;
using PhiVec = hn::Vec<PhiTag>;
inline constexpr size_t kPhiReal = hn::MaxLanes(PhiTag());

HWY_INLINE PhiVec PhiSet(double value) { return hn::Set(PhiTag(), value); }

struct PhiLanes {
  PhiVec weight, kept, square, bias_token, bias_sequence, outside;
  HWY_INLINE PhiLanes() {
    weight = kept = square = bias_token = bias_sequence = outside = PhiSet(0);
  }
};

struct PhiStore {
  double lane[6][kRlLanes];
};

// One vector of tokens; `live` says which of them are tokens.
template <bool kGiven>
HWY_INLINE PhiVec AddPhi(const RlPhiInput& in, size_t i, hn::Mask<PhiTag> live, PhiLanes* lanes) {
  const PhiTag tag;
  const PhiVec w = hn::Add(PhiSet(1), hn::LoadU(tag, in.excess + i));
  PhiVec phi;
  if (kGiven) {
    phi = hn::LoadU(tag, in.phi + i);
  } else {
    const PhiVec low = PhiSet(in.low), high = PhiSet(in.high);
    const auto outside = hn::And(live, hn::Or(hn::Lt(w, low), hn::Gt(w, high)));
    PhiVec weight = hn::Min(hn::Max(w, low), high);
    if (in.zero_outside) weight = hn::IfThenElse(outside, PhiSet(0), weight);
    lanes->outside = hn::Add(lanes->outside, hn::IfThenElseZero(outside, PhiSet(1)));
    lanes->weight = hn::Add(lanes->weight, hn::IfThenElseZero(live, weight));
    phi = in.reject ? PhiSet(0) : hn::Mul(weight, PhiSet(in.scale));
  }
  const PhiVec token = hn::Abs(hn::Sub(w, phi));
  const PhiVec sequence = hn::Abs(hn::Sub(PhiSet(in.sequence_ratio), phi));
  lanes->kept = hn::Add(lanes->kept, hn::IfThenElseZero(live, phi));
  lanes->square = hn::Add(lanes->square, hn::IfThenElseZero(live, hn::Mul(phi, phi)));
  lanes->bias_token = hn::Add(lanes->bias_token, hn::IfThenElseZero(live, token));
  lanes->bias_sequence = hn::Add(lanes->bias_sequence, hn::IfThenElseZero(live, sequence));
  return phi;
}

template <bool kGiven>
void SumPhiLanes(const RlPhiInput& in, float* phi, double* phi_double, PhiStore* to) {
  const PhiTag tag;
  const PhiFloatTag narrow;
  const size_t whole = in.count / kRlLanes * kRlLanes;
  for (size_t lane = 0; lane < kRlLanes; lane += kPhiReal) {
    PhiLanes lanes;
    const auto all = hn::FirstN(tag, kPhiReal);
    for (size_t i = lane; i < whole; i += kRlLanes) {
      const PhiVec value = AddPhi<kGiven>(in, i, all, &lanes);
      if (phi != nullptr) hn::StoreU(hn::DemoteTo(narrow, value), narrow, phi + i);
      if (phi_double != nullptr) hn::StoreU(value, tag, phi_double + i);
    }
    const size_t at = whole + lane;
    if (at < in.count) {
      const size_t some = std::min(kPhiReal, in.count - at);
      const PhiVec value = AddPhi<kGiven>(in, at, hn::FirstN(tag, some), &lanes);
      double last[kRlLanes];
      hn::StoreU(value, tag, last);
      for (size_t k = 0; k < some; ++k) {
        if (phi != nullptr) phi[at + k] = static_cast<float>(last[k]);
        if (phi_double != nullptr) phi_double[at + k] = last[k];
      }
    }
    const PhiVec sums[6] = {lanes.weight,     lanes.kept,          lanes.square,
                            lanes.bias_token, lanes.bias_sequence, lanes.outside};
    for (size_t s = 0; s < 6; ++s) hn::StoreU(sums[s], tag, to->lane[s] + lane);
  }
}

void SumPhiLanesOf(const RlPhiInput& in, float* phi, double* phi_double, PhiStore* to) {
  if (in.phi != nullptr) {
    SumPhiLanes<true>(in, phi, phi_double, to);
  } else {
    SumPhiLanes<false>(in, phi, phi_double, to);
  }
}

// The first element from `at` on that is zero, or that is not.
template <bool kZero, class T>
size_t FindMask(const T* mask, size_t at, size_t count) {
  const hn::ScalableTag<T> tag;
  const size_t step = hn::Lanes(tag);
  const auto zero = hn::Zero(tag);
  for (; at + step <= count; at += step) {
    const auto zeros = hn::Eq(hn::LoadU(tag, mask + at), zero);
    if (kZero ? !hn::AllFalse(tag, zeros) : !hn::AllTrue(tag, zeros)) break;
  }
  while (at < count && (mask[at] == T{0}) != kZero) ++at;
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
namespace {

template <class Store>
RlPhiSums GatherPhi(const Store& store, const RlPhiInput& in) {
  double sums[6];
  for (size_t s = 0; s < 6; ++s) sums[s] = AddRlLanes(store.lane[s]);
  return {in.phi != nullptr ? sums[1] : sums[0], sums[1], sums[2], sums[3], sums[4],
          static_cast<int64_t>(sums[5])};
}

}  // namespace

RlPhiSums SumRlPhi(const RlPhiInput& in, float* phi, double* phi_double, Target target) {
#if HWY_TARGETS & HWY_AVX2
  if (target == Target::kAvx2) {
    N_AVX2::PhiStore store;
    N_AVX2::SumPhiLanesOf(in, phi, phi_double, &store);
    return GatherPhi(store, in);
  }
#endif
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::kAvx512) {
    N_AVX3::PhiStore store;
    N_AVX3::SumPhiLanesOf(in, phi, phi_double, &store);
    return GatherPhi(store, in);
  }
#endif
  KCC_CHECK(target == Target::kScalar);
  N_SCALAR::PhiStore store;
  N_SCALAR::SumPhiLanesOf(in, phi, phi_double, &store);
  return GatherPhi(store, in);
}

bool FindOneRun(const void* mask, RlType type, size_t count, size_t* begin, size_t* end,
                Target target) {
#if HWY_TARGETS & HWY_AVX2
  if (target == Target::kAvx2) return N_AVX2::FindRunOf(mask, type, count, begin, end);
#endif
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::kAvx512) return N_AVX3::FindRunOf(mask, type, count, begin, end);
#endif
  KCC_CHECK(target == Target::kScalar);
  return N_SCALAR::FindRunOf(mask, type, count, begin, end);
}

}  // namespace kcc
#endif  // HWY_ONCE
