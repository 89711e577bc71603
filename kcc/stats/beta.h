// The special functions behind exact tests: the regularised incomplete beta function with its
// inverse, and binomial tails.
//
// Made for n up to 1e9 and rates down to 1e-9, where differences of log-gammas have lost every
// digit: the binomial point probability comes from its deviance (Loader 2000, "Fast and accurate
// computation of binomial probabilities"), the tails from the continued fraction of I_x(a,b), whose
// cost grows as sqrt(n). Relative error below 1e-12 while a tail is above 1e-50 (beta_test.cc).
#pragma once

#include <cstdint>

namespace kcc {

// Two tails that add up to one; the smaller one carries full relative precision.
struct Tails {
  double lower = 0;
  double upper = 0;
};

// lower = I_x(a,b) = P(Beta(a,b) <= x), upper = 1 - lower. Precondition: a, b > 0; 0 <= x <= 1.
Tails IncompleteBeta(double a, double b, double x);

enum class Tail : uint8_t { kLower, kUpper };

// The x whose named tail has the given probability. Asking by the upper tail keeps small alphas
// exact. Precondition: a, b > 0; 0 <= probability <= 1.
double BetaQuantile(double a, double b, double probability, Tail tail);

// Binomial(n, p). Precondition: n >= 0, 0 <= p <= 1; any k.
double BinomialPoint(int64_t k, int64_t n, double p);    // P(X = k)
double BinomialAtMost(int64_t k, int64_t n, double p);   // P(X <= k)
double BinomialAtLeast(int64_t k, int64_t n, double p);  // P(X >= k)

// Hypergeometric: `drawn` of `corpus` items without replacement, `marked` of which are marked.
// Precondition: 0 <= marked, drawn <= corpus; any k. O(sqrt) terms of the sum matter.
double HypergeometricPoint(int64_t k, int64_t drawn, int64_t marked, int64_t corpus);
double HypergeometricAtMost(int64_t k, int64_t drawn, int64_t marked, int64_t corpus);
double HypergeometricAtLeast(int64_t k, int64_t drawn, int64_t marked, int64_t corpus);

}  // namespace kcc
