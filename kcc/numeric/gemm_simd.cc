// Three kernels a target: float32 chains with weights widened in registers (the fast one), double
// chains, and chains whose accumulator is rounded after every term.
#include <algorithm>
#include <cstring>
#include <memory>

#include "kcc/base/check.h"
#include "kcc/numeric/by_target.h"
#include "kcc/numeric/gemm.h"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12's AVX-512 intrinsics start from undefined vectors on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kcc/numeric/gemm_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, once per target.
#include "kcc/numeric/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

inline constexpr size_t kVecs = kPanelOutputs / kRealLanes;  // vectors across a panel
// Rows that share one load of the weights: as many as the registers hold.
inline constexpr size_t kRowsMax = HWY_TARGET == HWY_AVX3   ? 8
                                   : HWY_TARGET == HWY_AVX2 ? 2
                                   : HWY_TARGET == HWY_NEON ? 4
                                                            : 1;
inline constexpr size_t kPanelsMax = HWY_TARGET == HWY_AVX3 ? 4 : HWY_TARGET == HWY_SCALAR ? 1 : 2;

template <DType kFormat>
inline constexpr bool kScaled = kFormat == DType::kF8E4M3 || kFormat == DType::kF8E5M2 ||
                                kFormat == DType::kI8 || kFormat == DType::kI4;

// kRealLanes codes of input k of a panel, from output `lane` on, without their scale.
template <DType kFormat>
HWY_INLINE FloatVec LoadCodes(const uint8_t* panel, size_t k, size_t lane) {
  const size_t at = k * kPanelOutputs + lane;
#if HWY_TARGET == HWY_SCALAR
  if constexpr (kFormat == DType::kF16) {
    return Set(F16ToFloat(reinterpret_cast<const uint16_t*>(panel)[at]));
  } else if constexpr (kFormat == DType::kF8E4M3) {
    return Set(F8E4M3ToFloat(panel[at]));
  } else if constexpr (kFormat == DType::kF8E5M2) {
    return Set(F8E5M2ToFloat(panel[at]));
  } else if constexpr (kFormat == DType::kI8) {
    return Set(static_cast<float>(static_cast<int8_t>(panel[at])));
  } else if constexpr (kFormat == DType::kI4) {
    return Set(static_cast<float>(UnpackI4(panel[k / 2 * kPanelOutputs + lane], k % 2 == 1)));
  }
#else
  const hn::Rebind<uint8_t, FloatTag> bytes;
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  if constexpr (kFormat == DType::kF16) {
    const auto bits = hn::LoadU(HalfWordTag(), reinterpret_cast<const uint16_t*>(panel) + at);
    return hn::PromoteTo(FloatTag(), hn::BitCast(half, bits));
  } else if constexpr (kFormat == DType::kF8E4M3) {
    // The exponent's three missing bits, and its bias of 7 where fp16 has 15: a factor of 2^8,
    // which ScaleFactor puts into the scale.
    const auto bits = hn::PromoteTo(HalfWordTag(), hn::LoadU(bytes, panel + at));
    const auto sign = hn::ShiftLeft<8>(hn::And(bits, hn::Set(HalfWordTag(), uint16_t{0x80})));
    const auto rest = hn::ShiftLeft<7>(hn::And(bits, hn::Set(HalfWordTag(), uint16_t{0x7f})));
    return hn::PromoteTo(FloatTag(), hn::BitCast(half, hn::Or(sign, rest)));
  } else if constexpr (kFormat == DType::kF8E5M2) {
    const auto bits = hn::PromoteTo(HalfWordTag(), hn::LoadU(bytes, panel + at));
    return hn::PromoteTo(FloatTag(), hn::BitCast(half, hn::ShiftLeft<8>(bits)));
  } else if constexpr (kFormat == DType::kI8) {
    const hn::Rebind<int8_t, FloatTag> codes;
    const auto* from = reinterpret_cast<const int8_t*>(panel) + at;
    return hn::ConvertTo(FloatTag(), hn::PromoteTo(IntTag(), hn::LoadU(codes, from)));
  } else if constexpr (kFormat == DType::kI4) {
    const uint8_t* from = panel + k / 2 * kPanelOutputs + lane;
    const auto pair = hn::PromoteTo(IntTag(), hn::LoadU(bytes, from));
    const auto top = k % 2 == 1 ? hn::ShiftLeft<24>(pair) : hn::ShiftLeft<28>(pair);
    return hn::ConvertTo(FloatTag(), hn::ShiftRight<28>(top));
  }
#endif
  else if constexpr (kFormat == DType::kBF16) {
    return LoadFloats(reinterpret_cast<const uint16_t*>(panel) + at);
  } else {
    return LoadFloats(reinterpret_cast<const float*>(panel) + at);
  }
}

