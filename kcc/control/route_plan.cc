#include "kcc/control/route_plan.h"

#include <algorithm>

#include "kcc/base/check.h"

namespace kcc {
namespace {

class Planner {
 public:
  Planner(const MonitorStatus& status, const MonitorPolicy& policy,
          const std::vector<std::string>& kernels, const std::set<std::string>& unsafe,
          const RouteWishes& wishes)
      : status_(status),
        policy_(policy),
        kernels_(kernels),
        unsafe_(unsafe),
        barred_(wishes.barred),
        held_(wishes.held) {
    KCC_CHECK(kernels.size() <= kGatewayKernelsMax);
  }

  uint8_t IndexOf(const std::string& name) const {
    const auto found = std::find(kernels_.begin(), kernels_.end(), name);
    if (name.empty() || found == kernels_.end()) return kNoKernel;
    return static_cast<uint8_t>(found - kernels_.begin());
  }
  const KernelStatus* Find(const std::string& name) const {
    for (const KernelStatus& kernel : status_.kernels) {
      if (kernel.name == name) return &kernel;
    }
    return nullptr;
  }
  bool Guarded(const KernelStatus& kernel) const {
    return kernel.state == KernelState::kGuarded || unsafe_.contains(kernel.name) ||
           held_.contains(kernel.name);
  }
  bool Barred(const std::string& name) const {
    return unsafe_.contains(name) || held_.contains(name) || barred_.contains(name);
  }
  bool MayServe(const std::string& name) const {
    const KernelStatus* kernel = Find(name);
    return kernel != nullptr && IndexOf(name) != kNoKernel && IsServable(kernel->role) &&
           !Guarded(*kernel) && !barred_.contains(name);
  }

  uint64_t Allowed(const RoutePlan& plan) const {
    uint64_t allowed = 0;
    for (size_t i = 0; i < kernels_.size(); ++i) {
      // In panic the least bad kernel serves though it is guarded.
      if (MayServe(kernels_[i]) || kernels_[i] == plan.serves) allowed |= uint64_t{1} << i;
    }
    return allowed;
  }

  // The monitor's word, unless what it names is known to be unsafe.
  void ChooseServing(const std::string& standby, RoutePlan* plan) const {
    plan->serves = status_.serves;
    plan->panic = status_.panic;
    plan->reason = status_.reason;
    if (status_.serves.empty() || !Barred(status_.serves)) return;
    plan->reason = status_.serves;
    if (unsafe_.contains(status_.serves)) {
      plan->reason += " alarmed in evidence that is not in the log yet";
    } else if (held_.contains(status_.serves)) {
      plan->reason += " was guarded when the register was last read";
    } else {
      plan->reason += " is not registered under the contract";
    }
    if (MayServe(standby)) {
      plan->serves = standby;
      return;
    }
    for (const KernelRole role : {KernelRole::kGuard, KernelRole::kFallback, KernelRole::kInfer}) {
      for (const KernelStatus& kernel : status_.kernels) {
        if (kernel.role != role || !MayServe(kernel.name)) continue;
        plan->serves = kernel.name;
        return;
      }
    }
    plan->panic = true;
    // What was never registered is not served for lack of a better one.
    const bool closed = policy_.panic == PanicRule::kFailClosed || barred_.contains(plan->serves);
    if (closed) plan->serves.clear();
  }

  void ChooseCanary(const RouteWishes& wishes, RoutePlan* plan) const {
    if (wishes.canary_share <= 0 || plan->panic || plan->serves.empty()) return;
    if (wishes.canary == plan->serves || !MayServe(wishes.canary)) return;
    plan->canary = wishes.canary;
    plan->canary_share = std::min(wishes.canary_share, 1.0);
  }

  void ChooseSampling(const RouteWishes& wishes, uint64_t turn, RoutePlan* plan) const {
    for (const std::string& name : {plan->serves, plan->canary}) {
      const KernelStatus* kernel = Find(name);
      if (kernel != nullptr) plan->audit_share = std::max(plan->audit_share, kernel->audit_rate);
    }
    std::vector<const KernelStatus*> guarded;
    for (const KernelStatus& kernel : status_.kernels) {
      const bool asked = IsServable(kernel.role) && IndexOf(kernel.name) != kNoKernel;
      if (asked && Guarded(kernel) && kernel.name != plan->serves) guarded.push_back(&kernel);
    }
    if (!guarded.empty()) {
      const KernelStatus& kernel = *guarded[turn % guarded.size()];
      plan->probed = kernel.name;
      plan->probe_share = kernel.audit_rate;
    }
    plan->sampling = {.audit_share = ShareOf(plan->audit_share),
                      .probed = IndexOf(plan->probed),
                      .probe_share = ShareOf(plan->probe_share),
                      .shadow = IndexOf(wishes.shadow)};
  }

 private:
  const MonitorStatus& status_;
  const MonitorPolicy& policy_;
  const std::vector<std::string>& kernels_;
  const std::set<std::string>& unsafe_;
  const std::set<std::string>& barred_;
  const std::set<std::string>& held_;
};

}  // namespace

double RoutePlan::ShareOfKernel(const std::string& name) const {
  if (name.empty()) return 0;
  if (name == canary) return canary_share;
  return name == serves ? 1 - canary_share : 0;
}

RoutePlan PlanRoute(const MonitorStatus& status, const MonitorPolicy& policy,
                    const std::vector<std::string>& kernels, const RouteWishes& wishes,
                    const std::set<std::string>& unsafe, const std::string& standby,
                    uint64_t turn) {
  const Planner planner(status, policy, kernels, unsafe, wishes);
  RoutePlan plan;
  planner.ChooseServing(standby, &plan);
  planner.ChooseCanary(wishes, &plan);
  planner.ChooseSampling(wishes, turn, &plan);
  plan.route = {.serves = planner.IndexOf(plan.serves),
                .canary = planner.IndexOf(plan.canary),
                .canary_share = ShareOf(plan.canary_share)};
  plan.allowed = planner.Allowed(plan);
  return plan;
}

}  // namespace kcc
