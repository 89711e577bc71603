#include "kcc/stats/paired.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/stats/beta.h"
#include "kcc/stats/binomial.h"

namespace kcc {
namespace {

// P(A + B <= limit) for independent binomials of n trials, never below the truth: terms far from
// A's mean are given the whole of what they could add, and kSlack is above the rounding of the
// rest.
double TwoBinomialsAtMost(int64_t limit, int64_t n, double rate_a, double rate_b) {
  const double mean = static_cast<double>(n) * rate_a;
  const double reach = 9 * std::sqrt(mean * (1 - rate_a)) + 20;
  const auto first = std::max<int64_t>(0, static_cast<int64_t>(mean - reach));
  const auto last = std::min(n, static_cast<int64_t>(mean + reach));
  constexpr double kSlack = 1e-9;
  double sum = BinomialAtMost(first - 1, n, rate_a) + BinomialAtLeast(last + 1, n, rate_a) + kSlack;
  double others = BinomialAtMost(limit - first, n, rate_b);  // P(B <= limit - a)
  for (int64_t a = first; a <= last && others > 0; ++a) {
    sum += BinomialPoint(a, n, rate_a) * others;
    others -= BinomialPoint(limit - a, n, rate_b);
  }
  return sum;
}

}  // namespace

bool CertifiesGap(PairedCounts seen, double gap, double alpha) {
  KCC_CHECK(seen.up >= 0 && seen.down >= 0 && seen.up + seen.down <= seen.count);
  KCC_CHECK(gap > 0 && gap < 1 && alpha > 0 && alpha < 0.5);
  const double gamma = alpha / 10;
  const int64_t n = seen.count;
  const int64_t sum = seen.up - seen.down;
  if (n < 2 || static_cast<double>(sum + 1) > std::floor(static_cast<double>(n - 1) * gap)) {
    return false;
  }
  const double differ = std::max(gap, RateUpperBound({seen.up + seen.down, n}, gamma));
  const double half = (1 + gap) / 2;
  const double spread = half * half - (differ + gap) / 2;
  if (spread < 0) return false;
  const double high = std::min(1.0, half + std::sqrt(spread));  // 1 where no unit scores -1
  const double low = (differ + gap) / 2 / high;
  return gamma + TwoBinomialsAtMost(sum + n, n, high, low) <= alpha;
}

}  // namespace kcc
