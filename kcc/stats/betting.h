// Anytime-valid tests of a mean or a rate by finite mixtures of constant bets.
//
// X in [0,1], threshold m. A bet names an alternative mean r; observing X multiplies its wealth by
//   y(X) = (1-X) (1-r)/(1-m) + X r/m      ( = 1 + lam (X-m), lam = (r/m - 1)/(1-m) ),
// the likelihood ratio of Bernoulli(r) to Bernoulli(m) drawn as a line. r < m bets for PASS
// (H0: mean >= m), r > m for FAIL (H0: mean <= m). The mixture E = sum_k w_k prod_i y_k(X_i) has
// mean at most 1 under its H0, so E >= 1/alpha at ANY time rejects H0 with error at most alpha
// (Ville). Independence is not needed, only that no observation's mean given the past crosses m.
//
// The bets are constant, so the state does not depend on the order of the data and merges by
// addition: per bet the sum of floor(2^32 ln y(X)), in int64. Rounding down keeps the test valid;
// no libm is involved, so the bits are the same everywhere. Each observation gives away less than
// 2^-32 nats; below m = 1e-6 that costs a real-valued test some power (the Bernoulli one keeps it).
//
// "mean >= t is good": feed 1-X against m = 1-t.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "kcc/base/interval.h"

namespace kcc {

inline constexpr int kBets = 12;
inline constexpr double kBettingThresholdMin = 1e-12;  // and 1 - this is the largest

struct Bet {
  double alternative = 0;  // r
  double weight = 0;
  double factor_zero = 1;  // y(0) = (1-r)/(1-m)
  double factor_one = 1;   // y(1) = r/m; 0 only for the PASS bet on r = 0
};

// The bets for one threshold; a function of the threshold alone.
struct BettingPlan {
  double threshold = 0;
  std::array<Bet, kBets> pass;  // pass[0] bets on r = 0 with weight 0.4
  std::array<Bet, kBets> fail;
};

// Nothing unless kBettingThresholdMin <= threshold <= 1 - kBettingThresholdMin: a threshold of 0
// can be refuted by one observation and never certified, a threshold of 1 holds for every X.
std::optional<BettingPlan> MakeBettingPlan(double threshold);

// floor(2^32 ln y) or one unit below it: never above the truth, the same bits on every machine.
// Precondition: y > 0, finite. |result| < 2^42.
int64_t FixedLog(double y);

// An observation in [0,1] with its complement, so that both ends keep their relative precision.
struct UnitValue {
  double value = 0;
  double complement = 1;
};
// Nothing for NaN and for values outside [0,1].
std::optional<UnitValue> ToUnitValue(double value);

// What one observation adds to one bet's sum. A ruined bet (y = 0) adds 0 and is known by
// BettingSums::ones.
int64_t BetIncrement(const Bet& bet, UnitValue x);

// The whole state of the two tests for one threshold: integers, mergeable by addition. The sums
// saturate at 2^62, i.e. 2^30 nats, beyond any evidence that could still change a verdict.
struct BettingSums {
  int64_t count = 0;
  int64_t ones = 0;  // observations equal to 1: each ruins the bet on r = 0
  std::array<int64_t, kBets> pass{};
  std::array<int64_t, kBets> fail{};

  void Add(const BettingPlan& plan, UnitValue x) { Add(plan, x, x); }
  // An observation known only as an interval: the PASS bets must hold for its worst value, the
  // FAIL bets for its best.
  void Add(const BettingPlan& plan, UnitValue for_pass, UnitValue for_fail);
  void Merge(const BettingSums& other);
  bool operator==(const BettingSums&) const = default;
};

// Natural logarithms of the two e-values; -infinity when every bet is ruined.
struct LogEValues {
  double pass = 0;  // evidence against "mean >= m"
  double fail = 0;  // evidence against "mean <= m"
};
LogEValues Evaluate(const BettingPlan& plan, const BettingSums& sums);
// What they would be had the same data come `scale` times over; for forecasts.
LogEValues EvaluateScaled(const BettingPlan& plan, const BettingSums& sums, double scale);
// 0/1 observations need only (successes, count). Precondition: 0 <= successes <= count.
LogEValues EvaluateBernoulli(const BettingPlan& plan, int64_t successes, int64_t count);

// E >= 1/alpha, in the log domain. Precondition: 0 < alpha < 1.
bool Rejects(double log_e, double alpha);
// min(1, 1/E): a p-value valid at any stopping time.
double AnytimePValue(double log_e);

// A two-sided confidence sequence, alpha/2 for each side: all m that neither test rejects. Each
// bet's wealth is monotone in m, so bisection inverts the test exactly.
Interval BernoulliConfidenceSequence(int64_t successes, int64_t count, double alpha);

// The same for real-valued observations, given with multiplicities; O(values) per step of the
// bisection, so for display, not for the path of a request. A histogram may be passed by its
// buckets: lower edges give a valid lower end, upper edges a valid upper end.
struct WeightedValue {
  UnitValue value;
  int64_t count = 1;
};
Interval MeanConfidenceSequence(std::span<const WeightedValue> values, double alpha);
// One side at the full level: all m above (below) it are compatible with the data at any time.
double MeanLowerSequence(std::span<const WeightedValue> values, double alpha);
double MeanUpperSequence(std::span<const WeightedValue> values, double alpha);

}  // namespace kcc
