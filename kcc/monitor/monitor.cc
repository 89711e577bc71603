#include "kcc/monitor/monitor.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/sha256.h"
#include "kcc/contract/canonical.h"
#include "kcc/monitor/monitor_state.h"
#include "kcc/summary/population.h"

namespace kcc {
namespace {

// Up to 8 GiB of filters; a policy that says more is a slip.
constexpr int64_t kFilterBitsMax = int64_t{1} << 35;

Result<> CheckPolicy(const MonitorPolicy& policy) {
  const auto wrong = [&](const std::string& what) {
    return InvalidError("the monitor policy '" + policy.name + "': " + what);
  };
  if (policy.FirstOf(KernelRole::kInfer) == nullptr) return wrong("no kernel has the role infer");
  if (policy.FirstOf(KernelRole::kFallback) == nullptr) {
    return wrong("no kernel has the role fallback");
  }
  const AuditPolicy& audit = policy.audit;
  if (audit.session_filter_bits < 64 || audit.session_filter_bits > kFilterBitsMax) {
    return wrong("the filter of sessions must have 64 to 2^35 bits");
  }
  if (audit.session_epoch_ms < 1) return wrong("the epoch of sessions must last 1 ms or longer");
  if (policy.window_requests < 1 || policy.block_requests < 1) {
    return wrong("the window and the block must hold a request");
  }
  const FalseAlarmBudget& budget = policy.false_alarms;
  if (!(budget.alarms > 0) || !std::isfinite(budget.alarms) || budget.requests < 1) {
    return wrong("the budget of false alarms must be above 0");
  }
  const double per_alarm = static_cast<double>(budget.requests) / budget.alarms;
  if (!std::isfinite(per_alarm * 1e9)) return wrong("the budget of false alarms is too small");
  if (policy.shifts.size() > kDetectorBetsMax) {
    return wrong("at most " + std::to_string(kDetectorBetsMax) + " shifts can be bet on");
  }
  for (const double shift : policy.shifts) {
    if (!(shift > 1) || !std::isfinite(shift)) return wrong("a shift must be a factor above 1");
  }
  for (const RouteOverride& row : policy.overrides) {
    const MonitorKernel* const target = policy.FindKernel(row.target);
    if (!row.target.empty() && (target == nullptr || !IsServable(target->role))) {
      return wrong("'" + row.target + "' is the target of an override and cannot serve");
    }
  }
  if (!(policy.release.alpha > 0 && policy.release.alpha < 1)) {
    return wrong("the level of the release must lie between 0 and 1");
  }
  return {};
}

// What the saved bytes are laid out by. Digests leave out the order of clauses and of kernels,
// which means nothing to a reader and decides here which number is whose.
std::string LayoutOf(const SignalPlan& plan, const MonitorPolicy& policy) {
  std::string layout;
  for (const SignalPair& pair : plan.pairs) {
    layout +=
        plan.signals[pair.signal].clause->id + "/" + plan.plan.slices()[pair.slice].name + "\n";
  }
  for (const MonitorKernel& kernel : policy.kernels) layout += kernel.name + "\n";
  return layout;
}

}  // namespace

std::string_view Name(MonitorChangeKind kind) {
  switch (kind) {
    case MonitorChangeKind::kAlarm:
      return "alarm";
    case MonitorChangeKind::kProof:
      return "proof";
    case MonitorChangeKind::kBroken:
      return "broken";
    case MonitorChangeKind::kGuard:
      return "guard";
    case MonitorChangeKind::kRecovered:
      return "recovered";
    case MonitorChangeKind::kRelease:
      return "release";
    case MonitorChangeKind::kProbationEnd:
      return "probation-end";
    case MonitorChangeKind::kPanic:
      return "panic";
    case MonitorChangeKind::kPanicEnd:
      return "panic-end";
    case MonitorChangeKind::kRenew:
      return "renew";
    case MonitorChangeKind::kRoute:
      break;
  }
  return "route";
}

std::string_view Name(Handling handling) {
  switch (handling) {
    case Handling::kCounted:
      return "counted";
    case Handling::kUnaudited:
      return "unaudited";
    case Handling::kDuplicate:
      return "duplicate";
    case Handling::kSession:
      return "session";
    case Handling::kLate:
      return "late";
    case Handling::kRenewed:
      return "renewed";
    case Handling::kUnread:
      break;
  }
  return "unread";
}

std::string_view Name(KernelState state) {
  switch (state) {
    case KernelState::kServing:
      return "serving";
    case KernelState::kGuarded:
      return "guarded";
    case KernelState::kProbation:
      break;
  }
  return "probation";
}

Monitor::Monitor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Monitor::Monitor(Monitor&&) noexcept = default;
Monitor& Monitor::operator=(Monitor&&) noexcept = default;
Monitor::~Monitor() = default;

Result<Monitor> Monitor::Make(Contract contract, MonitorPolicy policy,
                              const MonitorOptions& options) {
  KCC_TRY_VOID(CheckPolicy(policy));
  auto state = std::make_unique<State>(std::move(contract), std::move(policy), options);
  KCC_TRY(state->plan, MakeSignalPlan(state->contract, state->policy, options.stage));
  KCC_TRY(state->evidence, RequestEvidence::Make(state->plan.plan, state->contract.trust));
  state->on_broken = OrderFor(state->policy, state->contract.escalation.on_error);
  state->identity =
      Sha256Of(ContractDigest(state->contract) + PolicyDigest(state->policy) +
               std::string(Name(options.stage)) + LayoutOf(state->plan, state->policy));
  state->seed = HashText(state->identity);
  for (const MonitorKernel& kernel : state->policy.kernels) {
    state->kernels.emplace_back(kernel, state->plan);
  }
  state->route = state->Choose();
  return Monitor(std::move(state));
}

Result<MonitorDecision> Monitor::Observe(const MonitorObservation& observation) {
  KCC_TRY_VOID(CheckObservation(observation));
  State& state = *state_;
  KernelRecord* const record = state.Find(observation.kernel);
  if (record == nullptr) {
    return InvalidError("the observation of request '" + observation.id() + "' names the kernel '" +
                        observation.kernel + "', which the monitor policy '" + state.policy.name +
                        "' does not list");
  }
  MonitorDecision decision;
  decision.number = ++state.observations;
  if (!observation.probe) ++record->served;
  decision.handling = state.Admit(observation);
  if (decision.handling == Handling::kCounted) {
    state.Fold(observation, record, &decision.changes);
  } else if (state.plan.events) {
    state.FoldEvent(observation, record, &decision.changes);
  }
  if (!decision.changes.empty()) state.UpdateRoute(&decision.changes);
  decision.serves = state.route.kernel;
  return decision;
}

MonitorDecision Monitor::ObserveUnread(std::string_view kernel) {
  State& state = *state_;
  MonitorDecision decision;
  decision.number = ++state.observations;
  decision.handling = Handling::kUnread;
  const KernelRecord* const named = state.Find(kernel);
  const KernelRecord* const answers = named != nullptr ? named : state.Find(state.route.kernel);
  for (KernelRecord& record : state.kernels) {
    if (named != nullptr && named != &record) continue;
    state.FoldUnread(&record == answers, &record, &decision.changes);
  }
  if (!decision.changes.empty()) state.UpdateRoute(&decision.changes);
  decision.serves = state.route.kernel;
  return decision;
}

Result<MonitorDecision> Monitor::Renew(std::string_view kernel, int64_t time_ms,
                                       std::string_view reason) {
  State& state = *state_;
  KernelRecord* const record = state.Find(kernel);
  if (record == nullptr) {
    return InvalidError("the monitor policy '" + state.policy.name + "' has no kernel '" +
                        std::string(kernel) + "' whose evidence could begin anew");
  }
  MonitorDecision decision;
  decision.number = ++state.observations;
  ++state.renewals;
  decision.handling = Handling::kRenewed;
  record->Renew(state.plan, state.policy.release, time_ms);
  MonitorChange change;
  change.kind = MonitorChangeKind::kRenew;
  change.kernel = kernel;
  change.reason = reason;
  decision.changes.push_back(std::move(change));
  state.UpdateRoute(&decision.changes);
  decision.serves = state.route.kernel;
  return decision;
}

bool Monitor::ShouldAudit(std::string_view request, std::string_view session,
                          std::string_view kernel, int64_t time_ms) const {
  const State& state = *state_;
  const KernelRecord* const record = state.Find(kernel);
  if (record == nullptr) return false;
  const uint64_t draw = HashKey(state.seed, request, kernel);
  // 53 bits of the hash as a number in [0, 1).
  if (!(static_cast<double>(draw >> 11) * 0x1p-53 < state.AuditRate(*record))) return false;
  const int64_t epoch = state.EpochOf(time_ms);
  if (state.begun && epoch < state.epoch) return false;
  if (!state.begun || epoch > state.epoch) return true;  // the filters would be empty
  if (state.requests.MayContain(draw)) return false;
  return !state.policy.audit.once_per_session ||
         !state.sessions.MayContain(state.SessionKey(request, session, kernel));
}

const std::string& Monitor::serves() const { return state_->route.kernel; }
const Contract& Monitor::contract() const { return state_->contract; }
const MonitorPolicy& Monitor::policy() const { return state_->policy; }

MonitorStatus Monitor::Status() const {
  const State& state = *state_;
  MonitorStatus status;
  status.serves = state.route.kernel;
  status.panic = state.route.panic;
  status.reason = state.route.reason;
  status.observations = state.observations;
  status.unaudited = state.unaudited;
  status.duplicates = state.duplicates;
  status.sessions = state.repeated_sessions;
  status.late = state.late;
  status.unread = state.Unread();
  status.detectors = static_cast<int64_t>(state.plan.detectors);
  status.alarm_level = state.plan.alarm_level;
  for (const KernelRecord& record : state.kernels) {
    status.kernels.push_back(state.StatusOf(record));
  }
  return status;
}

}  // namespace kcc
