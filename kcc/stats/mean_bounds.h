// Bounds for means: of bounded values, of ratios over clusters, of unbounded non-negative values.
//
// What can be said differs by kind, and the names keep it apart:
//  - bounded values: upper and lower bounds for a fixed n (Maurer-Pontil) or at any time (betting;
//    from count, sum and sum of squares alone where no threshold was known at measuring);
//  - token rates over requests: a cluster-robust standard error, for planning and display only (it
//    is asymptotic; token_ratio.h decides);
//  - unbounded non-negative values: lower bounds only. No distribution-free upper bound exists
//    (Bahadur and Savage 1956), so such a mean can be refuted by samples and never certified.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "kcc/stats/betting.h"

namespace kcc {

// Sample moments of values in [0,1]; variance is the unbiased one (divisor n-1).
struct SampleMoments {
  int64_t count = 0;
  double mean = 0;
  double variance = 0;
};
SampleMoments MomentsOf(std::span<const double> values);

// Maurer and Pontil (2009), empirical Bernstein, one-sided at alpha for a fixed n:
//   mean <= X_bar + sqrt(2 V ln(2/alpha)/n) + 7 ln(2/alpha)/(3(n-1)).   1 (or 0) for n < 2.
double MeanUpperMaurerPontil(const SampleMoments& sample, double alpha);
double MeanLowerMaurerPontil(const SampleMoments& sample, double alpha);

// Values in [0,1] of which only these are kept; they merge by addition.
struct ValueSums {
  int64_t count = 0;
  double sum = 0;
  double squares = 0;
};

// One-sided bounds of the mean at level alpha, valid at any time. With y = (m-x)/(1-m) >= -1 a bet
// of stake l against "mean >= m" has the wealth prod (1 + l y), and (Fan, Grama and Liu 2015)
//   ln(1 + l y) >= l y + (ln(1-l) + l) y^2     for y >= -1, 0 <= l < 1,
// so that count, sum and squares bound the log wealth of every stake from below, whatever m. The
// mixture over the stakes of betting.h rejects "mean >= m" at 1/alpha. The wealth itself rises with
// m, so any rejected m is an upper bound; bisection finds a good one. 1 (or 0) where none is.
double MeanUpperBySums(const ValueSums& seen, double alpha);
double MeanLowerBySums(const ValueSums& seen, double alpha);

// Truncation of a non-negative value at a cap: min(x, cap)/cap, so mean >= cap * mean of these.
// +infinity counts as the cap. Nothing for NaN or negative x. Precondition: cap > 0, finite.
std::optional<UnitValue> TruncatedObservation(double x, double cap);

// The caps under which "mean <= threshold" is tested; fixed in advance, since a cap chosen by the
// data would void the test. Test each by betting.h with m = threshold/cap, then average the FAIL
// e-values (LogMeanE in multiplicity.h). Precondition: threshold > 0, finite.
inline constexpr int kTruncationCaps = 3;
std::array<double, kTruncationCaps> TruncationCaps(double threshold);

}  // namespace kcc
