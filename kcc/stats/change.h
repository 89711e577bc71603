// Online change detection by e-detectors (Shin, Ramdas and Rinaldo; docs/math.md C.6).
//
// Each observation multiplies by L = y(X) of betting.h, whose mean is at most 1 while the stream is
// in control (E[X | past] <= m; no independence needed). Per bet
//   e-SR:    M <- (M + 1) L          e-CUSUM: M <- max(M, 1) L,
// then the mixture M = sum_k w_k M_k; alarm at M >= c. Both have a mean time to false alarm of at
// least c observations, and for e-SR P(alarm by T) <= T/c. e-CUSUM has far fewer false alarms, e-SR
// sees small shifts sooner. Sequential by nature: one detector per stream in arrival order; streams
// are combined by averaging M (LogMeanE in multiplicity.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kcc/stats/betting.h"

namespace kcc {

enum class DetectorKind : uint8_t { kShiryaevRoberts, kCusum };

inline constexpr int kDetectorBets = 6;

class ChangeDetector {
 public:
  // Nothing unless MakeBettingPlan accepts the threshold and the alarm level c is > 1 and finite.
  // c = horizon / alpha bounds the chance of a false alarm within the horizon by alpha.
  static std::optional<ChangeDetector> Make(DetectorKind kind, double threshold,
                                            double alarm_level);

  // True at an alarm; the detector then starts afresh (M = 0).
  bool Observe(UnitValue x);
  void Reset();

  double LogStatistic() const;  // ln M; -infinity at the start
  // ln M / ln c, held to [0,1]: how far towards an alarm.
  double Level() const;

 private:
  ChangeDetector(DetectorKind kind, const BettingPlan& plan, double log_alarm);

  DetectorKind kind_;
  double log_alarm_;
  std::array<Bet, kDetectorBets> bets_;
  std::array<double, kDetectorBets> log_m_;
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
