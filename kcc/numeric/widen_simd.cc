// BF16 by a shift, F16 by the CPU's conversion (scalar: dtype.h), FP8 by tables of 256 floats.
#include "kcc/numeric/widen.h"

#include <array>
#include <cstring>

#include "kcc/base/check.h"
#include "kcc/numeric/by_target.h"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12's AVX-512 intrinsics start from undefined vectors on purpose.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kcc/numeric/widen_simd.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h, once per target.
#include "kcc/numeric/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kcc {
namespace HWY_NAMESPACE {

void WidenBF16(const uint16_t* from, size_t count, float* to) {
  size_t i = 0;
  for (; i + kRealLanes <= count; i += kRealLanes) {
    hn::StoreU(LoadFloats(from + i), FloatTag(), to + i);
  }
  for (; i < count; ++i) to[i] = BF16ToFloat(from[i]);
}

void WidenF16(const uint16_t* from, size_t count, float* to) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::Rebind<hwy::float16_t, FloatTag> half;
  for (; i + kRealLanes <= count; i += kRealLanes) {
    const auto bits = hn::LoadU(HalfWordTag(), from + i);
    hn::StoreU(hn::PromoteTo(FloatTag(), hn::BitCast(half, bits)), FloatTag(), to + i);
  }
#endif
  for (; i < count; ++i) to[i] = F16ToFloat(from[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace kcc
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kcc {
namespace {

void WidenBF16By(Target target, const uint16_t* from, size_t count, float* to) {
  KCC_RETURN_BY_TARGET(target, WidenBF16(from, count, to));
}

void WidenF16By(Target target, const uint16_t* from, size_t count, float* to) {
  KCC_RETURN_BY_TARGET(target, WidenF16(from, count, to));
}

using Table = std::array<float, 256>;

Table MakeTable(float (*widen)(uint8_t)) {
  Table table;
  for (size_t i = 0; i < table.size(); ++i) table[i] = widen(static_cast<uint8_t>(i));
  return table;
}

void WidenByTable(const uint8_t* from, size_t count, const Table& table, float* to) {
  for (size_t i = 0; i < count; ++i) to[i] = table[from[i]];
}

}  // namespace

void WidenToFloat(const void* from, DType dtype, size_t count, Target target, float* to) {
  static const Table e4m3 = MakeTable(&F8E4M3ToFloat);
  static const Table e5m2 = MakeTable(&F8E5M2ToFloat);
  switch (dtype) {
    case DType::kF32:
      std::memcpy(to, from, count * sizeof(float));
      return;
    case DType::kBF16:
      return WidenBF16By(target, static_cast<const uint16_t*>(from), count, to);
    case DType::kF16:
      return WidenF16By(target, static_cast<const uint16_t*>(from), count, to);
    case DType::kF8E4M3:
      return WidenByTable(static_cast<const uint8_t*>(from), count, e4m3, to);
    case DType::kF8E5M2:
      return WidenByTable(static_cast<const uint8_t*>(from), count, e5m2, to);
    default:
      KCC_CHECK(false);
  }
}

}  // namespace kcc
#endif  // HWY_ONCE
