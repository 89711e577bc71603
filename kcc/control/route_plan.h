// What the monitor decides, as the words that requests are routed by. A pure function: no clock, no
// files.
//
// The monitor says which kernel serves and which are guarded. The configuration, or a promotion,
// says which kernel is the canary and which the shadow. A kernel that is guarded takes no session,
// whatever else is wished: its share becomes 0, and what is left of it are probes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "kcc/contract/monitor_policy.h"
#include "kcc/gateway/route_word.h"
#include "kcc/monitor/monitor.h"

namespace kcc {

// What is wished for beside the monitor's word.
struct RouteWishes {
  std::string canary;            // empty: none
  double canary_share = 0;       // of sessions
  std::string shadow;            // shown copies of audited requests; empty: none
  std::set<std::string> barred;  // kernels that are not registered under the contract
  // Kernels that were guarded when this gateway lost sight of the others: what releases them now is
  // half of the evidence.
  std::set<std::string> held;
};

struct RoutePlan {
  Route24 route;
  Sampling24 sampling;
  uint64_t allowed = 0;  // kernels that failover may go to, kernel i as bit i
  std::string serves;    // names; empty: none
  std::string canary;
  double canary_share = 0;
  double audit_share = 0;
  std::string probed;
  double probe_share = 0;
  bool panic = false;
  std::string reason;  // of what serves, a sentence

  // Of new sessions that the kernel takes.
  double ShareOfKernel(const std::string& name) const;
};

// `kernels`: the pool's, in its order, at most kGatewayKernelsMax. `unsafe`: kernels that must not
// serve though the monitor's status does not say so yet; `standby`: where their requests go, if it
// may serve. `turn`: which of several guarded kernels is shown probes now.
RoutePlan PlanRoute(const MonitorStatus& status, const MonitorPolicy& policy,
                    const std::vector<std::string>& kernels, const RouteWishes& wishes,
                    const std::set<std::string>& unsafe, const std::string& standby, uint64_t turn);

}  // namespace kcc
