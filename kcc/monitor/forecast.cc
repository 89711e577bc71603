#include "kcc/monitor/forecast.h"

#include <algorithm>
#include <map>
#include <utility>

#include "kcc/monitor/reasons.h"
#include "kcc/monitor/signal.h"
#include "kcc/stats/simulation.h"

namespace kcc {
namespace {

std::string_view SignalWord(const ClauseSignal& signal) {
  switch (signal.kind) {
    case SignalKind::kProof:
      return "proof";
    case SignalKind::kExistence:
      return "existence";
    case SignalKind::kUnit:
    case SignalKind::kMass:
    case SignalKind::kFlagGap:
      return signal.detectors.empty() ? "none" : "detector";
    case SignalKind::kBlock:
      return "block";
    case SignalKind::kNone:
      break;
  }
  return "none";
}

// Observations until the alarm of one stream; none within `most`.
std::optional<int64_t> Delay(const DetectorPlan& plan, double mean, int64_t most,
                             RandomStream* random) {
  DetectorState state;
  for (int64_t i = 1; i <= most; ++i) {
    const bool one = random->Bernoulli(mean);
    state.Add(plan, one ? UnitValue{1, 0} : UnitValue{0, 1});
    if (state.AtAlarm(plan)) return i;
  }
  return std::nullopt;
}

ShiftForecast Simulate(const ClauseSignal& signal, double factor, const ForecastOptions& options) {
  const DetectorPlan& plan = signal.detectors.front();
  ShiftForecast shift;
  shift.factor = factor;
  // Two tests, one for each sign, have observations of 1/2 where there is no gap.
  const double base = signal.detectors.size() == 2 ? 0.5 : 0;
  shift.mean = std::min(1.0, base + factor * (plan.threshold() - base));
  shift.runs = options.runs;
  RandomStream random(options.seed);
  double total = 0;
  std::vector<double> delays;
  for (int64_t run = 0; run < options.runs; ++run) {
    const auto delay = Delay(plan, shift.mean, options.observations_max, &random);
    if (!delay) ++shift.unseen;
    delays.push_back(static_cast<double>(delay.value_or(options.observations_max)));
    total += delays.back();
  }
  std::sort(delays.begin(), delays.end());
  if (!delays.empty()) {
    shift.early = delays[delays.size() / 10];
    shift.late = delays[(delays.size() * 9 - 1) / 10];
  }
  shift.observations = total / static_cast<double>(std::max<int64_t>(1, options.runs));
  return shift;
}

}  // namespace

Result<MonitorForecast> ForecastMonitor(const Contract& contract, const MonitorPolicy& policy,
                                        std::span<const double> factors,
                                        const ForecastOptions& options) {
  // Holds the policy to what a monitor asks of it.
  KCC_TRY(const Monitor monitor, Monitor::Make(contract, policy, MonitorOptions{options.stage}));
  KCC_TRY(const SignalPlan plan, MakeSignalPlan(contract, policy, options.stage));
  MonitorForecast forecast;
  forecast.detectors = static_cast<int64_t>(plan.detectors);
  forecast.alarm_level = plan.alarm_level;
  const Order broken = OrderFor(policy, contract.escalation.on_error);
  forecast.on_broken = broken.action;
  forecast.broken_target = broken.target;
  // The slices of a clause have one detector.
  std::map<std::pair<size_t, double>, ShiftForecast> known;
  for (const SignalPair& row : plan.pairs) {
    const ClauseSignal& signal = plan.signals[row.signal];
    if (!options.clause.empty() && signal.clause->id != options.clause) continue;
    PairForecast pair;
    pair.clause = signal.clause->id;
    pair.slice = SliceName(plan, row);
    pair.of_train = row.of_train;
    pair.signal = SignalWord(signal);
    pair.metric = signal.metric;
    pair.limit = signal.limit;
    pair.detectors = static_cast<int64_t>(signal.detectors.size());
    pair.alarm_level =
        signal.detectors.empty() ? plan.alarm_level : signal.detectors.front().alarm_level();
    pair.of_events = signal.of_events;
    pair.certifies = signal.certifies;
    pair.why = signal.why;
    pair.action = signal.order.action;
    pair.target = signal.order.target;
    for (const double factor : factors) {
      if (signal.detectors.empty()) break;
      const auto [at, fresh] = known.try_emplace({row.signal, factor});
      if (fresh) at->second = Simulate(signal, factor, options);
      pair.shifts.push_back(at->second);
    }
    forecast.pairs.push_back(std::move(pair));
  }
  return forecast;
}

}  // namespace kcc
