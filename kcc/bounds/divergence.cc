#include "kcc/bounds/divergence.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "kcc/base/check.h"
#include "kcc/base/constants.h"
#include "kcc/bounds/inverse.h"
#include "kcc/bounds/rounding.h"

namespace kcc {
namespace {

// KL*(s) = sum_n B_2n/(2n)! (1 + 1/(2n)) s^2n, from h coth h - 1 + ln(sinh h / h) at h = s/2.
// Radius of convergence 2 pi; what follows the last term is below 1e-18 of the sum for s <= 1.
double KlSeries(double span) {
  // clang-format off
  constexpr std::array<double, 11> kCoefficients = {
      1.0 / 8,                      -1.0 / 576,
      1.0 / 25920,                  -1.0 / 1075200,
      2.2964432686654908877e-8,     -5.7245393169114509503e-10,
      1.4338431997162155892e-11,    -3.601535314842744296e-13,
      9.0630655038488359288e-15,    -2.2836121334859649667e-16,
      5.7594120478311490386e-18,
  };
  // clang-format on
  const double s2 = span * span;
  double sum = 0;
  for (size_t i = kCoefficients.size(); i-- > 0;) sum = sum * s2 + kCoefficients[i];
  return sum * s2;
}

// The sharp Renyi bound for order >= 1/2, written so that neither order -> 1 nor large spans cancel
// or overflow:  D = ln(A/B)/(a-1) - ln(a)/(a-1) - ln(h),  h = a/(a-1) (1-e^{-(a-1)s})/(1-e^{-as}).
// The terms are of the size of s and 1 while D may be far smaller: hence the margin.
double RenyiSharp(double span, double order) {
  const double am1 = order - 1.0;  // exact near 1
  double first = 0;                // ln(A/B)/(a-1)
  double size = 1;
  if (std::fabs(am1) * span < 0.5) {
    // A/B = 1 + (e^{(a-1)s} - 1)/(1 - e^-s): ln(A/B) keeps its digits as it vanishes.
    first = std::log1p(-std::expm1(am1 * span) / std::expm1(-span)) / am1;
  } else {
    const double a_log = std::log(-std::expm1(-order * span)) / am1;
    const double b_log = std::log(-std::expm1(-span)) / am1;
    first = span + (a_log - b_log);
    size += span + std::fabs(a_log) + std::fabs(b_log);
  }
  const double second = std::log1p(am1) / am1;
  const double h = order / am1 * std::expm1(-am1 * span) / std::expm1(-order * span);
  if (!std::isfinite(h)) return kInf;
  const double third = std::log(h);
  size += std::fabs(first) + std::fabs(second) + std::fabs(third);
  return first - second - third + 8 * std::numeric_limits<double>::epsilon() * size;
}

}  // namespace

double SpanOfLinf(double linf, double temperature) { return RoundUp(2.0 * linf / temperature); }
double SpanOfL2(double l2, double temperature) {
  return RoundUp(std::numbers::sqrt2 * l2 / temperature);
}

double TvOfSpan(double span) { return std::fmin(1.0, RoundUpFrom(span, std::tanh(span / 4.0))); }

double KlOfSpan(double span) {
  KCC_CHECK(span >= 0);
  if (span < 1.0) return RoundUpFrom(span, KlSeries(span));
  if (span == kInf) return kInf;
  // The closed form divided through by e^s. Its terms are near 1 where the sum is near 0.12: their
  // rounding needs an absolute margin beside the relative one.
  const double e = std::exp(-span);
  return RoundUp(span - 1.0 - std::log(span) + std::log1p(-e) + span * e / (1.0 - e) + 2e-15);
}

double JeffreysOfSpan(double span) { return RoundUpFrom(span, span * std::tanh(span / 4.0)); }

double Chi2OfSpan(double span) {
  const double root = std::sinh(span / 2.0);
  return RoundUpFrom(span, root * root);
}

double HellingerOfSpan(double span) {
  // 1 - sech(x) = tanh(x) tanh(x/2): no cancellation, no overflow.
  return std::fmin(1.0, RoundUpFrom(span, std::tanh(span / 4.0) * std::tanh(span / 8.0)));
}

double LogRatioOfSpan(double span) { return span; }

double RenyiOfSpan(double span, double order) {
  KCC_CHECK(order > 0 && span >= 0);
  if (order == 1.0) return KlOfSpan(span);
  if (span == 0 || span == kInf) return span;
  double least = std::fmin(span, RoundUpFrom(span, order * span * span / 8.0));
  if (span < 1e-3) return least;
  // Skew symmetry: D_a(p||q) = a/(1-a) D_{1-a}(q||p), and the extremes are symmetric in p and q.
  const double sharp = order >= 0.5 ? RenyiSharp(span, order)
                                    : order / (1.0 - order) * RenyiSharp(span, 1.0 - order);
  return std::fmin(least, RoundUp(sharp));
}

double TvOfLinfTextbook(double linf, double temperature) { return RoundUp(linf / temperature); }
double TvOfLinfExponential(double linf, double temperature) {
  return RoundUp(std::expm1(2.0 * linf / temperature) / 2.0);
}
double KlOfSpanHoeffding(double span) { return RoundUpFrom(span, span * span / 8.0); }

double TvOfKl(double kl) {
  const double pinsker = std::sqrt(kl / 2.0);
  const double bretagnolle_huber = std::sqrt(-std::expm1(-kl));
  return RoundUpToOne(std::fmin(pinsker, bretagnolle_huber));
}

double TvOfMeanAbsLogRatio(double mean) { return std::fmin(1.0, mean); }

double KlOfSpanAndTv(double span, double tv) {
  return tv == 0 ? 0 : RoundUpFrom(span, span * std::fmin(1.0, tv));
}

double SpanOfMaxAbsLogRatio(double bound) { return 2.0 * bound; }

double LeastSpanOfTv(double tv) {
  KCC_CHECK(tv >= 0 && tv <= 1);
  return RoundDown(4.0 * std::atanh(RoundDown(tv)));
}

double LeastSpanOfKl(double kl) { return LeastReaching(kl, KlOfSpan); }

}  // namespace kcc
