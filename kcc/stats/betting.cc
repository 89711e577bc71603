#include "kcc/stats/betting.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kcc/base/check.h"

namespace kcc {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kSumLimit = (int64_t{1} << 62) - 1;  // twice this still fits

// 2^(j/1.5): the grid of alternatives has three points per factor four.
double GridFactor(int j) {
  constexpr double kThirds[3] = {1.0, 0x1.965fea53d6e3dp+0, 0x1.428a2f98d728bp+1};
  return std::ldexp(kThirds[j % 3], 2 * (j / 3));
}

Bet MakeBet(double m, double ratio, double weight) {
  const double r = ratio * m;
  return {
      .alternative = r, .weight = weight, .factor_zero = (1 - r) / (1 - m), .factor_one = ratio};
}

Bet MakeFailBet(double m, int j) {
  constexpr double kWeight = 1.0 / kBets;
  const double ratio = GridFactor(j + 1);
  if (ratio * m <= (1 + m) / 2) return MakeBet(m, ratio, kWeight);
  // The cap halves the wealth at X = 0 and so can never be ruined.
  return {.alternative = (1 + m) / 2,
          .weight = kWeight,
          .factor_zero = 0.5,
          .factor_one = (1 + m) / (2 * m)};
}

BettingPlan PlanFor(double m) {
  BettingPlan plan;
  plan.threshold = m;
  plan.pass[0] = MakeBet(m, 0, 0.4);
  for (int j = 1; j < kBets; ++j) {
    plan.pass[static_cast<size_t>(j)] = MakeBet(m, 1 / GridFactor(j), 0.6 / (kBets - 1));
  }
  for (int j = 0; j < kBets; ++j) plan.fail[static_cast<size_t>(j)] = MakeFailBet(m, j);
  return plan;
}

int64_t SaturatingAdd(int64_t a, int64_t b) {
  // Sums may come from a file; clamped first, their sum cannot overflow.
  a = std::clamp(a, -kSumLimit, kSumLimit);
  b = std::clamp(b, -kSumLimit, kSumLimit);
  return std::clamp(a + b, -kSumLimit, kSumLimit);
}

using LogWealth = std::array<double, kBets>;

// ln sum_k w_k exp(log_wealth_k).
double LogMixture(const std::array<Bet, kBets>& bets, const LogWealth& log_wealth) {
  const double top = *std::max_element(log_wealth.begin(), log_wealth.end());
  if (top == -kInfinity) return -kInfinity;
  double sum = 0;
  for (size_t k = 0; k < kBets; ++k) sum += bets[k].weight * std::exp(log_wealth[k] - top);
  return top + std::log(sum);
}

double LogMixtureOfSums(const std::array<Bet, kBets>& bets, const std::array<int64_t, kBets>& sums,
                        int64_t ones, double scale) {
  LogWealth log_wealth;
  for (size_t k = 0; k < kBets; ++k) {
    const bool ruined = bets[k].factor_one == 0 && ones > 0;
    log_wealth[k] = ruined ? -kInfinity : std::ldexp(scale * static_cast<double>(sums[k]), -32);
  }
  return LogMixture(bets, log_wealth);
}

// ln y(X) as 1 + (y - 1): near m the bets multiply by almost 1, and log1p keeps what the display
// would lose. y - 1 = lam (X - m) = (ratio - 1)/(1-m) ((1-m) X - m (1-X)).
double LogFactor(const Bet& bet, double m, UnitValue x) {
  const double y = x.complement * bet.factor_zero + x.value * bet.factor_one;
  if (y <= 0) return -kInfinity;
  const double gain = (bet.factor_one - 1) / (1 - m) * ((1 - m) * x.value - m * x.complement);
  return std::abs(gain) < 0.5 ? std::log1p(gain) : std::log(y);
}

double LogEOfValues(const std::array<Bet, kBets>& bets, double m,
                    std::span<const WeightedValue> values) {
  LogWealth log_wealth{};
  for (const WeightedValue& v : values) {
    if (v.count <= 0) continue;
    for (size_t k = 0; k < kBets; ++k) {
      log_wealth[k] += static_cast<double>(v.count) * LogFactor(bets[k], m, v.value);
    }
  }
  return LogMixture(bets, log_wealth);
}

// The boundary between the thresholds that `rejected` names and the others, which lie above them
// (lower end of a confidence set) or below (upper end). Returned is a rejected threshold next to
// the boundary, so the set is never narrowed by the bisection; geometric steps keep relative
// precision for small rates.
template <class Predicate>
double Boundary(bool rejects_low_side, Predicate rejected) {
  double low = kBettingThresholdMin;
  double high = 1 - kBettingThresholdMin;
  if (!rejected(rejects_low_side ? low : high)) return rejects_low_side ? 0 : 1;
  for (int step = 0; step < 60; ++step) {
    const double mid = std::sqrt(low * high);
    if (mid <= low || mid >= high) break;
    (rejected(mid) == rejects_low_side ? low : high) = mid;
  }
  return rejects_low_side ? low : high;
}

std::array<WeightedValue, 2> BernoulliValues(int64_t successes, int64_t count) {
  KCC_CHECK(successes >= 0 && successes <= count);
  return {WeightedValue{.value = {.value = 1, .complement = 0}, .count = successes},
          WeightedValue{.value = {.value = 0, .complement = 1}, .count = count - successes}};
}

}  // namespace

