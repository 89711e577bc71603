#include "kcc/monitor/release.h"

#include <algorithm>

#include "kcc/base/strings.h"
#include "kcc/monitor/reasons.h"

namespace kcc {
namespace {

const Order& PairOrder(const ReleaseContext& context, const KernelRecord& record, size_t pair) {
  return record.signals.pair(pair).broken
             ? context.on_broken
             : context.plan.signals[context.plan.pairs[pair].signal].order;
}

MonitorChangeKind KindOfAlert(Alert::Kind kind) {
  switch (kind) {
    case Alert::Kind::kAlarm:
      return MonitorChangeKind::kAlarm;
    case Alert::Kind::kProof:
      return MonitorChangeKind::kProof;
    case Alert::Kind::kBroken:
      break;
  }
  return MonitorChangeKind::kBroken;
}

MonitorChange ChangeOfPair(const ReleaseContext& context, const KernelRecord& record, size_t pair,
                           MonitorChangeKind kind) {
  const SignalPair& row = context.plan.pairs[pair];
  const ClauseSignal& signal = context.plan.signals[row.signal];
  const PairRecord& state = record.signals.pair(pair);
  const Order& order = PairOrder(context, record, pair);
  MonitorChange change;
  change.kind = kind;
  change.kernel = record.kernel->name;
  change.clause = signal.clause->id;
  change.slice = SliceName(context.plan, row);
  change.action = order.action;
  change.target = order.target;
  change.value = kind == MonitorChangeKind::kProof ? state.proof : state.recent.Mean();
  change.limit = signal.limit;
  change.observations = state.observations;
  return change;
}

void RaiseOne(const ReleaseContext& context, const std::string& id, const Alert& alert,
              KernelRecord* record, std::vector<MonitorChange>* changes) {
  PairRecord& state = record->signals.pair(alert.pair);
  const bool known = state.alarmed && !state.recovered;
  // A proof that is seen again is no news; it starts the evidence afresh all the same.
  const bool news = !known || alert.kind == Alert::Kind::kAlarm;
  state.alarmed = true;
  state.broken = alert.kind == Alert::Kind::kBroken;
  ++state.alarms;
  if (!news) return;
  MonitorChange change = ChangeOfPair(context, *record, alert.pair, KindOfAlert(alert.kind));
  if (alert.kind == Alert::Kind::kAlarm) {
    change.e_value = alert.e_value;
    const SignalPair& row = context.plan.pairs[alert.pair];
    change.e_level = context.plan.signals[row.signal].detectors.front().alarm_level();
  }
  change.reason = AlertReason(context.plan, context.policy, alert, id, change);
  changes->push_back(std::move(change));
}

void Guard(const ReleaseContext& context, const Order& order, KernelRecord* record,
           std::vector<MonitorChange>* changes) {
  record->guarded = true;
  record->probation_left = 0;
  ++record->guards;
  MonitorChange change;
  change.kind = MonitorChangeKind::kGuard;
  change.kernel = record->kernel->name;
  change.action = order.action;
  change.target = order.target;
  change.observations = record->audited;
  change.reason = record->kernel->name +
                  " is guarded; it is released when the evidence of probes " +
                  "since its last alarm certifies every clause that alarmed at level " +
                  ReadableNumber(ReleaseAlpha(context.policy.release, *record));
  if (record->strikes() > 0) {
    change.reason += ", after " + std::to_string(record->strikes()) +
                     (record->strikes() == 1 ? " strike" : " strikes");
  }
  changes->push_back(std::move(change));
}

// Whether everything whose order moves requests is certified.
bool AllRecovered(const ReleaseContext& context, const KernelRecord& record) {
  if (record.broken && context.on_broken.moves()) return false;
  for (size_t i = 0; i < record.signals.size(); ++i) {
    const PairRecord& state = record.signals.pair(i);
    if (state.alarmed && !state.recovered && PairOrder(context, record, i).moves()) return false;
  }
  return true;
}

void Clear(const ReleaseContext& context, size_t pair, KernelRecord* record) {
  PairRecord& state = record->signals.pair(pair);
  state.alarmed = state.broken = state.recovered = false;
  record->signals.ResetDetectors(context.plan, pair);
  record->CountStanding();
}

void Release(const ReleaseContext& context, KernelRecord* record,
             std::vector<MonitorChange>* changes) {
  for (size_t i = 0; i < record->signals.size(); ++i) {
    if (record->signals.pair(i).recovered) Clear(context, i, record);
  }
  record->guarded = false;
  record->probation_left = context.policy.release.probation;
  MonitorChange change;
  change.kind = MonitorChangeKind::kRelease;
  change.kernel = record->kernel->name;
  change.observations = record->audited;
  change.reason = "every clause that alarmed is certified since the last alarm; on probation for " +
                  std::to_string(record->probation_left) + " audited requests";
  changes->push_back(std::move(change));
}

void EndProbation(KernelRecord* record, std::vector<MonitorChange>* changes) {
  MonitorChange change;
  change.kind = MonitorChangeKind::kProbationEnd;
  change.kernel = record->kernel->name;
  change.observations = record->audited;
  change.reason = "no alarm during probation";
  changes->push_back(std::move(change));
}

}  // namespace

double ReleaseAlpha(const ReleasePolicy& policy, const KernelRecord& record) {
  double alpha = policy.alpha;
  const int64_t halvings = std::min(record.strikes(), policy.strikes_max);
  for (int64_t i = 0; i < halvings && alpha > 1e-290; ++i) alpha /= 2;
  return alpha;
}

void RaiseAlerts(const ReleaseContext& context, const std::string& id,
                 const std::string& contradiction, const std::vector<Alert>& alerts,
                 KernelRecord* record, std::vector<MonitorChange>* changes) {
  for (const Alert& alert : alerts) RaiseOne(context, id, alert, record, changes);
  if (!contradiction.empty()) {
    if (!record->broken) {
      MonitorChange change;
      change.kind = MonitorChangeKind::kBroken;
      change.kernel = record->kernel->name;
      change.action = context.on_broken.action;
      change.target = context.on_broken.target;
      change.observations = record->audited;
      change.reason = "broken evidence: " + contradiction;
      changes->push_back(std::move(change));
    }
    record->broken = true;
  }
  record->unbroken = 0;
  for (size_t i = 0; i < record->signals.size(); ++i) {
    if (record->signals.pair(i).alarmed) record->signals.Restart(context.plan, i);
  }
  record->CountStanding();
  const Order order = MovingOrder(*record, context.plan, context.on_broken);
  if (order.moves() && !record->guarded) Guard(context, order, record, changes);
}

void ReleaseByEvidence(const ReleaseContext& context, KernelRecord* record,
                       std::vector<MonitorChange>* changes) {
  const ReleasePolicy& policy = context.policy.release;
  const double alpha = ReleaseAlpha(policy, *record);
  if (record->broken && ++record->unbroken >= policy.clean) record->broken = false;
  for (size_t i = 0; i < record->signals.size() && record->standing > 0; ++i) {
    PairRecord& state = record->signals.pair(i);
    if (!state.alarmed || state.recovered) continue;
    const ClauseSignal& signal = context.plan.signals[context.plan.pairs[i].signal];
    const bool moves = PairOrder(context, *record, i).moves();
    if (!record->signals.Certifies(context.plan, i, moves ? alpha : signal.alpha, policy.clean)) {
      continue;
    }
    state.recovered = true;
    MonitorChange change = ChangeOfPair(context, *record, i, MonitorChangeKind::kRecovered);
    change.reason = RecoveredReason(context.plan, policy, *record, i);
    changes->push_back(std::move(change));
    if (!moves) Clear(context, i, record);
  }
  if (record->guarded) {
    if (AllRecovered(context, *record)) Release(context, record, changes);
    return;
  }
  if (record->probation_left > 0 && --record->probation_left == 0) EndProbation(record, changes);
}

}  // namespace kcc
