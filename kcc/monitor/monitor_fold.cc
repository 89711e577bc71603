// What one observation changes (monitor_state.h).
#include <algorithm>

#include "kcc/monitor/monitor_state.h"
#include "kcc/monitor/reasons.h"

namespace kcc {
namespace {

// Why an event does not conform, for whoever reads of it.
void AddFaults(const SignalPlan& plan, const MonitorObservation& observation,
               std::vector<Alert>* alerts) {
  for (Alert& alert : *alerts) {
    if (!plan.signals[plan.pairs[alert.pair].signal].of_events) continue;
    alert.fault = FaultOfLine(observation);
  }
}

}  // namespace

KernelRecord* Monitor::State::Find(std::string_view kernel) {
  const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const KernelRecord& record) {
    return record.kernel->name == kernel;
  });
  return found == kernels.end() ? nullptr : &*found;
}

const KernelRecord* Monitor::State::Find(std::string_view kernel) const {
  return const_cast<State*>(this)->Find(kernel);
}

int64_t Monitor::State::EpochOf(int64_t time_ms) const {
  const int64_t length = policy.audit.session_epoch_ms;
  return time_ms / length - (time_ms % length < 0 ? 1 : 0);
}

// By kernel: what must be independent is what one kernel is judged by.
uint64_t Monitor::State::SessionKey(std::string_view request, std::string_view session,
                                    std::string_view kernel) const {
  return HashKey(~seed, session.empty() ? request : session, kernel);
}

double Monitor::State::AuditRate(const KernelRecord& record) const {
  const AuditPolicy& audit = policy.audit;
  if (record.probation_left > 0) return 1;
  if (!IsServable(record.kernel->role)) return audit.probe_rate;
  if (!record.guarded) return audit.rate;
  const bool serves = route.kernel == record.kernel->name;
  return serves ? std::max(audit.rate, audit.probe_rate) : audit.probe_rate;
}

// An epoch that is over is not opened again: its filters are gone, and a second request of one of
// its sessions could not be told.
Handling Monitor::State::Admit(const MonitorObservation& observation) {
  if (!observation.audited) {
    ++unaudited;
    return Handling::kUnaudited;
  }
  const int64_t now = EpochOf(observation.time_ms);
  if (begun && now < epoch) {
    ++late;
    return Handling::kLate;
  }
  if (!begun || now > epoch) {
    sessions.Clear();
    requests.Clear();
    epoch = now;
    begun = true;
  }
  const uint64_t request = HashKey(seed, observation.id(), observation.kernel);
  if (requests.MayContain(request)) {
    ++duplicates;
    return Handling::kDuplicate;
  }
  if (policy.audit.once_per_session && !observation.repeat) {
    const uint64_t key = SessionKey(observation.id(), observation.session, observation.kernel);
    if (sessions.MayContain(key)) {
      ++repeated_sessions;
      return Handling::kSession;
    }
    sessions.Insert(key);
  }
  requests.Insert(request);
  return Handling::kCounted;
}

void Monitor::State::Fold(const MonitorObservation& observation, KernelRecord* record,
                          std::vector<MonitorChange>* changes) {
  ++record->audited;
  std::vector<Alert> alerts;
  std::string contradiction;
  const Result<> read = evidence->Read(observation, record->kernel->fingerprint);
  const bool earlier = observation.time_ms < record->alarm_ms;
  if (read.has_value()) {
    if (observation.repeat) {
      record->signals.FoldRepeat(plan, &*evidence, observation.time_ms, HalfWindow(), &alerts);
    } else if (earlier) {
      record->signals.FoldEarlier(plan, &*evidence, observation.time_ms, HalfWindow(), &alerts);
    } else {
      record->signals.Fold(plan, &*evidence, observation.time_ms, HalfWindow(), &alerts);
    }
    AddFaults(plan, observation, &alerts);
  } else {
    contradiction = read.error().message();
  }
  const ReleaseContext context{plan, policy, on_broken};
  if (alerts.empty() && contradiction.empty()) {
    // Asked again is not asked once more: a repeat takes no step towards a release.
    if (!observation.repeat && !earlier) ReleaseByEvidence(context, record, changes);
  } else {
    RaiseAlerts(context, observation.id(), contradiction, alerts, record, changes);
    record->alarm_ms = std::max(record->alarm_ms, observation.time_ms);
  }
}

