#include "kcc/numeric/row_ops.h"

#include <algorithm>

#include "kcc/base/check.h"
#include "kcc/numeric/by_target.h"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12's AVX-512 intrinsics start from undefined vectors on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kcc/numeric/row_ops_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, once per target.
#include "kcc/numeric/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

using DoubleTag = hn::CappedTag<double, 8>;
using DoubleVec = hn::Vec<DoubleTag>;

// What float and double rows have in common: a vector type, loads of floats, one fused step.
template <class Real>
struct Lanes;
template <>
struct Lanes<float> {
  using Tag = FloatTag;
  static HWY_INLINE FloatVec Load(const float* from) { return LoadFloats(from); }
  static HWY_INLINE FloatVec Step(FloatVec a, FloatVec b, FloatVec c) { return Fma(a, b, c); }
};
template <>
struct Lanes<double> {
  using Tag = DoubleTag;
  static HWY_INLINE DoubleVec Load(const float* from) {
    return hn::PromoteTo(DoubleTag(), hn::LoadU(hn::Rebind<float, DoubleTag>(), from));
  }
  static HWY_INLINE DoubleVec Step(DoubleVec a, DoubleVec b, DoubleVec c) {
#if HWY_TARGET == HWY_SCALAR
    return DoubleVec(std::fma(a.raw, b.raw, c.raw));
#else
    return hn::MulAdd(a, b, c);
#endif
  }
};

template <class Real, size_t kRows>
HWY_INLINE void ScoreRows(const ScoreBlock<Real>& block, size_t row) {
  using L = Lanes<Real>;
  const typename L::Tag tag;
  constexpr size_t kWide = hn::MaxLanes(typename L::Tag());
  const auto scale = hn::Set(tag, block.scale);
  for (size_t j = 0; j < block.count; j += kWide) {
    hn::Vec<typename L::Tag> sums[kRows];
    for (auto& sum : sums) sum = hn::Zero(tag);
    for (size_t d = 0; d < block.dims; ++d) {
      const auto keys = L::Load(block.keys + d * block.key_stride + j);
      for (size_t r = 0; r < kRows; ++r) {
        const float query = block.queries[(row + r) * block.query_stride + d];
        sums[r] = L::Step(hn::Set(tag, static_cast<Real>(query)), keys, sums[r]);
      }
    }
    for (size_t r = 0; r < kRows; ++r) {
      hn::StoreU(hn::Mul(sums[r], scale), tag, block.scores + (row + r) * block.score_stride + j);
    }
  }
}

template <class Real>
void Scores(const ScoreBlock<Real>& block) {
  size_t row = 0;
  for (; row + 8 <= block.rows; row += 8) ScoreRows<Real, 8>(block, row);
  for (; row + 2 <= block.rows; row += 2) ScoreRows<Real, 2>(block, row);
  for (; row < block.rows; ++row) ScoreRows<Real, 1>(block, row);
}

template <class Real, size_t kRows>
HWY_INLINE void ValueRows(const ValueBlock<Real>& block, size_t row) {
  using L = Lanes<Real>;
  const typename L::Tag tag;
  constexpr size_t kWide = hn::MaxLanes(typename L::Tag());
  for (size_t d = 0; d < block.dims; d += kWide) {
    hn::Vec<typename L::Tag> sums[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      sums[r] = hn::LoadU(tag, block.sums + (row + r) * block.sum_stride + d);
    }
    for (size_t j = 0; j < block.count; ++j) {
      const auto values = L::Load(block.values + j * block.dims + d);
      for (size_t r = 0; r < kRows; ++r) {
        const Real weight = block.weights[(row + r) * block.weight_stride + j];
        sums[r] = L::Step(hn::Set(tag, weight), values, sums[r]);
      }
    }
    for (size_t r = 0; r < kRows; ++r) {
      hn::StoreU(sums[r], tag, block.sums + (row + r) * block.sum_stride + d);
    }
  }
}

template <class Real>
void Values(const ValueBlock<Real>& block) {
  size_t row = 0;
  for (; row + 8 <= block.rows; row += 8) ValueRows<Real, 8>(block, row);
  for (; row + 2 <= block.rows; row += 2) ValueRows<Real, 2>(block, row);
  for (; row < block.rows; ++row) ValueRows<Real, 1>(block, row);
}

// 2^f on [0, 1) by a cubic, relative error 7.5e-5, as fused attention kernels do it.
HWY_INLINE FloatVec ExpFast(FloatVec x) {
  const FloatVec t = hn::Mul(x, Set(1.44269504f));
  const FloatVec floor = hn::Floor(t);
  const FloatVec f = hn::Sub(t, floor);
  FloatVec sum = Fma(f, Set(0.07802452f), Set(0.22606716f));
  sum = Fma(f, sum, Set(0.69583356f));
  sum = Fma(f, sum, Set(0.9999252f));
  const auto shift = hn::ShiftLeft<23>(hn::ConvertTo(IntTag(), floor));
  return hn::BitCast(FloatTag(), hn::Add(hn::BitCast(IntTag(), sum), shift));
}

