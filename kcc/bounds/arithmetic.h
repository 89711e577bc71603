// What one rounding or one quantiser can do (docs/math.md D.1).
//
// Formats round to nearest, ties to even; a unit that truncates doubles u. Tensor cores are not
// IEEE: their accumulator width must be declared (Hopper's FP8 keeps about 13 bits), not assumed.
#pragma once

#include <cstdint>

#include "kcc/base/dtype.h"

namespace kcc {

struct FloatFormat {
  double unit_roundoff;  // u
  double min_subnormal;  // eta
  double largest;
};

// F64, F32, F16, BF16, F8_E4M3, F8_E5M2. Precondition: a floating-point dtype.
FloatFormat FloatFormatOf(DType dtype);

// Q(x) = S rnd(x/S), saturating: max(u/(1+u) |x|, S eta/2), and beyond the largest value the
// distance to it. S = 1: one rounding. For E4M3 with S = amax/448 the largest error is amax/28
// minus a hair, 32 times the S/2 of a uniform step (docs/math.md A.9, W7).
double ScaledFloatError(const FloatFormat& format, double scale, double magnitude);
// Root mean square, for thresholds to propose: 0.425 u |x|.
double ScaledFloatRms(const FloatFormat& format, double magnitude);

// INT b, symmetric: the step that covers amax, amax/(2^{b-1} - 1).
double IntStep(int bits, double max_abs);
// D/2 for values within the covered range, where x/D and D q are formed in fp32: plus 2^-22 of the
// range, i.e. of D (2^{b-1} - 1).
double IntError(int bits, double step);
double IntRms(double step);  // D/sqrt 12

}  // namespace kcc