// Where its records contradict each other its slices are not known.
void Monitor::State::FoldEvent(const MonitorObservation& observation, KernelRecord* record,
                               std::vector<MonitorChange>* changes) {
  if (!evidence->Read(observation, record->kernel->fingerprint).has_value()) {
    evidence->ReadUnplaced(EventsOfLine(observation));
  }
  std::vector<Alert> alerts;
  record->signals.FoldEvent(plan, &*evidence, observation.time_ms, HalfWindow(), &alerts);
  if (alerts.empty()) return;
  AddFaults(plan, observation, &alerts);
  RaiseAlerts({plan, policy, on_broken}, observation.id(), "", alerts, record, changes);
  record->alarm_ms = std::max(record->alarm_ms, observation.time_ms);
}

// Evidence that contradicts itself is a clause of its own, and what shows none of it begins again.
void Monitor::State::FoldUnread(bool its_own, KernelRecord* record,
                                std::vector<MonitorChange>* changes) {
  EventFlags events;
  events.conforms[static_cast<size_t>(Side::kInfer)] = false;
  evidence->ReadUnplaced(events);
  record->unbroken = 0;
  std::vector<Alert> alerts;
  record->signals.FoldUnread(plan, &*evidence, its_own, HalfWindow(), &alerts);
  if (!alerts.empty()) RaiseAlerts({plan, policy, on_broken}, "", "", alerts, record, changes);
}

int64_t Monitor::State::Unread() const {
  int64_t others = unaudited + duplicates + repeated_sessions + late + renewals;
  for (const KernelRecord& record : kernels) others += record.audited;
  return std::max<int64_t>(0, observations - others);
}

Route Monitor::State::Choose() const {
  std::vector<RouteKernel> rows;
  for (const KernelRecord& record : kernels) {
    rows.push_back({record.kernel, record.guarded, MovingOrder(record, plan, on_broken),
                    record.signals.Health(plan)});
  }
  return ChooseRoute(rows, policy.panic);
}

// The route is chosen again only when an alarm or a release has changed something, so that a
// statistic that wanders cannot move requests.
void Monitor::State::UpdateRoute(std::vector<MonitorChange>* changes) {
  Route next = Choose();
  if (next.panic != route.panic) {
    MonitorChange change;
    change.kind = next.panic ? MonitorChangeKind::kPanic : MonitorChangeKind::kPanicEnd;
    change.kernel = next.kernel;
    change.reason = next.reason;
    changes->push_back(std::move(change));
  }
  if (next.kernel != route.kernel) {
    MonitorChange change;
    change.kind = MonitorChangeKind::kRoute;
    change.kernel = next.kernel;
    change.target = next.kernel;
    change.reason =
        (next.kernel.empty() ? "no kernel serves: " : next.kernel + " serves: ") + next.reason;
    changes->push_back(std::move(change));
  }
  route = std::move(next);
}

KernelStatus Monitor::State::StatusOf(const KernelRecord& record) const {
  KernelStatus status;
  status.name = record.kernel->name;
  status.role = record.kernel->role;
  status.state = record.guarded              ? KernelState::kGuarded
                 : record.probation_left > 0 ? KernelState::kProbation
                                             : KernelState::kServing;
  status.action = ActionOf(record, plan, on_broken);
  if (record.guarded) status.target = MovingOrder(record, plan, on_broken).target;
  status.health = record.signals.Health(plan);
  status.eta2 = plan.eta2;
  status.audit_rate = AuditRate(record);
  status.served = record.served;
  status.audited = record.audited;
  status.strikes = record.strikes();
  status.probation_left = record.probation_left;
  status.verdict = record.broken ? Verdict::kError : Verdict::kSatisfied;
  for (size_t i = 0; i < plan.pairs.size(); ++i) {
    const SignalPair& row = plan.pairs[i];
    const PairRecord& state = record.signals.pair(i);
    PairStatus pair;
    pair.clause = plan.signals[row.signal].clause->id;
    pair.slice = SliceName(plan, row);
    pair.of_train = row.of_train;
    pair.verdict = record.signals.VerdictOf(plan, i);
    pair.reason = VerdictReason(plan, policy, record, i);
    pair.level = record.signals.Level(plan, i);
    pair.recent = state.recent.Mean();
    pair.limit = plan.signals[row.signal].limit;
    pair.observations = state.observations;
    pair.alarms = state.alarms;
    pair.deviation = record.signals.DeviationOf(plan, i);
    status.verdict = std::max(status.verdict, pair.verdict);
    status.pairs.push_back(std::move(pair));
  }
  return status;
}

}  // namespace kcc
