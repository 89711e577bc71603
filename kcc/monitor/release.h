// From alerts to the guarded state and back.
//
// An alert makes its pair violated and starts the evidence of every violated pair of the kernel
// afresh. Where its order moves requests, the kernel is guarded. It is released when the evidence
// since its last alarm certifies each pair whose order moves requests, at the policy's alpha halved
// by every strike; where no test can (proofs, broken evidence), after `clean` observations that
// show nothing. Then comes probation. Violated pairs whose order moves nothing recover by the same
// test at the clause's own alpha. No rule reads the time, and none is asked but by an observation
// that counts.
#pragma once

#include <vector>

#include "kcc/contract/monitor_policy.h"
#include "kcc/monitor/kernel_state.h"
#include "kcc/monitor/monitor.h"

namespace kcc {

// What the rules need besides the kernel.
struct ReleaseContext {
  const SignalPlan& plan;
  const MonitorPolicy& policy;
  const Order& on_broken;  // what broken evidence orders
};

// The level at which the kernel is released.
double ReleaseAlpha(const ReleasePolicy& policy, const KernelRecord& record);

// Takes the alerts of one observation, of request `id` (empty: of a line that could not be read);
// `contradiction`: the observation itself is broken, in these words (empty: it is not).
void RaiseAlerts(const ReleaseContext& context, const std::string& id,
                 const std::string& contradiction, const std::vector<Alert>& alerts,
                 KernelRecord* record, std::vector<MonitorChange>* changes);

// Asks after an observation that counted and raised nothing.
void ReleaseByEvidence(const ReleaseContext& context, KernelRecord* record,
                       std::vector<MonitorChange>* changes);

}  // namespace kcc