template <DType kFormat>
HWY_INLINE FloatVec LoadScale(const float* from) {
  const FloatVec scale = LoadFloats(from);
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kFormat == DType::kF8E4M3) return hn::Mul(scale, Set(256.0f));
#endif
  return scale;
}

// Sums of kRows rows and kPanels panels over inputs [begin, end) into tile[row][output].
template <DType kFormat, size_t kRows, size_t kPanels>
HWY_INLINE void SumTile(const float* x, size_t x_stride, const PackedMatrix& w, size_t panel,
                        size_t begin, size_t end, float* tile) {
  constexpr size_t kWide = kPanels * kVecs;
  FloatVec sums[kRows][kWide];
  for (auto& row : sums) {
    for (FloatVec& sum : row) sum = hn::Zero(FloatTag());
  }
  const uint8_t* codes = w.panel(panel);
  const size_t panel_bytes = w.panel_bytes();
  for (size_t k = begin; k < end;) {
    const size_t group = k / w.group();
    const size_t group_end = std::min(end, (group + 1) * w.group());
    FloatVec scales[kWide];
    if constexpr (kScaled<kFormat>) {
      for (size_t i = 0; i < kWide; ++i) {
        scales[i] = LoadScale<kFormat>(w.scales(panel + i / kVecs) + group * kPanelOutputs +
                                       i % kVecs * kRealLanes);
      }
    }
    const auto step = [&](size_t at) HWY_ATTR {
      FloatVec weights[kWide];
      for (size_t i = 0; i < kWide; ++i) {
        weights[i] =
            LoadCodes<kFormat>(codes + i / kVecs * panel_bytes, at, i % kVecs * kRealLanes);
        if constexpr (kScaled<kFormat>) weights[i] = hn::Mul(weights[i], scales[i]);
      }
      for (size_t r = 0; r < kRows; ++r) {
        const FloatVec value = Set(x[r * x_stride + at]);
        for (size_t i = 0; i < kWide; ++i) sums[r][i] = Fma(value, weights[i], sums[r][i]);
      }
    };
    for (; k < group_end; k += 2) {  // by twos: I4 packs pairs
      step(k);
      step(k + 1);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t i = 0; i < kWide; ++i) {
      hn::StoreU(sums[r][i], FloatTag(), tile + r * kWide * kRealLanes + i * kRealLanes);
    }
  }
}

// Where part s of `split` starts: multiples of 32, so that groups and pairs stay whole.
HWY_INLINE size_t SplitBegin(size_t inputs, size_t s, size_t split) {
  return inputs / 32 * s / split * 32;
}

template <DType kFormat, size_t kRows, size_t kPanels>
void RunTile(const GemmRows& rows, size_t row, const PackedMatrix& w, size_t panel, size_t split) {
  constexpr size_t kOutputs = kPanels * kPanelOutputs;
  alignas(64) float total[kRows * kOutputs];
  alignas(64) float part[kRows * kOutputs];
  const float* x = rows.x + row * rows.x_stride;
  for (size_t s = 0; s < split; ++s) {
    const size_t begin = SplitBegin(w.inputs(), s, split);
    const size_t end = SplitBegin(w.inputs(), s + 1, split);
    SumTile<kFormat, kRows, kPanels>(x, rows.x_stride, w, panel, begin, end, s == 0 ? total : part);
    if (s == 0) continue;
    for (size_t i = 0; i < kRows * kOutputs; ++i) total[i] += part[i];
  }
  const size_t first = panel * kPanelOutputs;
  const size_t count = std::min(kOutputs, w.outputs() - first);
  for (size_t r = 0; r < kRows; ++r) {
    float* y = rows.y + (row + r) * rows.y_stride + first;
    if (rows.add) {
      for (size_t i = 0; i < count; ++i) y[i] += total[r * kOutputs + i];
    } else {
      std::memcpy(y, total + r * kOutputs, count * sizeof(float));
    }
  }
}

