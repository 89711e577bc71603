// The errors that exp_series.h states, searched for densely in a wider arithmetic.
#include "kcc/numeric/exp_series.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace kcc {
namespace {

template <size_t kTerms>
long double SeriesIn(long double u, const float (&terms)[kTerms]) {
  long double sum = 0;
  for (const float term : terms) sum = sum * u + static_cast<long double>(term);
  return sum;
}

struct Errors {
  double residual = 0;  // of e^x - 1 - x, relative to x^2/2
  double excess = 0;    // of e^x - 1, relative to itself
};

template <int kRange>
Errors ErrorsUpTo(long double end) {
  constexpr int kSteps = 200000;
  Errors errors;
  for (int k = -kSteps; k <= kSteps; ++k) {
    if (k == 0) continue;
    const long double x = end * k / kSteps;
    const long double u = x * x;
    // e^x - 1 - x by its own series: near 0 the difference would cancel.
    long double want = 0;
    long double term = 1;
    for (int n = 1; n < 40; ++n) {
      term *= x / n;
      if (n > 1) want += term;
    }
    const long double got =
        u * (SeriesIn(u, ExpSeries<kRange>::kEven) + x * SeriesIn(u, ExpSeries<kRange>::kOdd));
    const long double error = std::fabs(got - want);
    errors.residual = std::max(errors.residual, static_cast<double>(error / (u / 2)));
    errors.excess = std::max(errors.excess, static_cast<double>(error / std::fabs(want + x)));
  }
  return errors;
}

// A band: a claim that is too large is as wrong as one that is too small.
void ExpectClaimed(double error, double claimed) {
  EXPECT_LE(error, claimed);
  EXPECT_GE(error, 0.99 * claimed);
}

TEST(ExpSeries, IsAsFarOffAsItSays) {
  ExpectClaimed(ErrorsUpTo<kNearest>(1.0L / 16).excess, 2.27e-8);
  ExpectClaimed(ErrorsUpTo<kWithin1Over8>(1.0L / 8).residual, 1.18e-7);
  ExpectClaimed(ErrorsUpTo<kWithin1Over2>(0.5L).residual, 3.13e-8);
  ExpectClaimed(ErrorsUpTo<kWithin2>(2.0L).residual, 1.48e-7);
}

}  // namespace
}  // namespace kcc
