#include "kcc/stats/paired.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/stats/beta.h"
#include "kcc/stats/binomial.h"

namespace kcc {
namespace {

// P(X = k) of a binomial for one k after the other, up or down: by the ratio of neighbours, a few
// operations each, and anew from its definition every 32 steps, so that the rounding of 32 products
// is all that adds up (3e-14 of the value).
class PointWalk {
 public:
  PointWalk(int64_t trials, double rate) : trials_(trials), rate_(rate) {}

  double Up(int64_t k) {
    const double ratio =
        static_cast<double>(trials_ - k + 1) / static_cast<double>(k) * rate_ / (1 - rate_);
    return Next(k, ratio);
  }
  double Down(int64_t k) {
    const double ratio =
        static_cast<double>(k + 1) / static_cast<double>(trials_ - k) * (1 - rate_) / rate_;
    return Next(k, ratio);
  }

 private:
  static constexpr int kSteps = 32;

  double Next(int64_t k, double ratio) {
    const bool anew =
        step_++ % kSteps == 0 || value_ == 0 || !std::isfinite(ratio) || k <= 0 || k >= trials_;
    value_ = anew ? BinomialPoint(k, trials_, rate_) : value_ * ratio;
    return value_;
  }

  int64_t trials_;
  double rate_;
  int step_ = 0;
  double value_ = 0;
};

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
  PointWalk points_a(n, rate_a);
  PointWalk points_b(n, rate_b);
  for (int64_t a = first; a <= last && others > 0; ++a) {
    sum += points_a.Up(a) * others;
    others -= points_b.Down(limit - a);
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
