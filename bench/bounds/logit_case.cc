#include "bench/bounds/logit_case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "bench/bounds/claims.h"
#include "kcc/bounds/divergence.h"
#include "kcc/bounds/rank.h"

namespace kcc::bench {

LogitCase LogitCase::Sample(Random& random) {
  LogitCase c;
  const auto vocabulary =
      size_t{2} + static_cast<size_t>(random.Below(random.Chance(0.1) ? 60 : 7));
  c.temperature = random.LogUniform(0.1, 4);
  c.k = 1 + static_cast<size_t>(random.Below(static_cast<int>(vocabulary) - 1));
  const double spread = random.LogUniform(0.01, 30);
  const double drift = random.LogUniform(1e-9, 10);
  const bool sparse = random.Chance(0.4);
  for (size_t v = 0; v < vocabulary; ++v) {
    c.train.push_back(spread * random.Normal());
    c.delta.push_back(sparse && random.Chance(0.6) ? 0.0 : drift * random.Normal());
  }
  std::sort(c.train.begin(), c.train.end(), std::greater<>());
  return c;
}

LogitCase LogitCase::Perturbed(Random& random, double step) const {
  LogitCase c = *this;
  const bool all = random.Chance(0.2);
  const int pick = random.Below(static_cast<int>(2 * train.size()));
  double scale = 1e-12;
  for (const double d : delta) scale = std::fmax(scale, std::fabs(d));
  int at = 0;
  const auto move = [&] { return (all || at++ == pick) ? step * scale * random.Normal() : 0.0; };
  for (size_t v = 0; v < train.size(); ++v) {
    c.train[v] += move();
    c.delta[v] += random.Chance(0.05) ? -c.delta[v] : move();
  }
  std::sort(c.train.begin(), c.train.end(), std::greater<>());
  return c;
}

Real LogitCase::Span() const {
  const auto [low, high] = std::minmax_element(delta.begin(), delta.end());
  return static_cast<Real>(*high) - static_cast<Real>(*low);
}

int LogitCase::Lost() const {
  int lost = 0;
  for (size_t i = 0; i < k; ++i) {
    size_t rivals = 0;
    for (size_t v = 0; v < train.size(); ++v) rivals += v != i && Infer(v) >= Infer(i);
    lost += rivals >= k;
  }
  return lost;
}

std::string LogitCase::Describe() const {
  char text[128];
  std::snprintf(text, sizeof text, "V=%zu k=%zu span=%.3g", train.size(), k,
                static_cast<double>(Span()));
  return text;
}

namespace {

using C = const LogitCase&;

// Doubles on the safe side of exact differences.
double Up(Real x) {
  const auto nearest = static_cast<double>(x);
  return nearest < x ? std::nextafter(nearest, HUGE_VAL) : nearest;
}

Real Linf(C c) {
  Real most = 0;
  for (const double d : c.delta) most = std::fmax(most, std::fabs(static_cast<Real>(d)));
  return most;
}

Real CentredL2(C c) {
  Real mean = 0;
  for (const double d : c.delta) mean += d;
  mean /= static_cast<Real>(c.delta.size());
  Real sum = 0;
  for (const double d : c.delta) sum += (d - mean) * (d - mean);
  return std::sqrt(sum);
}

}  // namespace

const std::vector<Claim<LogitCase>>& LogitClaims() {
  static const std::vector<Claim<LogitCase>> claims = {
      {"span of centred linf", "s <= 2 dinf/tau", true,
       [](C c) { return c.Span() / c.temperature; },
       [](C c) { return SpanOfLinf(Up(c.Span() / 2), c.temperature); }},
      {"span of raw linf", "s <= 2 linf/tau", true, [](C c) { return c.Span() / c.temperature; },
       [](C c) { return SpanOfLinf(Up(Linf(c)), c.temperature); }},
      {"span of l2", "s <= sqrt 2 l2/tau", true, [](C c) { return c.Span() / c.temperature; },
       [](C c) { return SpanOfL2(Up(CentredL2(c)), c.temperature); }},
      // Where the top-k set can change, its margin is at most the span.
      {"order", "z_(k) - z_(k+1) > span keeps the top k", true,
       [](C c) {
         const Real margin = static_cast<Real>(c.train[c.k - 1]) - static_cast<Real>(c.train[c.k]);
         return c.Lost() > 0 ? margin : 0;
       },
       [](C c) { return Up(c.Span()); }},
      {"overlap", "tokens lost <= k (1 - floor)", true,
       [](C c) { return static_cast<Real>(c.Lost()); },
       [](C c) {
         const double kept = TopKOverlapFloor(c.train, c.k, Up(c.Span()));
         return std::round(static_cast<double>(c.k) * (1 - kept));  // a count
       }},
  };
  return claims;
}

}  // namespace kcc::bench