template <DType kFormat>
void GemmFloat(const GemmRows& rows, const PackedMatrix& w, size_t begin, size_t end,
               const Reduction& reduction) {
  const auto split = static_cast<size_t>(reduction.split);
  for (size_t p = begin; p < end;) {
    if (rows.rows == 1 && kPanelsMax > 1 && p + kPanelsMax <= end) {
      RunTile<kFormat, 1, kPanelsMax>(rows, 0, w, p, split);
      p += kPanelsMax;
      continue;
    }
    size_t r = 0;
    for (; r + kRowsMax <= rows.rows; r += kRowsMax) {
      RunTile<kFormat, kRowsMax, 1>(rows, r, w, p, split);
    }
    if constexpr (kRowsMax > 4) {
      for (; r + 4 <= rows.rows; r += 4) RunTile<kFormat, 4, 1>(rows, r, w, p, split);
    }
    if constexpr (kRowsMax > 2) {
      for (; r + 2 <= rows.rows; r += 2) RunTile<kFormat, 2, 1>(rows, r, w, p, split);
    }
    for (; r < rows.rows; ++r) RunTile<kFormat, 1, 1>(rows, r, w, p, split);
    ++p;
  }
}

// A panel as float32, input by input, for the two kernels that need not be fast.
template <DType kFormat>
void UnpackPanel(const PackedMatrix& w, size_t panel, float* to) {
  const uint8_t* codes = w.panel(panel);
  for (size_t k = 0; k < w.inputs(); ++k) {
    for (size_t i = 0; i < kPanelOutputs; i += kRealLanes) {
      FloatVec value = LoadCodes<kFormat>(codes, k, i);
      if constexpr (kScaled<kFormat>) {
        const float* scales = w.scales(panel) + k / w.group() * kPanelOutputs;
        value = hn::Mul(value, LoadScale<kFormat>(scales + i));
      }
      hn::StoreU(value, FloatTag(), to + k * kPanelOutputs + i);
    }
  }
}

using DoubleTag = hn::CappedTag<double, 8>;
using DoubleVec = hn::Vec<DoubleTag>;
inline constexpr size_t kDoubleLanes = hn::MaxLanes(DoubleTag());
inline constexpr size_t kDoubleVecs = kPanelOutputs / kDoubleLanes;

