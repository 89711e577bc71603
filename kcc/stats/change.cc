#include "kcc/stats/change.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/constants.h"

namespace kcc {
namespace {

// ln(e^v + 1) without overflow.
double LogPlusOne(double v) {
  return v > 0 ? v + std::log1p(std::exp(-v)) : std::log1p(std::exp(v));
}

}  // namespace

ChangeDetector::ChangeDetector(DetectorKind kind, const BettingPlan& plan, double log_alarm)
    : kind_(kind), log_alarm_(log_alarm) {
  // The six smallest shifts of the FAIL grid, 1.6 m to 16 m: larger ones are seen by the last bet.
  std::copy_n(plan.fail.begin(), kDetectorBets, bets_.begin());
  for (Bet& bet : bets_) bet.weight = 1.0 / kDetectorBets;
  Reset();
}

std::optional<ChangeDetector> ChangeDetector::Make(DetectorKind kind, double threshold,
                                                   double alarm_level) {
  const auto plan = MakeBettingPlan(threshold, BetGrid::kCoarse);
  if (!plan || !(alarm_level > 1) || !std::isfinite(alarm_level)) return std::nullopt;
  return ChangeDetector(kind, *plan, std::log(alarm_level));
}

// Each bet has its own statistic, kept as a logarithm since it grows without bound.
// Shiryaev-Roberts starts a new bet at every observation, M = (M + 1) e^bet; CUSUM keeps the best
// start, M = max(M, 1) e^bet. The mean over the bets is compared with the alarm level, and an alarm
// starts afresh.
bool ChangeDetector::Observe(UnitValue x) {
  for (size_t k = 0; k < bets_.size(); ++k) {
    const double start =
        kind_ == DetectorKind::kShiryaevRoberts ? LogPlusOne(log_m_[k]) : std::max(log_m_[k], 0.0);
    log_m_[k] = start + std::ldexp(static_cast<double>(BetIncrement(bets_[k], x)), -32);
  }
  if (LogStatistic() < log_alarm_) return false;
  Reset();
  return true;
}

void ChangeDetector::Reset() { log_m_.fill(-kInf); }

double ChangeDetector::LogStatistic() const {
  const double top = *std::max_element(log_m_.begin(), log_m_.end());
  if (top == -kInf) return -kInf;
  double sum = 0;
  for (size_t k = 0; k < bets_.size(); ++k) sum += bets_[k].weight * std::exp(log_m_[k] - top);
  return top + std::log(sum);
}

double ChangeDetector::Level() const { return std::clamp(LogStatistic() / log_alarm_, 0.0, 1.0); }

GuardedDetector::GuardedDetector(const ChangeDetector& detector, const BettingPlan& plan,
                                 double alpha)
    : detector_(detector), plan_(plan), alpha_(alpha) {}

std::optional<GuardedDetector> GuardedDetector::Make(DetectorKind kind, double threshold,
                                                     double alarm_level, double alpha) {
  const auto detector = ChangeDetector::Make(kind, threshold, alarm_level);
  if (!detector || !(alpha > 0 && alpha < 1)) return std::nullopt;
  return GuardedDetector(*detector, *MakeBettingPlan(threshold, BetGrid::kCoarse), alpha);
}

GuardedDetector::State GuardedDetector::Observe(UnitValue x) {
  if (detector_.Observe(x)) {
    ++alarms_;
    state_ = State::kGuarded;
    window_ = {};
    return state_;
  }
  if (state_ == State::kClear) return state_;
  window_.Add(plan_, x);
  if (Rejects(Evaluate(plan_, window_).pass, alpha_)) {
    state_ = State::kClear;
    detector_.Reset();
  }
  return state_;
}

}  // namespace kcc
