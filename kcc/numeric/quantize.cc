#include "kcc/numeric/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kcc/base/check.h"

namespace kcc {
namespace {

// A float format by its mantissa bits and the exponent of its least normal number. Below that, a
// value is rounded to the fixed subnormal step by adding and subtracting 1.5 * 2^23 steps.
template <int kMantissa, int kMinExponent>
inline float RoundFloat(float value, float largest) {
  constexpr int kDropped = 23 - kMantissa;
  constexpr uint32_t kHalf = (1u << (kDropped - 1)) - 1;
  const float magic = std::ldexp(1.5f, 23 + kMinExponent - kMantissa);
  const float least_normal = std::ldexp(1.0f, kMinExponent);
  const float clamped = std::min(std::max(value, -largest), largest);
  uint32_t bits = std::bit_cast<uint32_t>(clamped);
  bits += kHalf + ((bits >> kDropped) & 1u);
  bits &= ~((1u << kDropped) - 1);
  const float normal = std::bit_cast<float>(bits);
  const float subnormal = std::copysign((clamped + magic) - magic, clamped);
  return std::fabs(clamped) < least_normal ? subnormal : normal;
}

inline float RoundToBF16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  bits += 0x7fffu + ((bits >> 16) & 1u);
  return std::bit_cast<float>(bits & 0xffff0000u);
}

inline float RoundToInteger(float value, float largest) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  const float clamped = std::min(std::max(value, -largest), largest);
  return (clamped + kMagic) - kMagic;
}

// Calls `apply` with the format's rounding function, so that each loop has it inlined.
template <class Apply>
void WithRounding(DType format, Apply apply) {
  switch (format) {
    case DType::kBF16:
      return apply([](float v) { return RoundToBF16(v); });
    case DType::kF16:
      return apply([](float v) { return RoundFloat<10, -14>(v, 65504.0f); });
    case DType::kF8E4M3:
      return apply([](float v) { return RoundFloat<3, -6>(v, 448.0f); });
    case DType::kF8E5M2:
      return apply([](float v) { return RoundFloat<2, -14>(v, 57344.0f); });
    case DType::kI8:
      return apply([](float v) { return RoundToInteger(v, 127.0f); });
    case DType::kI4:
      return apply([](float v) { return RoundToInteger(v, 7.0f); });
    default:
      KCC_CHECK(false);
  }
}

}  // namespace

float LargestCode(DType format) {
  switch (format) {
    case DType::kF16:
      return 65504.0f;
    case DType::kF8E4M3:
      return 448.0f;
    case DType::kF8E5M2:
      return 57344.0f;
    case DType::kI8:
      return 127.0f;
    case DType::kI4:
      return 7.0f;
    default:
      KCC_CHECK(false);
  }
  return 0;
}

float CoveringScale(std::span<const float> values, float largest_code) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest / largest_code;
}

float CoveringScale(std::span<const float> values, DType format) {
  return CoveringScale(values, LargestCode(format));
}

void RoundValues(std::span<float> values, DType format) {
  if (format == DType::kF32) return;
  WithRounding(format, [&](auto round) {
    for (float& value : values) value = round(value);
  });
}

float RoundScaled(std::span<float> values, DType format) {
  const float scale = CoveringScale(values, format);
  if (scale == 0) {
    std::fill(values.begin(), values.end(), 0.0f);  // also amax/largest that underflowed
    return scale;
  }
  WithRounding(format, [&](auto round) {
    for (float& value : values) value = round(value / scale) * scale;
  });
  return scale;
}

}  // namespace kcc