std::optional<BettingPlan> MakeBettingPlan(double threshold) {
  if (!(threshold >= kBettingThresholdMin && threshold <= 1 - kBettingThresholdMin)) {
    return std::nullopt;
  }
  return PlanFor(threshold);
}

std::optional<UnitValue> ToUnitValue(double value) {
  if (!(value >= 0 && value <= 1)) return std::nullopt;
  return UnitValue{.value = value, .complement = 1 - value};
}

int64_t BetIncrement(const Bet& bet, UnitValue x) {
  const double y = x.complement * bet.factor_zero + x.value * bet.factor_one;
  return y > 0 ? FixedLog(y) : 0;
}

void BettingSums::Add(const BettingPlan& plan, UnitValue for_pass, UnitValue for_fail) {
  ++count;
  if (for_pass.complement == 0) ++ones;  // only a PASS bet can be ruined
  for (size_t k = 0; k < kBets; ++k) {
    pass[k] = SaturatingAdd(pass[k], BetIncrement(plan.pass[k], for_pass));
    fail[k] = SaturatingAdd(fail[k], BetIncrement(plan.fail[k], for_fail));
  }
}

void BettingSums::Merge(const BettingSums& other) {
  count += other.count;
  ones += other.ones;
  for (size_t k = 0; k < kBets; ++k) {
    pass[k] = SaturatingAdd(pass[k], other.pass[k]);
    fail[k] = SaturatingAdd(fail[k], other.fail[k]);
  }
}

LogEValues Evaluate(const BettingPlan& plan, const BettingSums& sums) {
  return EvaluateScaled(plan, sums, 1);
}

LogEValues EvaluateScaled(const BettingPlan& plan, const BettingSums& sums, double scale) {
  return {.pass = LogMixtureOfSums(plan.pass, sums.pass, sums.ones, scale),
          .fail = LogMixtureOfSums(plan.fail, sums.fail, sums.ones, scale)};
}

LogEValues EvaluateBernoulli(const BettingPlan& plan, int64_t successes, int64_t count) {
  const auto values = BernoulliValues(successes, count);
  return {.pass = LogEOfValues(plan.pass, plan.threshold, values),
          .fail = LogEOfValues(plan.fail, plan.threshold, values)};
}

bool Rejects(double log_e, double alpha) { return log_e >= -std::log(alpha); }

double AnytimePValue(double log_e) { return log_e <= 0 ? 1 : std::exp(-log_e); }

Interval BernoulliConfidenceSequence(int64_t successes, int64_t count, double alpha) {
  return MeanConfidenceSequence(BernoulliValues(successes, count), alpha);
}

Interval MeanConfidenceSequence(std::span<const WeightedValue> values, double alpha) {
  return {.lo = MeanLowerSequence(values, alpha / 2), .hi = MeanUpperSequence(values, alpha / 2)};
}

double MeanLowerSequence(std::span<const WeightedValue> values, double alpha) {
  return Boundary(
      true, [&](double m) { return Rejects(LogEOfValues(PlanFor(m).fail, m, values), alpha); });
}

double MeanUpperSequence(std::span<const WeightedValue> values, double alpha) {
  return Boundary(
      false, [&](double m) { return Rejects(LogEOfValues(PlanFor(m).pass, m, values), alpha); });
}

}  // namespace kcc
