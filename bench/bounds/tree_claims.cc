#include <cmath>

#include "bench/bounds/claims.h"
#include "kcc/bounds/consequence.h"
#include "kcc/bounds/divergence.h"
#include "kcc/bounds/sequence.h"

namespace kcc::bench {
namespace {

using C = const TreeCase&;

double Up(Real x) {
  const auto nearest = static_cast<double>(x);
  return nearest < x ? std::nextafter(nearest, HUGE_VAL) : nearest;
}

Real Tv(C c) { return c.prefix_tv.back(); }

Real Kl(C c) {  // KL(Q||P), path by path
  Real sum = 0;
  for (const auto& leaf : c.leaves) sum += leaf.q * ReverseKlTerm(leaf.log_w);
  return sum;
}

Real Renyi(C c) {
  const Real a = c.order;
  Real sum = 0;
  for (const auto& leaf : c.leaves) {
    const Real x = leaf.log_w;
    if (std::fabs(x) > 1e-4L) {
      sum += leaf.q * (std::expm1(a * x) - a * std::expm1(x));
    } else {  // to third order, which is exact to 1e-13 here and the bound is loose by more
      sum += leaf.q * ((a * a - a) * x * x / 2 + (a * a * a - a) * x * x * x / 6);
    }
  }
  return std::log1p(sum) / (a - 1) * (1 - 1e-12L);
}

Real Tail(C c) {
  const Real u = c.deviation * std::sqrt(static_cast<Real>(c.SumOfSquares()));
  Real mass = 0;
  for (const auto& leaf : c.leaves) {
    if (std::fabs(leaf.log_w + leaf.kl) > u) mass += leaf.q;
  }
  return mass;
}

// The worst advantage and score against these laws: each step's term can take either sign.
Real UncorrectedBias(C c) {
  Real sum = 0;
  for (const Real tv : c.prefix_tv) sum += 2 * tv;
  return sum;
}

Real TokenWeightBias(C c) { return UncorrectedBias(c) - 2 * c.prefix_tv.back(); }

Real OutcomeTokenWeightBias(C c) {  // sum_t E_Q|W - w_t|, above any actual bias
  Real sum = 0;
  for (const auto& leaf : c.leaves) {
    for (const Real x : leaf.step_w) {
      sum += leaf.q * std::exp(x) * std::fabs(std::expm1(leaf.log_w - x));
    }
  }
  return c.tokens == 1 ? 0 : sum;
}

Real Truncated(C c) {
  const Real cap = static_cast<Real>(c.cap) - 1;  // W - C = (W - 1) - (C - 1), exact near 1
  Real sum = 0;
  for (const auto& leaf : c.leaves) {
    sum += leaf.q * std::fmax(0.0L, std::expm1(leaf.log_w) - cap);
  }
  return sum;
}

}  // namespace

const std::vector<Claim<TreeCase>>& TreeClaims() {
  static const std::vector<Claim<TreeCase>> claims = {
      {"sequence tv", "TV <= sqrt(1 - sech(s/4)^2T)", false, Tv,
       [](C c) { return SequenceTvOfSpan(c.span, c.tokens); }},
      {"sequence tv, a span per step", "sqrt(1 - prod sech(s_t/4)^2)", true, Tv,
       [](C c) { return SequenceTvOfSpans(c.Spans()); }},
      {"sequence tv, squared spans", "sqrt(sum s_t^2)/4", true, Tv,
       [](C c) { return SequenceTvOfSquaredSpans(c.SumOfSquares()); }},
      {"sequence tv, coupling", "1 - (1 - TV)^T", true, Tv,
       [](C c) { return SequenceTvOfTokenTv(Up(c.max_token_tv), c.tokens); }},
      {"sequence tv, mean of steps", "sum_t E_Q TV_t", true, Tv,
       [](C c) {
         return SequenceTvOfMeanTokenTv(Up(c.sum_mean_tv / static_cast<Real>(c.tokens)), c.tokens);
       }},
      {"sequence kl", "KL(Q,P) <= T max KL_t", true, Kl,
       [](C c) { return SequenceKlOfTokenKl(Up(c.max_token_kl), c.tokens); }},
      {"sequence kl of span", "KL(Q,P) <= T KL*(s)", true, Kl,
       [](C c) { return SequenceKlOfTokenKl(KlOfSpan(c.span), c.tokens); }},
      {"sequence renyi", "D_a <= (a/8) sum s_t^2", true, Renyi,
       [](C c) { return SequenceRenyiOfSquaredSpans(c.SumOfSquares(), c.order); }},
      {"log weight tail", "P(|log W + sum KL| >= u) <= 2 e^{-2u^2/sum s^2}", false, Tail,
       [](C c) {
         const double squares = c.SumOfSquares();
         return LogWeightTail(c.deviation * std::sqrt(squares) * (1 - 1e-15), squares);
       }},
      {"trajectory bias", "2 A G sum_t TV(P_<=t, Q_<=t)", false, UncorrectedBias,
       [](C c) { return TrajectoryBiasOfSpan(c.span, c.tokens, 1, 1); }},
      {"trajectory bias, token weights", "2 A G sum_t TV(P_<t, Q_<t)", true, TokenWeightBias,
       [](C c) { return TrajectoryBiasWithTokenWeights(c.span, c.tokens, 1, 1); }},
      {"outcome bias, token weights", "A G sum_t E_Q|W - w_t|", true, OutcomeTokenWeightBias,
       [](C c) { return OutcomeBiasWithTokenWeights(c.span, c.tokens, 1, 1); }},
      {"outcome bias, truncated sequences", "A G_seq E_Q(W - C)_+", false, Truncated,
       [](C c) { return OutcomeBiasTruncated(c.span, c.tokens, c.cap, 1, 1); }},
  };
  return claims;
}

}  // namespace kcc::bench
