#include "kcc/numeric/double_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kcc/base/constants.h"

namespace kcc {
namespace {

constexpr double kLog2e = 1.4426950408889634;
// ln 2 in two parts; the high one has 32 bits, so n * kLn2High is exact for |n| < 2^20.
constexpr double kLn2High = 6.93147180369123816490e-01;
constexpr double kLn2Low = 1.90821492927058770002e-10;
constexpr double kHalfLn2 = 0.34657359027997264;
// Adding and subtracting 1.5 * 2^52 rounds to the nearest integer.
constexpr double kRound = 6755399441055744.0;

// (e^r - 1 - r) / r^2 for |r| <= ln2 / 2: the Taylor series, whose next term is below 2^-57.
double ResidualSeries(double r) {
  double sum = 0;
  double coefficients[] = {1.0 / 87178291200.0, 1.0 / 6227020800.0, 1.0 / 479001600.0,
                           1.0 / 39916800.0,    1.0 / 3628800.0,    1.0 / 362880.0,
                           1.0 / 40320.0,       1.0 / 5040.0,       1.0 / 720.0,
                           1.0 / 120.0,         1.0 / 24.0,         1.0 / 6.0};
  for (const double c : coefficients) sum = sum * r + c;
  return sum * r + 0.5;
}

// 2^n for -1022 <= n <= 1023.
double PowerOfTwo(int n) { return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52); }

struct Reduced {
  int n;     // x = n ln2 + r
  double r;  // |r| <= ln2 / 2
};

Reduced Reduce(double x) {
  const double n = (x * kLog2e + kRound) - kRound;
  return {static_cast<int>(n), (x - n * kLn2High) - n * kLn2Low};
}

// (log(1 + f) - 2s) / s with s = f / (2 + f), |s| <= 0.172: 2 atanh(s) / s - 2 in powers of s^2.
double AtanhSeries(double z) {
  double sum = 0;
  for (int k = 11; k >= 1; --k) sum = (sum + 2.0 / (2 * k + 1)) * z;
  return sum;
}

}  // namespace

double Exp(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.782712893384) return kInf;
  if (x < -745.2) return 0;
  const auto [n, r] = Reduce(x);
  const double y = 1 + (r + r * r * ResidualSeries(r));
  if (n > 1022) return y * 2 * PowerOfTwo(n - 1);
  if (n >= -1022) return y * PowerOfTwo(n);
  return y * PowerOfTwo(n + 100) * PowerOfTwo(-100);  // a subnormal result, rounded once
}

ScaledExponential ExpScaled(double x) {
  const double n = (x * kLog2e + kRound) - kRound;
  const double r = (x - n * kLn2High) - n * kLn2Low;
  return {1 + (r + r * r * ResidualSeries(r)), static_cast<int64_t>(n)};
}

double Expm1(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.782712893384) return kInf;
  if (x < -40) return -1;
  if (std::fabs(x) <= kHalfLn2) return x + x * x * ResidualSeries(x);
  if (x > 40) return Exp(x);
  const auto [n, r] = Reduce(x);
  const double scale = PowerOfTwo(n);
  return scale * (r + r * r * ResidualSeries(r)) + (scale - 1);
}

double Log(double x) {
  if (std::isnan(x) || x == kInf) return x;
  if (x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -kInf;
  int k = 0;
  if (x < std::numeric_limits<double>::min()) {
    x *= 18014398509481984.0;  // 2^54: subnormals become normal
    k = -54;
  }
  auto bits = std::bit_cast<uint64_t>(x);
  // The mantissa is taken in [sqrt(1/2), sqrt(2)), so that log of it is small.
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  const uint64_t exponent = (bits - kSqrtHalf) >> 52;
  const int shift = static_cast<int>(static_cast<int64_t>(exponent << 52) >> 52);
  k += shift;
  const double f = std::bit_cast<double>(bits - (exponent << 52)) - 1;
  const double s = f / (2 + f);
  return k * kLn2High - ((s * (f - AtanhSeries(s * s)) - k * kLn2Low) - f);
}

double Log1p(double x) {
  if (std::fabs(x) < 0.29) {
    const double s = x / (2 + x);
    return x - s * (x - AtanhSeries(s * s));
  }
  const double u = 1 + x;
  if (!(u > 0) || u == kInf) return Log(u);
  // What the addition lost, to first order.
  const double lost = u >= 1 ? (x >= 1 ? 1 - (u - x) : x - (u - 1)) : x - (u - 1);
  return Log(u) + lost / u;
}

double ExpResidual(double x) {
  if (std::fabs(x) <= kHalfLn2) return x * x * ResidualSeries(x);
  return Expm1(x) - x;
}

double CoshResidual(double x) {
  if (std::fabs(x) <= kHalfLn2) return ExpResidual(x) + ExpResidual(-x);
  const double up = Exp(std::fabs(x));
  return (up - 2) + 1 / up;
}

}  // namespace kcc
