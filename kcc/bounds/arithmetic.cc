#include "kcc/bounds/arithmetic.h"

#include <cmath>

#include "kcc/base/check.h"
#include "kcc/bounds/rounding.h"

namespace kcc {

FloatFormat FloatFormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {0x1p-53, 0x1p-1074, 0x1.fffffffffffffp1023};
    case DType::kF32:
      return {0x1p-24, 0x1p-149, 0x1.fffffep127};
    case DType::kF16:
      return {0x1p-11, 0x1p-24, 65504.0};
    case DType::kBF16:
      return {0x1p-8, 0x1p-133, 0x1.fep127};
    case DType::kF8E4M3:
      return {0x1p-4, 0x1p-9, 448.0};
    case DType::kF8E5M2:
      return {0x1p-3, 0x1p-16, 57344.0};
    default:
      KCC_CHECK(false && "an integer dtype has no floating-point format");
  }
  return {};
}

double ScaledFloatError(const FloatFormat& format, double scale, double magnitude) {
  KCC_CHECK(scale > 0 && magnitude >= 0);
  if (magnitude == 0) return 0;
  const double u = format.unit_roundoff;
  const double within = std::fmax(u / (1.0 + u) * magnitude, scale * format.min_subnormal / 2.0);
  return RoundUp(std::fmax(within, magnitude - scale * format.largest));
}

double ScaledFloatRms(const FloatFormat& format, double magnitude) {
  return 0.425 * format.unit_roundoff * magnitude;
}

double IntStep(int bits, double max_abs) {
  KCC_CHECK(bits >= 2 && bits <= 16);
  return RoundUp(max_abs / (std::ldexp(1.0, bits - 1) - 1.0));
}

double IntError(int bits, double step) {
  return RoundUp(step * (0.5 + 0x1p-22 * std::ldexp(1.0, bits - 1)));
}

double IntRms(double step) { return step / std::sqrt(12.0); }

}  // namespace kcc
