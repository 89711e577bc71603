#include "bench/bounds/token_case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace kcc::bench {
namespace {

int SampleVocabulary(Random& random) {
  const double u = random.Uniform();
  if (u < 0.35) return 2;
  if (u < 0.90) return 3 + random.Below(6);
  if (u < 0.995) return 9 + random.Below(24);
  return 256;
}

// Everyday spans, tiny ones, and the region where the closed forms change shape.
double SampleSpan(Random& random) {
  const double u = random.Uniform();
  if (u < 0.5) return random.LogUniform(1e-3, 30);
  if (u < 0.8) return random.LogUniform(1e-12, 1);
  if (u < 0.95) return random.LogUniform(0.3, 50);
  return random.LogUniform(10, 700);
}

// Ends at distances from 1 that the span can reach, or the customary ones.
CorrectionRange SampleRange(Random& random, double span) {
  if (random.Chance(0.2)) return {0.8, 1.2};
  if (random.Chance(0.1)) return {1, 1};
  const double reach = std::min(span, 600.0);
  return {std::exp(-reach * random.Uniform(0, 1.1)), std::exp(reach * random.Uniform(0, 1.1))};
}

double Clamp01(double x) { return std::clamp(x, 0.0, 1.0); }

}  // namespace

Real KlTerm(Real x) {
  if (std::fabs(x) > 0.3L) return x * std::exp(x) - std::expm1(x);
  Real sum = 0;
  Real power = 1;  // x^k / k!
  for (int k = 1; k <= 16; ++k) {
    power *= x / static_cast<Real>(k);
    sum += static_cast<Real>(k - 1) * power;
  }
  return sum;
}

Real ReverseKlTerm(Real x) {
  if (std::fabs(x) > 0.3L) return std::expm1(x) - x;
  Real sum = 0;
  Real power = x;
  for (int k = 2; k <= 17; ++k) {
    power *= x / static_cast<Real>(k);
    sum += power;
  }
  return sum;
}

TokenCase TokenCase::Sample(Random& random) {
  TokenCase c;
  const auto vocabulary = static_cast<size_t>(SampleVocabulary(random));
  c.span = SampleSpan(random);
  c.temperature = random.LogUniform(0.1, 4);
  c.order = random.Chance(0.5) ? random.LogUniform(0.05, 20) : 1 + random.Uniform(1e-3, 1);
  if (std::fabs(c.order - 1) < 1e-3) c.order = 2;
  c.range = SampleRange(random, c.span);
  c.exceedance = random.LogUniform(1e-6, 1);
  const double spread = random.Chance(0.3) ? random.Uniform(0, 20) : random.Uniform(0, 2);
  const bool two_point = random.Chance(0.4);
  for (size_t v = 0; v < vocabulary; ++v) {
    c.logits.push_back(spread * random.Normal());
    c.levels.push_back(two_point ? (random.Chance(0.5) ? 1.0 : 0.0) : random.Uniform());
    c.rewards.push_back(random.Chance(0.5) ? (random.Chance(0.5) ? 1.0 : 0.0) : random.Uniform());
    c.advantage.push_back(random.Chance(0.7) ? (random.Chance(0.5) ? 1.0 : -1.0)
                                             : random.Uniform(-1, 1));
    c.score.push_back(random.Chance(0.7) ? (random.Chance(0.5) ? 1.0 : -1.0)
                                         : random.Uniform(-1, 1));
  }
  c.Derive();
  return c;
}

TokenCase TokenCase::Perturbed(Random& random, double step) const {
  TokenCase c = *this;
  const bool all = random.Chance(0.2);
  const int pick = random.Below(static_cast<int>(5 * logits.size()) + 4);
  int at = 0;
  const auto move = [&] { return (all || at++ == pick) ? step * random.Normal() : 0.0; };
  c.span = std::clamp(c.span * std::exp(move()), 1e-13, 700.0);
  c.order = std::clamp(c.order * std::exp(0.5 * move()), 0.02, 40.0);
  if (std::fabs(c.order - 1) < 1e-3) c.order = order;
  c.range.low = std::clamp(std::pow(c.range.low, std::exp(0.3 * move())), 1e-280, 1.0);
  c.range.high = std::clamp(std::pow(c.range.high, std::exp(0.3 * move())), 1.0, 1e280);
  for (size_t v = 0; v < logits.size(); ++v) {
    c.logits[v] = std::clamp(c.logits[v] + move(), -600.0, 600.0);
    c.levels[v] = Clamp01(c.levels[v] + 0.3 * move());
    c.rewards[v] = Clamp01(c.rewards[v] + 0.5 * move());
    c.advantage[v] = std::clamp(c.advantage[v] + move(), -1.0, 1.0);
    c.score[v] = std::clamp(c.score[v] + move(), -1.0, 1.0);
  }
  c.Derive();
  return c;
}

void TokenCase::Derive() {
  // The span is used in full: the least level is 0 and the greatest 1.
  *std::min_element(levels.begin(), levels.end()) = 0;
  *std::max_element(levels.begin(), levels.end()) = 1;
  const size_t n = logits.size();
  const auto mode = static_cast<size_t>(
      std::distance(logits.begin(), std::max_element(logits.begin(), logits.end())));
  q.resize(n);
  log_w.resize(n);
  excess.resize(n);
  Real total = 0;
  for (size_t v = 0; v < n; ++v)
    total += q[v] = std::exp(static_cast<Real>(logits[v] - logits[mode]));
  // Delta is taken relative to the likeliest token: its log w may be far smaller than the span,
  // and would be lost in a difference of two numbers of the span's size.
  const auto delta = [&](size_t v) {
    return static_cast<Real>(span * levels[v]) - static_cast<Real>(span * levels[mode]);
  };
  Real mean_excess = 0;  // E_q e^Delta - 1
  for (size_t v = 0; v < n; ++v) {
    q[v] /= total;
    mean_excess += q[v] * std::expm1(delta(v));
  }
  const Real log_mean = std::log1p(mean_excess);
  tv = kl_train_infer = kl_infer_train = chi2 = 0;
  for (size_t v = 0; v < n; ++v) {
    const Real x = log_w[v] = delta(v) - log_mean;
    const Real e = excess[v] = std::expm1(x);
    if (x < 0) tv -= q[v] * e;
    kl_train_infer += q[v] * KlTerm(x);
    kl_infer_train += q[v] * ReverseKlTerm(x);
    chi2 += q[v] * e * e;
  }
}

