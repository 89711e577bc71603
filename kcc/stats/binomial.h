// Exact tests of a rate for a fixed number of independent units (docs/math.md C.2).
//
// The unit must be independent: a request, not a token of one. Exceedances of a threshold are
// counted, so "p99 <= t" is the rate 1% of 1{v > t}. Nothing here may be looked at repeatedly while
// data arrive; betting.h may.
#pragma once

#include <cstdint>
#include <optional>

#include "kcc/base/interval.h"

namespace kcc {

enum class RateDecision : uint8_t { kCertified, kRefuted, kUndecided };

// Counts of one clause on one slice. Everywhere below: 0 <= exceeding <= count.
struct Exceedance {
  int64_t exceeding = 0;
  int64_t count = 0;
};

// rate <= eps is certified iff P(Bin(n, eps) <= X) <= alpha, refuted iff P(Bin(n, eps) >= X) <=
// alpha; at most one of the two for alpha < 1/2. Without data nothing is certified; eps = 0 is
// never certified and is refuted by one exceedance. Precondition: 0 <= eps <= 1, 0 < alpha < 1/2.
bool CertifiesRate(Exceedance seen, double eps, double alpha);
bool RefutesRate(Exceedance seen, double eps, double alpha);
RateDecision DecideRate(Exceedance seen, double eps, double alpha);

// P(Bin(n, eps) >= X): the p-value of "rate <= eps", for Holm over many clauses.
double RefutationPValue(Exceedance seen, double eps);

// One-sided Clopper-Pearson bounds at level alpha; 1 and 0 where the data say nothing.
double RateUpperBound(Exceedance seen, double alpha);
double RateLowerBound(Exceedance seen, double alpha);
// Both, alpha/2 each.
Interval RateInterval(Exceedance seen, double alpha);

// The 1-based rank of the order statistic that bounds the p-quantile with confidence 1 - alpha:
// Q_p <= v_(rank), ties and atoms included. Nothing where the sample is too small (p^n > alpha).
// Precondition: 0 <= p <= 1.
std::optional<int64_t> QuantileUpperRank(int64_t count, double p, double alpha);

// The sample was drawn without replacement from a corpus of `corpus` units; the clause allows
// `allowed` of them to exceed. Exact, and decided for certain once the whole corpus was seen.
// Precondition: count <= corpus, 0 <= allowed <= corpus.
RateDecision DecideCorpus(Exceedance seen, int64_t corpus, int64_t allowed, double alpha);

}  // namespace kcc
