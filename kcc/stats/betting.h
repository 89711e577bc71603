// Anytime-valid tests of a mean or a rate by finite mixtures of constant bets.
//
// X in [0,1], threshold m. A bet names an alternative mean r; observing X multiplies its wealth by
//   y(X) = (1-X) (1-r)/(1-m) + X r/m      ( = 1 + lam (X-m), lam = (r/m - 1)/(1-m) ),
// the likelihood ratio of Bernoulli(r) to Bernoulli(m) drawn as a line. r < m bets for PASS
// (H0: mean >= m), r > m for FAIL (H0: mean <= m). The mixture E = sum_k w_k prod_i y_k(X_i) has
// mean at most 1 under its H0, so E >= 1/alpha at ANY time rejects H0 with error at most alpha
// (Ville). Independence is not needed, only that no observation's mean given the past crosses m.
//
// The stake of a bet is its share of the largest that no X can turn into debt: 1 - r/m for PASS,
// (r-m)/(1-m) for FAIL. Stakes run in equal factors from (nearly) 1 down to alternatives a few per
// cent off m: a bet on an alternative twice as far off as the truth loses for ever, so without
// small stakes a truth near the threshold would never be decided.
//
// The weights of the mixture are no part of the state. Anytime, they are fixed. Where the sample is
// judged once, its size n is no outcome, and the weights may depend on it: the best stake against
// what n observations can just show is sqrt(2 ln(1/alpha) / n) over the values' standard deviation
// (Waudby-Smith and Ramdas 2024), which m bounds; smaller stakes get no weight (Reading::once_at).
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

inline constexpr int kBets = 16;
// kCoarse: twelve bets on r = m 2^(+-j/1.5), which summaries of format version 1 hold. It never
// decides a rate between 0.8 m and 1.27 m.
enum class BetGrid : uint8_t { kCoarse, kFine };
int BetsOf(BetGrid grid);

inline constexpr double kBettingThresholdMin = 1e-12;  // and 1 - this is the largest

struct Bet {
  double alternative = 0;  // r
  double stake = 0;        // of the fine grid
  double weight = 0;       // anytime
  double factor_zero = 1;  // y(0) = (1-r)/(1-m)
  double factor_one = 1;   // y(1) = r/m; 0 only for the PASS bet on r = 0
};

// The bets for one threshold; a function of the threshold and the grid alone. The coarse grid
// leaves the last places empty.
struct BettingPlan {
  double threshold = 0;
  BetGrid grid = BetGrid::kFine;
  std::array<Bet, kBets> pass;  // pass[0] bets on r = 0
  std::array<Bet, kBets> fail;

  size_t bets() const { return static_cast<size_t>(BetsOf(grid)); }
};

// Nothing unless kBettingThresholdMin <= threshold <= 1 - kBettingThresholdMin: a threshold of 0
// can be refuted by one observation and never certified, a threshold of 1 holds for every X.
std::optional<BettingPlan> MakeBettingPlan(double threshold, BetGrid grid = BetGrid::kFine);

// The stakes of the fine grid against "mean >= m", largest first; those against "mean <= m" are
// kFailStakeMax times the stakes at 1 - m: zeros are common, and must not ruin a bet. `weights` are
// those of the anytime test. Precondition: 0 < m < 1.
inline constexpr double kFailStakeMax = 0.98;
struct BetStakes {
  std::array<double, kBets> stakes;
  std::array<double, kBets> weights;
};
BetStakes FineStakes(double m);

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
  // The same observations `times` over. Precondition: times >= 0.
  void Repeat(int64_t times);
  bool operator==(const BettingSums&) const = default;
};

// Natural logarithms of the two e-values; -infinity when every bet is ruined.
struct LogEValues {
  double pass = 0;  // evidence against "mean >= m"
  double fail = 0;  // evidence against "mean <= m"
};
// How the sums are read.
struct Reading {
  // The level, where the sample is judged once and its size was not chosen by looking at the
  // values: the weights then suit the size. 0: valid at any time. The coarse grid knows no other.
  double once_at = 0;
  double scale = 1;  // as though the same data had come so many times over; for forecasts
};
LogEValues Evaluate(const BettingPlan& plan, const BettingSums& sums, const Reading& reading = {});
double LogEPass(const BettingPlan& plan, const BettingSums& sums, const Reading& reading = {});
double LogEFail(const BettingPlan& plan, const BettingSums& sums, const Reading& reading = {});
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
