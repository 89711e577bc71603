#include "kcc/stats/change.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/constants.h"
#include "kcc/numeric/double_math.h"

namespace kcc {
namespace {

// Far above every alarm level and far below overflow: where an alarm is held back, M stays finite.
constexpr double kStatisticMax = 1e280;

}  // namespace

std::optional<DetectorPlan> DetectorPlan::Make(DetectorKind kind, double threshold,
                                               double alarm_level,
                                               std::span<const DetectorShift> shifts, double base) {
  if (!MakeBettingPlan(threshold, BetGrid::kCoarse)) return std::nullopt;
  if (!(alarm_level > 1) || !std::isfinite(alarm_level)) return std::nullopt;
  if (shifts.empty() || shifts.size() > kDetectorBetsMax || !(base < threshold)) {
    return std::nullopt;
  }
  DetectorPlan plan;
  plan.kind_ = kind;
  plan.threshold_ = threshold;
  plan.alarm_level_ = alarm_level;
  plan.bets_ = shifts.size();
  double total = 0;
  for (const DetectorShift& shift : shifts) {
    if (!(shift.factor > 1) || !(shift.weight > 0)) return std::nullopt;
    total += shift.weight;
  }
  for (size_t k = 0; k < shifts.size(); ++k) {
    // The cap halves M at X = 0 at worst, so that zeros cannot ruin a bet.
    const double wanted = base + shifts[k].factor * (threshold - base);
    const double r = std::min(wanted, (1 + threshold) / 2);
    plan.weight_[k] = shifts[k].weight / total;
    plan.factor_zero_[k] = (1 - r) / (1 - threshold);
    plan.factor_one_[k] = r / threshold;
  }
  return plan;
}

void DetectorState::Add(const DetectorPlan& plan, UnitValue x) {
  const bool cusum = plan.kind_ == DetectorKind::kCusum;
  for (size_t k = 0; k < kDetectorBetsMax; ++k) {
    const double factor = x.complement * plan.factor_zero_[k] + x.value * plan.factor_one_[k];
    const double start = cusum ? std::max(m[k], 1.0) : m[k] + 1;
    m[k] = std::min(start * factor, kStatisticMax);
  }
}

double DetectorState::Statistic(const DetectorPlan& plan) const {
  double sum = 0;
  for (size_t k = 0; k < kDetectorBetsMax; ++k) sum += plan.weight_[k] * m[k];
  return sum;
}

double DetectorState::Level(const DetectorPlan& plan) const {
  return std::clamp(Log(Statistic(plan)) / Log(plan.alarm_level()), 0.0, 1.0);
}

std::optional<ChangeDetector> ChangeDetector::Make(DetectorKind kind, double threshold,
                                                   double alarm_level) {
  const auto plan = DetectorPlan::Make(kind, threshold, alarm_level);
  if (!plan) return std::nullopt;
  return ChangeDetector(*plan);
}

bool ChangeDetector::Observe(UnitValue x) {
  state_.Add(plan_, x);
  if (!state_.AtAlarm(plan_)) return false;
  state_.Reset();
  return true;
}

double ChangeDetector::LogStatistic() const {
  const double statistic = state_.Statistic(plan_);
  return statistic > 0 ? Log(statistic) : -kInf;
}

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