Real TokenCase::Sum(Real (*term)(Real, Real)) const {
  Real sum = 0;
  for (size_t v = 0; v < q.size(); ++v) sum += term(q[v], log_w[v]);
  return sum;
}

Real TokenCase::RewardMean() const {
  Real mean = 0;
  for (size_t v = 0; v < q.size(); ++v) mean += q[v] * rewards[v];
  return mean;
}

Real TokenCase::RewardDrift() const {
  const Real mean = RewardMean();  // changes nothing but the rounding
  Real drift = 0;
  for (size_t v = 0; v < q.size(); ++v) drift += q[v] * excess[v] * (rewards[v] - mean);
  return std::fabs(drift);
}

Real TokenCase::RewardDeviation() const {
  const Real mean = RewardMean();
  Real variance = 0;
  for (size_t v = 0; v < q.size(); ++v)
    variance += q[v] * (rewards[v] - mean) * (rewards[v] - mean);
  return std::sqrt(variance);
}

namespace {

// a - w, exact to its last bits whether a is near 1 or near 0.
Real Shortfall(double a, Real excess, Real log_w) {
  return a < 0.5 ? static_cast<Real>(a) - std::exp(log_w) : (static_cast<Real>(a) - 1) - excess;
}

// w - phi(w) of w = 1 + excess: the library's WeightGap, independently, with its sign.
Real Residual(Real excess, Real log_w, Correction correction, CorrectionRange range,
              double advantage) {
  const Real high = static_cast<Real>(range.high) - 1;
  const Real shortfall = Shortfall(range.low, excess, log_w);
  const bool below = shortfall > 0;
  const bool above = excess > high;
  switch (correction) {
    case Correction::kNone:
      return excess;
    case Correction::kTruncate:
      return above ? excess - high : 0;
    case Correction::kClip:
      return above ? excess - high : below ? -shortfall : 0;
    case Correction::kMask:
      return above || below ? std::exp(log_w) : 0;
    case Correction::kFilter:
      return above || below ? std::exp(log_w) : excess;
    case Correction::kPpo:
      return (above && advantage > 0) || (below && advantage < 0) ? std::exp(log_w) : 0;
    case Correction::kFull:
      return 0;
  }
  return 0;
}

}  // namespace

Real TokenCase::WeightGap(Correction correction) const {
  Real gap = 0;
  for (size_t v = 0; v < q.size(); ++v) {
    gap += q[v] * std::fabs(Residual(excess[v], log_w[v], correction, range, advantage[v]));
  }
  return gap;
}

Real TokenCase::WorstPpoGap() const {
  Real gap = 0;
  for (size_t v = 0; v < q.size(); ++v) {
    gap += q[v] * std::fmax(Residual(excess[v], log_w[v], Correction::kPpo, range, 1),
                            Residual(excess[v], log_w[v], Correction::kPpo, range, -1));
  }
  return gap;
}

Real TokenCase::ExcessBelow() const {
  Real sum = 0;
  for (size_t v = 0; v < q.size(); ++v) {
    sum += q[v] * std::fmax(0.0L, Shortfall(range.low, excess[v], log_w[v]));
  }
  return sum;
}

Real TokenCase::GradientBias(Correction correction) const {
  Real mean = 0;
  for (size_t v = 0; v < q.size(); ++v) mean += q[v] * (1 + excess[v]) * score[v];
  Real norm = 0;
  for (size_t v = 0; v < q.size(); ++v) norm = std::fmax(norm, std::fabs(score[v] - mean));
  if (norm == 0) return 0;
  Real bias = 0;
  for (size_t v = 0; v < q.size(); ++v) {
    bias += q[v] * Residual(excess[v], log_w[v], correction, range, advantage[v]) * advantage[v] *
            (score[v] - mean);
  }
  return std::fabs(bias) / norm;
}

Real TokenCase::Renyi() const {
  // ln E_q w^a / (a-1); E_q(w^a - 1) = E_q(w^a - 1 - a(w - 1)), whose terms have one sign.
  const Real a = order;
  if (a * span > 5000) return 0;  // out of the range of exp
  Real sum = 0;
  for (size_t v = 0; v < q.size(); ++v) {
    const Real x = log_w[v];
    if (std::fabs(x) * std::fmax(1.0L, a) > 0.3L) {
      sum += q[v] * (std::expm1(a * x) - a * std::expm1(x));
      continue;
    }
    Real power = x;
    Real a_power = a;
    Real term = 0;
    for (int k = 2; k <= 17; ++k) {
      power *= x / static_cast<Real>(k);
      a_power *= a;
      term += (a_power - a) * power;
    }
    sum += q[v] * term;
  }
  return std::log1p(sum) / (a - 1);
}

std::string TokenCase::Describe() const {
  char text[256];
  std::snprintf(text, sizeof text, "V=%zu s=%.3g", q.size(), span);
  return text;
}

}  // namespace kcc::bench
