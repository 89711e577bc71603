// Long doubles with an exponent beside them, to check figures by: 64 bits, no range to leave.
// Shares nothing with kcc's own arithmetic.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace kcc::bench {

// m 2^e with m in [1/2, 1) in size.
struct Real {
  long double m = 0;
  int64_t e = 0;

  Real() = default;
  Real(long double mantissa, int64_t exponent = 0) : m(mantissa), e(exponent) {  // NOLINT
    int shift = 0;
    m = frexpl(m, &shift);
    e = m == 0 ? 0 : e + shift;
  }
  friend Real operator+(const Real& a, const Real& b) {
    if (a.m == 0) return b;
    if (b.m == 0) return a;
    const Real &big = a.e >= b.e ? a : b, &small = a.e >= b.e ? b : a;
    const int64_t shift = small.e - big.e;
    return {big.m + (shift < -200 ? 0 : ldexpl(small.m, static_cast<int>(shift))), big.e};
  }
  Real operator-() const { return {-m, e}; }
  friend Real operator-(const Real& a, const Real& b) { return a + -b; }
  friend Real operator*(const Real& a, const Real& b) { return {a.m * b.m, a.e + b.e}; }
  friend Real operator/(const Real& a, const Real& b) { return {a.m / b.m, a.e - b.e}; }
  friend bool operator<(const Real& a, const Real& b) { return (a - b).m < 0; }
  Real& operator+=(const Real& other) { return *this = *this + other; }
  Real Size() const { return m < 0 ? -*this : *this; }
  double Double() const {
    return static_cast<double>(ldexpl(m, static_cast<int>(std::clamp<int64_t>(e, -9000, 9000))));
  }
};

inline Real ExpOf(long double x) {
  constexpr long double kLn2 = 0.693147180559945309417232121458176568L;
  const long double n = roundl(x / kLn2);
  return {expl(x - n * kLn2), static_cast<int64_t>(n)};
}

// e^x - 1 - x.
inline Real ResidualOf(long double x) {
  if (fabsl(x) > 0.01L) return ExpOf(x) - Real(1 + x);
  long double term = x * x / 2, sum = 0;
  for (int k = 3; k < 14; ++k) {
    sum += term;
    term *= x / k;
  }
  return sum;
}

}  // namespace kcc::bench
