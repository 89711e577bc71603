#include "kcc/bounds/sequence.h"

#include <cmath>
#include <numbers>

#include "kcc/base/check.h"
#include "kcc/bounds/rounding.h"

namespace kcc {
namespace {

// -log sech(x) = log cosh(x), without cancellation for small x or overflow for large. Beyond 20
// the omitted log1p(e^-2x) is below 5e-18 of the value.
double LogCosh(double x) {
  if (x > 20.0) return x - std::numbers::ln2;
  const double half = std::sinh(x / 2.0);
  return std::log1p(2.0 * half * half);
}

// Below this, squares underflow and sqrt(sum s_t^2)/4 is exact to the last bit.
constexpr double kLinearBelow = 1e-100;

}  // namespace

double SequenceTvOfSpan(double span, int64_t tokens) {
  KCC_CHECK(tokens >= 0 && span >= 0);
  if (tokens == 0) return 0;
  const double count = static_cast<double>(tokens);
  const double linear = std::sqrt(count) * (span / 4.0);
  if (linear < kLinearBelow) return RoundUp(linear);
  return RoundUpToOne(std::sqrt(-std::expm1(-2.0 * count * LogCosh(span / 4.0))));
}

double SequenceTvOfSpans(std::span<const double> spans) {
  double sum = 0;
  double largest = 0;
  for (const double span : spans) {
    KCC_CHECK(span >= 0);
    sum += LogCosh(span / 4.0);
    largest = std::fmax(largest, span);
  }
  const double count = static_cast<double>(spans.size());
  if (std::sqrt(count) * largest < kLinearBelow) return RoundUp(std::sqrt(count) * largest);
  sum *= 1.0 + count * 0x1p-52;  // the additions' own rounding
  return RoundUpToOne(std::sqrt(-std::expm1(-2.0 * sum)));
}

double SequenceTvOfSquaredSpans(double sum_of_squares) {
  return RoundUpToOne(std::sqrt(sum_of_squares) / 4.0);
}

double SequenceTvOfTokenTv(double tv, int64_t tokens) {
  KCC_CHECK(tokens >= 0 && tv >= 0);
  if (tokens == 0) return 0;
  if (tv >= 1) return 1;
  return RoundUpToOne(-std::expm1(static_cast<double>(tokens) * std::log1p(-tv)));
}

double SequenceTvOfMeanTokenTv(double mean_tv, int64_t tokens) {
  KCC_CHECK(tokens >= 0 && mean_tv >= 0);
  return RoundUpToOne(static_cast<double>(tokens) * mean_tv);
}

double SequenceKlOfTokenKl(double kl, int64_t tokens) {
  KCC_CHECK(tokens >= 0 && kl >= 0);
  return tokens == 0 ? 0 : RoundUp(kl * static_cast<double>(tokens));
}

double SequenceRenyiOfSquaredSpans(double sum_of_squares, double order) {
  KCC_CHECK(order > 0);
  return RoundUp(order / 8.0 * sum_of_squares);
}

double LogWeightTail(double u, double sum_of_squares) {
  KCC_CHECK(u >= 0 && sum_of_squares >= 0);
  if (u == 0) return 1;
  const double exponent = -2.0 * u * (u / sum_of_squares);
  // exp magnifies its argument's relative error by the argument.
  return RoundUpToOne(2.0 * std::exp(exponent * (1.0 - kOutward)));
}

}  // namespace kcc
