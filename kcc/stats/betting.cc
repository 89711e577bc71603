#include "kcc/stats/betting.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/check.h"
#include "kcc/base/constants.h"

namespace kcc {
namespace {

constexpr int64_t kSumLimit = (int64_t{1} << 62) - 1;  // twice this still fits

// 2^(j/1.5): the coarse grid of alternatives has three points per factor four.
double GridFactor(int j) {
  constexpr double kThirds[3] = {1.0, 0x1.965fea53d6e3dp+0, 0x1.428a2f98d728bp+1};
  return std::ldexp(kThirds[j % 3], 2 * (j / 3));
}

Bet MakeBet(double m, double ratio, double weight) {
  const double r = ratio * m;
  return {.alternative = r,
          .stake = 0,
          .weight = weight,
          .factor_zero = (1 - r) / (1 - m),
          .factor_one = ratio};
}

constexpr int kCoarseBets = 12;

Bet MakeCoarseFailBet(double m, int j) {
  constexpr double kWeight = 1.0 / kCoarseBets;
  const double ratio = GridFactor(j + 1);
  if (ratio * m <= (1 + m) / 2) return MakeBet(m, ratio, kWeight);
  // The cap halves the wealth at X = 0 and so can never be ruined.
  return {.alternative = (1 + m) / 2,
          .stake = 0,
          .weight = kWeight,
          .factor_zero = 0.5,
          .factor_one = (1 + m) / (2 * m)};
}

BettingPlan CoarsePlanFor(double m) {
  BettingPlan plan;
  plan.threshold = m;
  plan.grid = BetGrid::kCoarse;
  plan.pass[0] = MakeBet(m, 0, 0.4);
  for (int j = 1; j < kCoarseBets; ++j) {
    plan.pass[static_cast<size_t>(j)] = MakeBet(m, 1 / GridFactor(j), 0.6 / (kCoarseBets - 1));
  }
  for (int j = 0; j < kCoarseBets; ++j) {
    plan.fail[static_cast<size_t>(j)] = MakeCoarseFailBet(m, j);
  }
  return plan;
}

// y(0) = 1 + stake m/(1-m) and y(1) = 1 - stake for PASS, and the mirror image for FAIL.
BettingPlan PlanFor(double m) {
  BettingPlan plan;
  plan.threshold = m;
  const BetStakes down = FineStakes(m);
  const BetStakes up = FineStakes(1 - m);
  for (size_t k = 0; k < kBets; ++k) {
    const double pass = down.stakes[k];
    plan.pass[k] = {.alternative = m * (1 - pass),
                    .stake = pass,
                    .weight = down.weights[k],
                    .factor_zero = 1 + pass * m / (1 - m),
                    .factor_one = 1 - pass};
    const double fail = kFailStakeMax * up.stakes[k];
    plan.fail[k] = {.alternative = m + (1 - m) * fail,
                    .stake = up.stakes[k],
                    .weight = up.weights[k],
                    .factor_zero = 1 - fail,
                    .factor_one = 1 + fail * (1 - m) / m};
  }
  return plan;
}

int64_t SaturatingAdd(int64_t a, int64_t b) {
  // Sums may come from a file; clamped first, their sum cannot overflow.
  a = std::clamp(a, -kSumLimit, kSumLimit);
  b = std::clamp(b, -kSumLimit, kSumLimit);
  return std::clamp(a + b, -kSumLimit, kSumLimit);
}

using LogWealth = std::array<double, kBets>;
using Weights = std::array<double, kBets>;
using Bets = std::array<Bet, kBets>;

Weights AnytimeWeights(const Bets& bets) {
  Weights weights;
  for (size_t k = 0; k < kBets; ++k) weights[k] = bets[k].weight;
  return weights;
}

// The largest stake keeps a fifth whatever n is: it suits every law of small spread. The others
// share the rest where they are above what n calls for, and fade fast below it.
Weights WeightsOnce(const Bets& bets, double m, double n, double alpha) {
  constexpr double kLargest = 0.2;
  const double least = std::min(1.0, 2 * -std::log(alpha) * (1 - m) / (m * std::max(n, 1.0)));
  Weights weights;
  double total = 0;
  for (size_t k = 0; k < kBets; ++k) {
    const double ratio = least / (bets[k].stake * bets[k].stake);  // of squares
    weights[k] = 1 / (1 + ratio * ratio * ratio * ratio);
    total += weights[k];
  }
  for (double& weight : weights) weight *= (1 - kLargest) / total;
  weights[0] += kLargest;
  return weights;
}

// ln sum_k w_k exp(log_wealth_k), over the places whose weight is not 0.
double LogMixture(const Weights& weights, const LogWealth& log_wealth) {
  double top = -kInf;
  for (size_t k = 0; k < kBets; ++k) {
    if (weights[k] > 0) top = std::max(top, log_wealth[k]);
  }
  if (top == -kInf) return -kInf;
  double sum = 0;
  for (size_t k = 0; k < kBets; ++k) {
    // What lies 50 nats lower is below the rounding of the sum.
    if (weights[k] > 0 && log_wealth[k] > top - 50) {
      sum += weights[k] * std::exp(log_wealth[k] - top);
    }
  }
  return top + std::log(sum);
}

// `m` is the threshold as the bets see it: of the complement for FAIL.
double LogMixtureOfSums(const BettingPlan& plan, const Bets& bets, double m,
                        const std::array<int64_t, kBets>& sums, const BettingSums& all,
                        const Reading& reading) {
  LogWealth log_wealth;
  for (size_t k = 0; k < kBets; ++k) {
    const bool ruined = bets[k].factor_one == 0 && all.ones > 0;
    log_wealth[k] = ruined ? -kInf : reading.scale * static_cast<double>(sums[k]) * 0x1p-32;
  }
  const bool once = reading.once_at > 0 && plan.grid == BetGrid::kFine;
  const double n = reading.scale * static_cast<double>(all.count);
  return LogMixture(once ? WeightsOnce(bets, m, n, reading.once_at) : AnytimeWeights(bets),
                    log_wealth);
}

// ln y(X) as 1 + (y - 1): near m the bets multiply by almost 1, and log1p keeps what the display
// would lose. y - 1 = lam (X - m) = (ratio - 1)/(1-m) ((1-m) X - m (1-X)).
double LogFactor(const Bet& bet, double m, UnitValue x) {
  const double y = x.complement * bet.factor_zero + x.value * bet.factor_one;
  if (y <= 0) return -kInf;
  const double gain = (bet.factor_one - 1) / (1 - m) * ((1 - m) * x.value - m * x.complement);
  return std::abs(gain) < 0.5 ? std::log1p(gain) : std::log(y);
}

double LogEOfValues(const Bets& bets, double m, std::span<const WeightedValue> values) {
  LogWealth log_wealth{};
  for (const WeightedValue& v : values) {
    if (v.count <= 0) continue;
    for (size_t k = 0; k < kBets; ++k) {
      log_wealth[k] += static_cast<double>(v.count) * LogFactor(bets[k], m, v.value);
    }
  }
  return LogMixture(AnytimeWeights(bets), log_wealth);
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

int BetsOf(BetGrid grid) { return grid == BetGrid::kCoarse ? kCoarseBets : kBets; }

std::optional<BettingPlan> MakeBettingPlan(double threshold, BetGrid grid) {
  if (!(threshold >= kBettingThresholdMin && threshold <= 1 - kBettingThresholdMin)) {
    return std::nullopt;
  }
  return grid == BetGrid::kCoarse ? CoarsePlanFor(threshold) : PlanFor(threshold);
}

BetStakes FineStakes(double m) {
  // Equal factors by roots and products alone, which have the same bits everywhere. Beyond 1/2 the
  // distance to m counts from its other side: r = m - (1-m)/50 there, as r = m + m/50 for FAIL.
  constexpr double kLeast = 0.02;
  constexpr double kLargestWeight = 0.2;
  double factor = kLeast * std::min(1.0, (1 - m) / m);
  for (int root = 0; root < 4; ++root) factor = std::sqrt(factor);
  BetStakes grid;
  double stake = 1;
  double total = 0;
  for (size_t k = 0; k < kBets; ++k) {
    grid.stakes[k] = stake;
    grid.weights[k] = 1 / (1 + static_cast<double>(k));
    total += grid.weights[k];
    stake *= factor;
  }
  for (double& weight : grid.weights) weight *= (1 - kLargestWeight) / total;
  grid.weights[0] += kLargestWeight;
  return grid;
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
  for (size_t k = 0; k < plan.bets(); ++k) {
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

void BettingSums::Repeat(int64_t times) {
  KCC_CHECK(times >= 0);
  count *= times;
  ones *= times;
  for (size_t k = 0; k < kBets; ++k) {
    // One observation adds less than 2^42 to a sum, so that only absurd counts saturate.
    const auto times_over = [&](int64_t sum) {
      const __int128 product = static_cast<__int128>(sum) * times;
      return static_cast<int64_t>(std::clamp<__int128>(product, -kSumLimit, kSumLimit));
    };
    pass[k] = times_over(pass[k]);
    fail[k] = times_over(fail[k]);
  }
}

double LogEPass(const BettingPlan& plan, const BettingSums& sums, const Reading& reading) {
  return LogMixtureOfSums(plan, plan.pass, plan.threshold, sums.pass, sums, reading);
}

double LogEFail(const BettingPlan& plan, const BettingSums& sums, const Reading& reading) {
  return LogMixtureOfSums(plan, plan.fail, 1 - plan.threshold, sums.fail, sums, reading);
}

LogEValues Evaluate(const BettingPlan& plan, const BettingSums& sums, const Reading& reading) {
  return {.pass = LogEPass(plan, sums, reading), .fail = LogEFail(plan, sums, reading)};
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
