// One kernel of the pool: its evidence, and whether it is guarded or on probation.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "kcc/contract/monitor_policy.h"
#include "kcc/monitor/kernel_signals.h"
#include "kcc/monitor/signal.h"

namespace kcc {

struct KernelRecord {
  KernelRecord(const MonitorKernel& its_kernel, const SignalPlan& plan)
      : kernel(&its_kernel), signals(plan) {}

  const MonitorKernel* kernel;
  KernelSignals signals;
  int64_t served = 0;
  int64_t audited = 0;
  bool guarded = false;
  int64_t guards = 0;          // times it was guarded
  int64_t probation_left = 0;  // audited requests
  // Evidence whose records contradict each other belongs to no clause: it is watched as a clause
  // of its own that allows none.
  bool broken = false;
  int64_t unbroken = 0;  // since then
  // Time of the observation that raised its last alarm; evidence of before is none of what came
  // after it, though it may be told later.
  int64_t alarm_ms = std::numeric_limits<int64_t>::min();
  size_t standing = 0;  // pairs that are alarmed

  // Guarded again after a release.
  int64_t strikes() const { return guards > 0 ? guards - 1 : 0; }
  // Begins the evidence anew. A guarded kernel stays guarded by the pairs that alarmed.
  void Renew(const SignalPlan& plan, const ReleasePolicy& release, int64_t time_ms);
  void CountStanding();
  void Visit(Archive& archive, const SignalPlan& plan);
};

// What the kernel's alarms order: the most severe action, and the target of the most severe one
// that moves requests. Nothing where none stands.
std::optional<Action> ActionOf(const KernelRecord& record, const SignalPlan& plan,
                               const Order& on_broken);
Order MovingOrder(const KernelRecord& record, const SignalPlan& plan, const Order& on_broken);

}  // namespace kcc
