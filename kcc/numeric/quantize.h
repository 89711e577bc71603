// Rows rounded to the low-precision formats of base/dtype.h, as float32 values: what a quantiser
// leaves of a number. Branch-free, so that compilers vectorise it; equal to dtype.h's conversions
// for every input (quantize_test.cc).
//
// A scaled quantiser is Q(x) = S rnd(x / S) with S = amax / largest, formed in float32
// (docs/math.md D.1). Rounding is to nearest, ties to even; values beyond the largest saturate,
// except BF16, whose largest is float's own.
#pragma once

#include <cstddef>
#include <span>

#include "kcc/base/dtype.h"

namespace kcc {

// The largest magnitude of the format's codes: 448, 57344, 65504, 127, 7.
float LargestCode(DType format);

// The scale that covers the values: amax / largest; 0 if all are 0.
float CoveringScale(std::span<const float> values, DType format);
float CoveringScale(std::span<const float> values, float largest_code);

// Rounds in place, without a scale. Precondition: F32 (nothing happens), BF16, F16, F8_E4M3,
// F8_E5M2.
void RoundValues(std::span<float> values, DType format);

// Rounds in place under one covering scale, which is returned. Precondition: F8_E4M3, F8_E5M2, I8
// or I4.
float RoundScaled(std::span<float> values, DType format);

}  // namespace kcc