HWY_INLINE FloatVec ExpOf(FloatVec x, ExpKind kind) {
  const FloatVec clamped = hn::Min(hn::Max(x, Set(-86.0f)), Set(86.0f));
  return kind == ExpKind::kFast ? ExpFast(clamped) : ExpWide(clamped);
}

// Applies a vector function to a row; the tail goes through a padded vector.
template <class Function>
HWY_INLINE void ForRow(size_t count, Function&& apply) {
  size_t i = 0;
  for (; i + kRealLanes <= count; i += kRealLanes) apply(i, kRealLanes);
  if (i < count) apply(i, count - i);
}

HWY_INLINE FloatVec LoadPart(const float* from, size_t count) {
  if (count == kRealLanes) return LoadFloats(from);
  HWY_ALIGN float padded[kVirtualLanes] = {};
  std::copy(from, from + count, padded);
  return LoadFloats(padded);
}

HWY_INLINE void StorePart(FloatVec value, size_t count, float* to) {
  if (count == kRealLanes) return hn::StoreU(value, FloatTag(), to);
  HWY_ALIGN float padded[kVirtualLanes];
  hn::StoreU(value, FloatTag(), padded);
  std::copy(padded, padded + count, to);
}

void ExpRow(float* row, size_t count, float shift, ExpKind kind) {
  const FloatVec base = Set(shift);
  ForRow(count, [&](size_t i, size_t part) HWY_ATTR {
    StorePart(ExpOf(hn::Sub(LoadPart(row + i, part), base), kind), part, row + i);
  });
}

// Sums by lanes of what `step` adds to a lane's sum for elements [i, i + kRealLanes), then the
// fixed tree: lanes i and i + 8, then 4, 2, 1.
template <class Step>
HWY_INLINE float SumLanes(size_t count, Step&& step) {
  constexpr size_t kGroups = kVirtualLanes / kRealLanes;
  FloatVec sums[kGroups];
  for (FloatVec& sum : sums) sum = hn::Zero(FloatTag());
  size_t i = 0;
  for (; i + kVirtualLanes <= count; i += kVirtualLanes) {
    for (size_t g = 0; g < kGroups; ++g) {
      sums[g] = step(sums[g], i + g * kRealLanes, kRealLanes);
    }
  }
  for (size_t g = 0; i + g * kRealLanes < count; ++g) {
    const size_t at = i + g * kRealLanes;
    sums[g] = step(sums[g], at, std::min(kRealLanes, count - at));
  }
  HWY_ALIGN float lanes[kVirtualLanes];
  for (size_t g = 0; g < kGroups; ++g) hn::StoreU(sums[g], FloatTag(), lanes + g * kRealLanes);
  for (size_t half = kVirtualLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

float SumRow(const float* row, size_t count) {
  return SumLanes(count, [&](FloatVec sum, size_t i, size_t part)
                             HWY_ATTR { return hn::Add(sum, LoadPart(row + i, part)); });
}

float SumSquares(const float* row, size_t count) {
  return SumLanes(count, [&](FloatVec sum, size_t i, size_t part) HWY_ATTR {
    const FloatVec value = LoadPart(row + i, part);
    return Fma(value, value, sum);
  });
}

float Dot(const float* a, const float* b, size_t count) {
  return SumLanes(count, [&](FloatVec sum, size_t i, size_t part) HWY_ATTR {
    return Fma(LoadPart(a + i, part), LoadPart(b + i, part), sum);
  });
}

void Gate(const float* gate, const float* up, size_t count, bool fused, ExpKind kind, float* out) {
  const FloatVec one = Set(1.0f);
  ForRow(count, [&](size_t i, size_t part) HWY_ATTR {
    const FloatVec g = LoadPart(gate + i, part);
    const FloatVec u = LoadPart(up + i, part);
    const FloatVec divisor = hn::Add(one, ExpOf(hn::Neg(g), kind));
    const FloatVec result =
        fused ? hn::Div(hn::Mul(g, u), divisor) : hn::Mul(hn::Mul(g, hn::Div(one, divisor)), u);
    StorePart(result, part, out + i);
  });
}

constexpr RowOps kRowOps = {&Scores<float>, &Scores<double>, &Values<float>, &Values<double>,
                            &ExpRow,        &SumRow,         &SumSquares,    &Dot,
                            &Gate};

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kcc {

const RowOps& RowOpsFor(Target target) { KCC_RETURN_BY_TARGET(target, kRowOps); }

}  // namespace kcc
#endif  // HWY_ONCE
