#include "kcc/contract/monitor_policy.h"

#include <algorithm>

#include "kcc/base/sha256.h"
#include "kcc/base/strings.h"

namespace kcc {

const MonitorKernel* MonitorPolicy::FindKernel(std::string_view name) const {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const MonitorKernel& row) { return row.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

const MonitorKernel* MonitorPolicy::FirstOf(KernelRole role) const {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const MonitorKernel& row) { return row.role == role; });
  return found == kernels.end() ? nullptr : &*found;
}

std::string PolicyDigest(const MonitorPolicy& policy) {
  std::string text = policy.name + "\n" + policy.version + "\n";
  for (const double number :
       {policy.false_alarms.alarms, static_cast<double>(policy.false_alarms.requests),
        static_cast<double>(policy.detector), static_cast<double>(policy.window_requests),
        static_cast<double>(policy.block_requests), policy.audit.rate, policy.audit.probe_rate,
        static_cast<double>(policy.audit.once_per_session),
        static_cast<double>(policy.audit.session_epoch_ms),
        static_cast<double>(policy.audit.session_filter_bits), policy.release.alpha,
        static_cast<double>(policy.release.strikes_max), static_cast<double>(policy.release.clean),
        static_cast<double>(policy.release.probation), static_cast<double>(policy.panic)}) {
    text += ShortestNumber(number) + "\n";
  }
  for (const double shift : policy.shifts) text += ShortestNumber(shift) + "\n";
  for (const RouteOverride& row : policy.overrides) {
    text += std::to_string(row.family ? static_cast<int>(*row.family) : -1) + " " +
            std::to_string(row.level ? static_cast<int>(*row.level) : -1) + " " +
            std::to_string(row.action ? static_cast<int>(*row.action) : -1) + " " + row.target +
            "\n";
  }
  for (const MonitorKernel& kernel : policy.kernels) {
    text += kernel.name + " " + std::to_string(static_cast<int>(kernel.role)) + " " +
            kernel.fingerprint + "\n";
  }
  return Sha256Of(text);
}

}  // namespace kcc
