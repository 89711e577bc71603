// Elementary functions in plain double arithmetic: no fused multiply-adds, no libm, so that every
// CPU and every C library gives the same bits (glibc picks FMA variants by CPU).
//
// Each is within 2 ulp of the exact value, the residuals within 12 (double_math_test.cc). Special
// values follow C: Exp(-inf) = 0, Log(0) = -inf, Log(negative) = NaN.
#pragma once

#include <cstdint>

namespace kcc {

double Exp(double x);
// e^x = mantissa * 2^exponent, the mantissa in [0.7, 1.42], for |x| < 10^12. Beyond 1.4e6 the
// mantissa is as uncertain as a change of x in its last bit makes it.
struct ScaledExponential {
  double mantissa;
  int64_t exponent;
};
ScaledExponential ExpScaled(double x);
double Expm1(double x);
double Log(double x);
double Log1p(double x);

// e^x - 1 - x >= 0, without cancellation near 0: the term of every KL sum.
double ExpResidual(double x);
// 2 (cosh x - 1) = e^x + e^-x - 2 >= 0, without cancellation near 0: the term of chi-squared.
double CoshResidual(double x);

}  // namespace kcc
