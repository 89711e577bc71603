// Directed rounding for bounds. A formula evaluated in double with a handful of correctly rounded
// operations and libm calls errs by a few units of 2^-52; the factor below covers 16 of them, so
// that an upper bound stays one (docs/math.md A.3, "round outward"). Near the least doubles
// rounding is absolute instead: kTiny covers that.
#pragma once

#include <cmath>

namespace kcc {

inline constexpr double kOutward = 0x1p-48;
inline constexpr double kTiny = 0x1p-1068;  // 64 times the least positive double

// For non-negative values; 0 and +inf stay what they are.
inline double RoundUp(double value) { return value == 0 ? 0 : value * (1.0 + kOutward) + kTiny; }
inline double RoundDown(double value) { return std::fmax(0.0, value * (1.0 - kOutward) - kTiny); }

// For a bound that is 0 at argument 0 only, though its formula may underflow to 0 elsewhere.
inline double RoundUpFrom(double argument, double value) {
  return argument == 0 ? 0 : value * (1.0 + kOutward) + kTiny;
}

// Probabilities and distances that cannot pass 1.
inline double RoundUpToOne(double value) { return std::fmin(1.0, RoundUp(value)); }

}  // namespace kcc
