// ln in fixed point from additions, multiplications and one division: the sums of betting.h must
// have the same bits on every machine, and the logarithms of two C libraries (or of one library on
// two CPUs) need not agree in the last place.
#include <bit>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/stats/betting.h"

namespace kcc {
namespace {

constexpr double kLn2High = 0x1.62e42fefa3800p-1;  // 42 bits, so that exponent * kLn2High is exact
constexpr double kLn2Low = 0x1.ef35793c76730p-45;
constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;

// ln(f) = 2 atanh(s), s = (f-1)/(f+1), for f in [1/sqrt 2, sqrt 2): s^2 < 0.0295, and the first
// term left out is below 2^-60 of the sum.
double LogNearOne(double f) {
  const double s = (f - 1) / (f + 1);
  const double s2 = s * s;
  double series = 0;
  for (int k = 23; k >= 3; k -= 2) series = (series + 1.0 / k) * s2;
  return 2 * s + 2 * s * series;
}

}  // namespace

int64_t FixedLog(double y) {
  KCC_CHECK(y > 0 && y <= 0x1.fffffffffffffp+1023);
  int exponent = 0;
  if (y < 0x1p-1022) {  // bring a subnormal into the normal range
    y *= 0x1p+64;
    exponent = -64;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(y);
  exponent += static_cast<int>(bits >> 52) - 1023;
  double f = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (f >= kSqrt2) {
    f *= 0.5;
    ++exponent;
  }
  const double log_y = exponent * kLn2High + (exponent * kLn2Low + LogNearOne(f));
  // |log_y| < 746 carries an error below 2^-42; so does the caller's y. Both together stay below
  // the 2^-8 units (2^-40 nats) given away here, hence never above the truth.
  return static_cast<int64_t>(std::floor(log_y * 0x1p+32 - 0x1p-8));
}

}  // namespace kcc
