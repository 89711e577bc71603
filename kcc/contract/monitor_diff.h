// What changed between two monitor policies, in words, and whether it became looser.
//
// The promise: if nothing is called looser, whatever the old policy bounds is bounded no worse by
// the new one: how often an alarm comes for nothing, the share of requests that is looked at, the
// evidence that a kernel needs to come back, and which kernels can come to serve. So what is not
// provably at least as tight counts as looser: another detector, other shifts, another route.
#pragma once

#include <vector>

#include "kcc/contract/diff.h"
#include "kcc/contract/monitor_policy.h"

namespace kcc {

// Looser changes first, then by where: "audit", "kernel fp8", "overrides", "policy", "release".
std::vector<Change> DiffMonitorPolicies(const MonitorPolicy& before, const MonitorPolicy& after);

}  // namespace kcc