// Products of floats are exact in double, so that a fused and an unfused sum are the same.
template <size_t kRows>
void SumDouble(const float* x, size_t x_stride, const float* panel, size_t begin, size_t end,
               double* total, bool add) {
  const hn::Rebind<float, DoubleTag> narrow;
  DoubleVec sums[kRows][kDoubleVecs];
  for (auto& row : sums) {
    for (DoubleVec& sum : row) sum = hn::Zero(DoubleTag());
  }
  for (size_t k = begin; k < end; ++k) {
    for (size_t i = 0; i < kDoubleVecs; ++i) {
      const auto weight = hn::PromoteTo(
          DoubleTag(), hn::LoadU(narrow, panel + k * kPanelOutputs + i * kDoubleLanes));
      for (size_t r = 0; r < kRows; ++r) {
        const auto value = hn::Set(DoubleTag(), static_cast<double>(x[r * x_stride + k]));
        sums[r][i] = hn::MulAdd(value, weight, sums[r][i]);
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t i = 0; i < kDoubleVecs; ++i) {
      double* to = total + r * kPanelOutputs + i * kDoubleLanes;
      const auto before = add ? hn::LoadU(DoubleTag(), to) : hn::Zero(DoubleTag());
      hn::StoreU(add ? hn::Add(before, sums[r][i]) : sums[r][i], DoubleTag(), to);
    }
  }
}

// To `bits` of mantissa, nearest even, float32's exponents.
HWY_INLINE FloatVec RoundMantissa(FloatVec value, int bits) {
  const uint32_t dropped = static_cast<uint32_t>(23 - bits);
  const auto raw = hn::BitCast(UintTag(), value);
  const auto odd =
      hn::And(hn::ShiftRightSame(raw, static_cast<int>(dropped)), hn::Set(UintTag(), 1u));
  const auto half = hn::Set(UintTag(), (1u << (dropped - 1)) - 1);
  const auto mask = hn::Set(UintTag(), ~((1u << dropped) - 1));
  return hn::BitCast(FloatTag(), hn::And(hn::Add(raw, hn::Add(half, odd)), mask));
}

void SumNarrow(const float* x, const float* panel, size_t begin, size_t end,
               const Reduction& reduction, float* total, bool add) {
  const size_t interval =
      reduction.promote > 0 ? static_cast<size_t>(reduction.promote) : end - begin;
  for (size_t i = 0; i < kPanelOutputs; i += kRealLanes) {
    FloatVec sum = hn::Zero(FloatTag());
    for (size_t k = begin; k < end; k += interval) {
      FloatVec part = hn::Zero(FloatTag());
      for (size_t j = k; j < std::min(end, k + interval); ++j) {
        part = Fma(Set(x[j]), LoadFloats(panel + j * kPanelOutputs + i), part);
        part = RoundMantissa(part, reduction.mantissa_bits);
      }
      sum = k == begin ? part : hn::Add(sum, part);
    }
    if (add) sum = hn::Add(LoadFloats(total + i), sum);
    hn::StoreU(sum, FloatTag(), total + i);
  }
}

template <DType kFormat>
void GemmSlow(const GemmRows& rows, const PackedMatrix& w, size_t begin, size_t end,
              const Reduction& reduction) {
  constexpr size_t kRows = kDoubleLanes == 8 ? 4 : 1;
  const auto scratch = std::make_unique_for_overwrite<float[]>(w.inputs() * kPanelOutputs);
  const auto split = static_cast<size_t>(reduction.split);
  for (size_t p = begin; p < end; ++p) {
    UnpackPanel<kFormat>(w, p, scratch.get());
    const size_t first = p * kPanelOutputs;
    const size_t count = std::min(kPanelOutputs, w.outputs() - first);
    for (size_t r = 0; r < rows.rows;) {
      const float* x = rows.x + r * rows.x_stride;
      alignas(64) double wide[kRows * kPanelOutputs];
      alignas(64) float narrow[kPanelOutputs];
      const bool is_double = reduction.mantissa_bits == 52;
      const size_t taken = is_double && r + kRows <= rows.rows ? kRows : 1;
      for (size_t s = 0; s < split; ++s) {
        const size_t from = SplitBegin(w.inputs(), s, split);
        const size_t to = SplitBegin(w.inputs(), s + 1, split);
        if (!is_double) {
          SumNarrow(x, scratch.get(), from, to, reduction, narrow, s > 0);
        } else if (taken == kRows) {
          SumDouble<kRows>(x, rows.x_stride, scratch.get(), from, to, wide, s > 0);
        } else {
          SumDouble<1>(x, rows.x_stride, scratch.get(), from, to, wide, s > 0);
        }
      }
      for (size_t i = 0; i < taken; ++i, ++r) {
        float* y = rows.y + r * rows.y_stride + first;
        for (size_t n = 0; n < count; ++n) {
          const float sum = is_double ? static_cast<float>(wide[i * kPanelOutputs + n]) : narrow[n];
          y[n] = rows.add ? y[n] + sum : sum;
        }
      }
    }
  }
}

template <DType kFormat>
void GemmOf(const GemmRows& rows, const PackedMatrix& w, size_t begin, size_t end,
            const Reduction& reduction) {
  if (reduction.mantissa_bits == 23) {
    GemmFloat<kFormat>(rows, w, begin, end, reduction);
  } else {
    GemmSlow<kFormat>(rows, w, begin, end, reduction);
  }
}

void GemmTarget(const GemmRows& rows, const PackedMatrix& w, size_t begin, size_t end,
                const Reduction& reduction) {
  switch (w.format()) {
    case DType::kF32:
      return GemmOf<DType::kF32>(rows, w, begin, end, reduction);
    case DType::kBF16:
      return GemmOf<DType::kBF16>(rows, w, begin, end, reduction);
    case DType::kF16:
      return GemmOf<DType::kF16>(rows, w, begin, end, reduction);
    case DType::kF8E4M3:
      return GemmOf<DType::kF8E4M3>(rows, w, begin, end, reduction);
    case DType::kF8E5M2:
      return GemmOf<DType::kF8E5M2>(rows, w, begin, end, reduction);
    case DType::kI8:
      return GemmOf<DType::kI8>(rows, w, begin, end, reduction);
    case DType::kI4:
      return GemmOf<DType::kI4>(rows, w, begin, end, reduction);
    default:
      KCC_CHECK(false);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kcc {

void Gemm(const GemmRows& rows, const PackedMatrix& weights, size_t panel_begin, size_t panel_end,
          const Reduction& reduction, Target target) {
  KCC_CHECK(reduction.split >= 1 && static_cast<size_t>(reduction.split) <= weights.inputs() / 32);
  KCC_RETURN_BY_TARGET(target, GemmTarget(rows, weights, panel_begin, panel_end, reduction));
}

}  // namespace kcc
#endif  // HWY_ONCE
