// The monitor's findings in words: what shows it, and what would settle or return it.
#pragma once

#include <string>

#include "kcc/contract/monitor_policy.h"
#include "kcc/monitor/kernel_state.h"
#include "kcc/monitor/monitor.h"
#include "kcc/monitor/signal.h"

namespace kcc {

// The slice as the contract names it.
std::string SliceName(const SignalPlan& plan, const SignalPair& pair);

// `change` holds the numbers of the alert.
std::string AlertReason(const SignalPlan& plan, const MonitorPolicy& policy, const Alert& alert,
                        const std::string& request, const MonitorChange& change);
std::string RecoveredReason(const SignalPlan& plan, const ReleasePolicy& policy,
                            const KernelRecord& record, size_t pair);
// Why a pair has the verdict it has.
std::string VerdictReason(const SignalPlan& plan, const MonitorPolicy& policy,
                          const KernelRecord& record, size_t pair);

}  // namespace kcc
