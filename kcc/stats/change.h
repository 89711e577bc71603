// Online change detection by e-detectors (Shin, Ramdas and Rinaldo; docs/math.md C.6).
//
// Each observation multiplies by L = y(X) of betting.h, whose mean is at most 1 while the stream is
// in control (E[X | past] <= m; no independence needed). Per bet
//   e-SR:    M <- (M + 1) L          e-CUSUM: M <- max(M, 1) L,
// then the mixture M = sum_k w_k M_k; alarm at M >= c. Both have a mean time to false alarm of at
// least c observations, and for e-SR P(alarm by T) <= T/c. e-CUSUM has far fewer false alarms, e-SR
// sees small shifts sooner. Sequential by nature: one detector per stream in arrival order; streams
// are combined by averaging M (LogMeanE in multiplicity.h).
//
// M is held as it is: an alarm comes long before it could overflow, and additions and products
// alone give the same bits on every machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "kcc/stats/betting.h"

namespace kcc {

enum class DetectorKind : uint8_t { kShiryaevRoberts, kCusum };

// A bet on a mean `factor` times the threshold, and its share of the mixture.
struct DetectorShift {
  double factor = 2;  // > 1
  double weight = 1;  // > 0; the shares of all add up to 1
};
inline constexpr size_t kDetectorBetsMax = 8;

// The shifts that matter: a doubling, a threefold rate, and breaks. Larger ones are seen by the
// last bet, which a threshold above 1/40 holds to (1 + m)/2. At c = 10^6 a share that was 1 %, its
// limit, is seen on average after 2,080 observations at 2 %, 730 at 3 %, 93 at 10 % and 12 at 50 %
// (bench/monitor_detection.cc).
inline constexpr std::array<DetectorShift, 4> kDetectorShifts = {
    {{2, 0.35}, {3, 0.35}, {6, 0.15}, {20, 0.15}}};

// For the mean of values without an upper end, cut off at 30 times the threshold. Such values are
// mostly small and seldom large: against a mean f times the threshold the best bet is on about
// 1 + kCutOffStretch (f - 1) times it. The grid is for a doubling: with values whose logarithm is
// normal (sigma 1.5), in control at the threshold, it is seen after 158 observations at c = 10^6,
// where the best single bet takes 157.
inline constexpr double kCutOffStretch = 8;
inline constexpr std::array<DetectorShift, 3> kCutOffShifts = {{{5, 0.1}, {9, 0.8}, {16, 0.1}}};

// The bets of one detector; shared by all streams of one threshold.
class DetectorPlan {
 public:
  // Nothing unless MakeBettingPlan accepts the threshold, the alarm level c is > 1 and finite, and
  // there are 1 to kDetectorBetsMax shifts. c = horizon / alpha bounds the chance of a false alarm
  // within the horizon by alpha. `base` is the observation of a perfect stream, from which shifts
  // count: 0, or 1/2 for a gap that may have either sign; it lies below the threshold.
  static std::optional<DetectorPlan> Make(DetectorKind kind, double threshold, double alarm_level,
                                          std::span<const DetectorShift> shifts = kDetectorShifts,
                                          double base = 0);

  DetectorKind kind() const { return kind_; }
  double threshold() const { return threshold_; }
  double alarm_level() const { return alarm_level_; }
  size_t bets() const { return bets_; }
  // The mean that bet k is on. Precondition: k < bets().
  double alternative(size_t k) const { return factor_one_[k] * threshold_; }
  double weight(size_t k) const { return weight_[k]; }

 private:
  friend struct DetectorState;
  DetectorPlan() = default;

  DetectorKind kind_ = DetectorKind::kShiryaevRoberts;
  double threshold_ = 0;
  double alarm_level_ = 0;
  size_t bets_ = 0;
  // Places that are not used have weight 0 and factors 0, so that loops are of one length.
  std::array<double, kDetectorBetsMax> weight_{};
  std::array<double, kDetectorBetsMax> factor_zero_{};
  std::array<double, kDetectorBetsMax> factor_one_{};
};

// M of every bet. The plan must be the same throughout.
struct DetectorState {
  std::array<double, kDetectorBetsMax> m{};

  void Add(const DetectorPlan& plan, UnitValue x);
  double Statistic(const DetectorPlan& plan) const;  // M; 0 at the start
  bool AtAlarm(const DetectorPlan& plan) const { return Statistic(plan) >= plan.alarm_level(); }
  // ln M / ln c, held to [0,1]: how far towards an alarm.
  double Level(const DetectorPlan& plan) const;
  void Reset() { m.fill(0); }
  bool operator==(const DetectorState&) const = default;
};

// One stream with its plan.
class ChangeDetector {
 public:
  // As DetectorPlan::Make with the default shifts.
  static std::optional<ChangeDetector> Make(DetectorKind kind, double threshold,
                                            double alarm_level);

  // True at an alarm; the detector then starts afresh (M = 0).
  bool Observe(UnitValue x);
  void Reset() { state_.Reset(); }

  const DetectorPlan& plan() const { return plan_; }
  double LogStatistic() const;  // ln M; -infinity at the start
  double Level() const { return state_.Level(plan_); }

 private:
  explicit ChangeDetector(const DetectorPlan& plan) : plan_(plan) {}

  DetectorPlan plan_;
  DetectorState state_;
};

// Hysteresis: an alarm enters the guarded state; it is left only when the PASS test over the
// observations since the last alarm certifies mean < m at level alpha. An alarm inside the guarded
// state starts that window afresh.
class GuardedDetector {
 public:
  enum class State : uint8_t { kClear, kGuarded };

  // As ChangeDetector::Make, and 0 < alpha < 1.
  static std::optional<GuardedDetector> Make(DetectorKind kind, double threshold,
                                             double alarm_level, double alpha);

  State Observe(UnitValue x);

  State state() const { return state_; }
  int64_t alarms() const { return alarms_; }
  double Level() const { return state_ == State::kGuarded ? 1 : detector_.Level(); }

 private:
  GuardedDetector(const ChangeDetector& detector, const BettingPlan& plan, double alpha);

  ChangeDetector detector_;
  BettingPlan plan_;
  double alpha_;
  BettingSums window_;
  State state_ = State::kClear;
  int64_t alarms_ = 0;
};

}  // namespace kcc
