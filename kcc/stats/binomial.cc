#include "kcc/stats/binomial.h"

#include "kcc/base/check.h"
#include "kcc/stats/beta.h"

namespace kcc {
namespace {

void CheckCounts(Exceedance seen) {
  KCC_CHECK(seen.exceeding >= 0 && seen.exceeding <= seen.count);
}

// The least u in [1, n] with holds(u), for a predicate that stays true once it is true.
template <class Predicate>
std::optional<int64_t> LeastRank(int64_t n, Predicate holds) {
  if (n < 1 || !holds(n)) return std::nullopt;
  int64_t low = 0;  // does not hold
  int64_t high = n;
  while (high - low > 1) {
    const int64_t mid = low + (high - low) / 2;
    (holds(mid) ? high : low) = mid;
  }
  return high;
}

}  // namespace

bool CertifiesRate(Exceedance seen, double eps, double alpha) {
  CheckCounts(seen);
  if (seen.count == 0) return false;
  if (eps >= 1) return true;
  return BinomialAtMost(seen.exceeding, seen.count, eps) <= alpha;
}

bool RefutesRate(Exceedance seen, double eps, double alpha) {
  return RefutationPValue(seen, eps) <= alpha;
}

RateDecision DecideRate(Exceedance seen, double eps, double alpha) {
  if (CertifiesRate(seen, eps, alpha)) return RateDecision::kCertified;
  if (RefutesRate(seen, eps, alpha)) return RateDecision::kRefuted;
  return RateDecision::kUndecided;
}

double RefutationPValue(Exceedance seen, double eps) {
  CheckCounts(seen);
  return BinomialAtLeast(seen.exceeding, seen.count, eps);
}

double RateUpperBound(Exceedance seen, double alpha) {
  CheckCounts(seen);
  if (seen.exceeding == seen.count) return 1;
  return BetaQuantile(static_cast<double>(seen.exceeding) + 1,
                      static_cast<double>(seen.count - seen.exceeding), alpha, Tail::kUpper);
}

double RateLowerBound(Exceedance seen, double alpha) {
  CheckCounts(seen);
  if (seen.exceeding == 0) return 0;
  return BetaQuantile(static_cast<double>(seen.exceeding),
                      static_cast<double>(seen.count - seen.exceeding) + 1, alpha, Tail::kLower);
}

Interval RateInterval(Exceedance seen, double alpha) {
  return {.lo = RateLowerBound(seen, alpha / 2), .hi = RateUpperBound(seen, alpha / 2)};
}

std::optional<int64_t> QuantileUpperRank(int64_t count, double p, double alpha) {
  // v_(u) < Q_p needs at least u values below Q_p, each with probability at most p.
  return LeastRank(count, [&](int64_t u) { return BinomialAtLeast(u, count, p) <= alpha; });
}

RateDecision DecideCorpus(Exceedance seen, int64_t corpus, int64_t allowed, double alpha) {
  CheckCounts(seen);
  KCC_CHECK(seen.count <= corpus && allowed >= 0 && allowed <= corpus);
  if (seen.count == 0) return RateDecision::kUndecided;
  // One more than allowed is the mildest violation, `allowed` the worst compliance.
  if (allowed == corpus ||
      HypergeometricAtMost(seen.exceeding, seen.count, allowed + 1, corpus) <= alpha) {
    return RateDecision::kCertified;
  }
  if (HypergeometricAtLeast(seen.exceeding, seen.count, allowed, corpus) <= alpha) {
    return RateDecision::kRefuted;
  }
  return RateDecision::kUndecided;
}

}  // namespace kcc
