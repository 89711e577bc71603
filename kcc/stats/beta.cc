#include "kcc/stats/beta.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kcc/base/check.h"

namespace kcc {
namespace {

constexpr double kTwoPi = 6.2831853071795864769;
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

// delta(x) in ln x! = delta(x) + ln(2 pi x)/2 + x ln x - x, for x > 0.
double StirlingError(double x) {
  double shift = 0;
  // delta(x) - delta(x+1) = (x + 1/2) ln(1 + 1/x) - 1 carries small x up to where the series holds.
  while (x < 16) {
    shift += (x + 0.5) * std::log1p(1 / x) - 1;
    x += 1;
  }
  const double xx = x * x;
  constexpr double kSeries[] = {1.0 / 12,   1.0 / 360,      1.0 / 1260, 1.0 / 1680,
                                1.0 / 1188, 691.0 / 360360, 1.0 / 156};
  double sum = 0;
  for (int i = 6; i >= 0; --i) sum = kSeries[i] - sum / xx;
  return shift + sum / x;
}

// A positive number in two parts; `low` is what rounding took from `high`.
struct TwoPart {
  double high = 0;
  double low = 0;
};

TwoPart Product(double a, TwoPart b) {
  const double high = a * b.high;
  return {.high = high, .low = std::fma(a, b.high, -high) + a * b.low};
}

// x ln(x/m) + m - x, without cancellation where x is near m.
double Deviance(double x, TwoPart m) {
  const double difference = (x - m.high) - m.low;
  if (std::abs(difference) >= 0.1 * (x + m.high)) {
    return x * std::log(x / m.high) - difference - x * m.low / m.high;
  }
  const double v = difference / (x + m.high);
  double sum = difference * v;
  double term = 2 * x * v;
  for (int j = 3; j < 1000; j += 2) {
    term *= v * v;
    const double next = sum + term / j;
    if (next == sum) break;
    sum = next;
  }
  return sum;
}

TwoPart Complement(double x) {
  const double high = 1 - x;
  return {.high = high, .low = (1 - high) - x};
}

// Gamma(a+b+1)/(Gamma(a+1) Gamma(b+1)) x^a y^b for a, b > 0 and 0 < x < 1: the binomial point
// probability, with real arguments allowed.
double PointProbability(double a, double b, TwoPart x, TwoPart y) {
  const double n = a + b;
  const double log_point = StirlingError(n) - StirlingError(a) - StirlingError(b) -
                           Deviance(a, Product(n, x)) - Deviance(b, Product(n, y));
  // In this order the quotient neither overflows nor vanishes for n up to 1e300.
  return std::exp(log_point) * std::sqrt(n / a / b / kTwoPi);
}

// K in I_x(a,b) = x^a y^b / B(a,b) / K for x <= a/(a+b): the even part of the classical continued
// fraction (Didonato and Morris 1992) by Lentz's method, in O(sqrt(max(a,b))) steps. x enters by
// lambda = a - (a+b) x, which the caller has without cancellation.
double BetaFraction(double a, double b, double x, double lambda) {
  constexpr double kTiny = 1e-300;
  constexpr int64_t kStepsMax = 10'000'000;
  const auto guarded = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double h = guarded(a * (lambda + 1) / (a + 1));
  double c = h;
  double d = 0;
  for (int64_t step = 1; step <= kStepsMax; ++step) {
    const double m = static_cast<double>(step);
    const double odd = a + 2 * m - 1;
    const double numerator = (a + m - 1) / odd * ((a + b + m - 1) / odd) * (m * (b - m) * x * x);
    const double denominator =
        m + m * (b - m) * x / odd + (a + m) * (lambda + 1 + m * (2 - x)) / (a + 2 * m + 1);
    d = 1 / guarded(denominator + numerator * d);
    c = guarded(denominator + numerator / c);
    const double change = c * d;
    h *= change;
    if (std::abs(change - 1) <= kEpsilon) break;
  }
  return h;
}

// The smaller of two tails, and its complement.
Tails FromLower(double lower) {
  lower = std::min(lower, 1.0);
  return {.lower = lower, .upper = 1 - lower};
}
Tails FromUpper(double upper) {
  upper = std::min(upper, 1.0);
  return {.lower = 1 - upper, .upper = upper};
}

// d/dx I_x(a,b).
double BetaDensity(double a, double b, double x) {
  const TwoPart y = Complement(x);
  return PointProbability(a, b, {.high = x, .low = 0}, y) * (a * (b / (a + b))) / x / y.high;
}

// Halfway in the order of the doubles: at most 62 halvings separate 0 from 1.
double OrderedMidpoint(double low, double high) {
  const uint64_t a = std::bit_cast<uint64_t>(low);
  const uint64_t b = std::bit_cast<uint64_t>(high);
  return std::bit_cast<double>(a + (b - a) / 2);
}

// sum of P(k) over one side of k, from the ratio of neighbouring point probabilities.
template <class Ratio>
double SumTail(double first, int64_t k, int64_t end, int64_t step, Ratio ratio) {
  double sum = first;
  double term = first;
  for (; k != end; k += step) {
    term *= ratio(k);
    sum += term;
    if (term <= sum * (kEpsilon / 16)) break;
  }
  return sum;
}

}  // namespace

Tails IncompleteBeta(double a, double b, double x) {
  KCC_CHECK(a > 0 && b > 0 && x >= 0 && x <= 1);
  if (x == 0) return {.lower = 0, .upper = 1};
  if (x == 1) return {.lower = 1, .upper = 0};
  const TwoPart exact = {.high = x, .low = 0};
  const TwoPart y = Complement(x);
  // x^a y^b / B(a,b).
  const double power = PointProbability(a, b, exact, y) * (a * (b / (a + b)));
  const TwoPart mean = Product(a + b, exact);
  const double lambda = (a - mean.high) - mean.low;
  if (lambda >= 0) return FromLower(power / BetaFraction(a, b, x, lambda));
  return FromUpper(power / BetaFraction(b, a, y.high, -lambda));
}

double BetaQuantile(double a, double b, double probability, Tail tail) {
  KCC_CHECK(a > 0 && b > 0 && probability >= 0 && probability <= 1);
  const bool is_lower = tail == Tail::kLower;
  if (probability == 0) return is_lower ? 0 : 1;
  if (probability == 1) return is_lower ? 1 : 0;
  double low = 0;
  double high = 1;
  double x = a / (a + b);
  constexpr int kNewtonSteps = 40;
  for (int step = 0; step < 200; ++step) {
    if (!(x > low && x < high)) x = OrderedMidpoint(low, high);
    if (x <= low || x >= high) break;  // neighbours: nothing in between
    const Tails tails = IncompleteBeta(a, b, x);
    const double value = is_lower ? tails.lower : tails.upper;
    if (value == probability) return x;
    ((value < probability) == is_lower ? low : high) = x;
    // Newton on the logarithm of the tail, which is nearly straight far out.
    const double density = BetaDensity(a, b, x);
    const double move = value * std::log(value / probability) / density;
    const double next = is_lower ? x - move : x + move;
    if (std::abs(next - x) <= kEpsilon * x) return std::clamp(next, low, high);
    x = step < kNewtonSteps && std::isfinite(next) ? next : OrderedMidpoint(low, high);
  }
  return high;
}

double BinomialPoint(int64_t k, int64_t n, double p) {
  KCC_CHECK(n >= 0 && p >= 0 && p <= 1);
  if (k < 0 || k > n) return 0;
  if (p == 0) return k == 0 ? 1 : 0;
  if (p == 1) return k == n ? 1 : 0;
  if (k == 0) return std::exp(static_cast<double>(n) * std::log1p(-p));
  if (k == n) return std::exp(static_cast<double>(n) * std::log(p));
  return PointProbability(static_cast<double>(k), static_cast<double>(n - k), {.high = p, .low = 0},
                          Complement(p));
}

double BinomialAtMost(int64_t k, int64_t n, double p) {
  KCC_CHECK(n >= 0 && p >= 0 && p <= 1);
  if (k < 0) return 0;
  if (k >= n) return 1;
  if (k == 0) return BinomialPoint(0, n, p);
  return IncompleteBeta(static_cast<double>(k) + 1, static_cast<double>(n - k), p).upper;
}

double BinomialAtLeast(int64_t k, int64_t n, double p) {
  KCC_CHECK(n >= 0 && p >= 0 && p <= 1);
  if (k <= 0) return 1;
  if (k > n) return 0;
  if (k == n) return BinomialPoint(n, n, p);
  return IncompleteBeta(static_cast<double>(k), static_cast<double>(n - k) + 1, p).lower;
}

double HypergeometricPoint(int64_t k, int64_t drawn, int64_t marked, int64_t corpus) {
  KCC_CHECK(drawn >= 0 && marked >= 0 && drawn <= corpus && marked <= corpus);
  const int64_t unmarked = corpus - marked;
  if (k < std::max<int64_t>(0, drawn - unmarked) || k > std::min(drawn, marked)) return 0;
  if (drawn == 0 || drawn == corpus) return 1;
  // For every p: P(k) = Bin(k; marked, p) Bin(drawn-k; unmarked, p) / Bin(drawn; corpus, p).
  const double p = static_cast<double>(drawn) / static_cast<double>(corpus);
  return BinomialPoint(k, marked, p) * BinomialPoint(drawn - k, unmarked, p) /
         BinomialPoint(drawn, corpus, p);
}

double HypergeometricAtMost(int64_t k, int64_t drawn, int64_t marked, int64_t corpus) {
  const double point = HypergeometricPoint(k, drawn, marked, corpus);
  const int64_t least = std::max<int64_t>(0, drawn - (corpus - marked));
  if (k < least) return 0;
  if (k >= std::min(drawn, marked)) return 1;
  // Above the mean the other tail is the shorter and the more precise sum.
  if (static_cast<double>(k) * static_cast<double>(corpus) >
      static_cast<double>(drawn) * static_cast<double>(marked)) {
    return 1 - HypergeometricAtLeast(k + 1, drawn, marked, corpus);
  }
  return SumTail(point, k, least, -1, [&](int64_t i) {
    return static_cast<double>(i) * static_cast<double>(corpus - marked - drawn + i) /
           (static_cast<double>(marked - i + 1) * static_cast<double>(drawn - i + 1));
  });
}

double HypergeometricAtLeast(int64_t k, int64_t drawn, int64_t marked, int64_t corpus) {
  const double point = HypergeometricPoint(k, drawn, marked, corpus);
  const int64_t most = std::min(drawn, marked);
  if (k > most) return 0;
  if (k <= std::max<int64_t>(0, drawn - (corpus - marked))) return 1;
  if (static_cast<double>(k) * static_cast<double>(corpus) <
      static_cast<double>(drawn) * static_cast<double>(marked)) {
    return 1 - HypergeometricAtMost(k - 1, drawn, marked, corpus);
  }
  return SumTail(point, k, most, 1, [&](int64_t i) {
    return static_cast<double>(marked - i) * static_cast<double>(drawn - i) /
           (static_cast<double>(i + 1) * static_cast<double>(corpus - marked - drawn + i + 1));
  });
}

}  // namespace kcc
