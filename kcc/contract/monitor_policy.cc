#include "kcc/contract/monitor_policy.h"

#include <algorithm>

#include "kcc/contract/words.h"

namespace kcc {

bool IsServable(KernelRole role) {
  return role == KernelRole::kInfer || role == KernelRole::kGuard || role == KernelRole::kFallback;
}

std::optional<KernelRole> RoleFor(Action action) {
  switch (action) {
    case Action::kLog:
    case Action::kFreeze:
      return {};
    case Action::kGuard:
      return KernelRole::kGuard;
    case Action::kFallback:
    case Action::kRollback:
      break;
  }
  return KernelRole::kFallback;
}

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

std::string_view Name(KernelRole role) { return kKernelRoleWords[static_cast<size_t>(role)]; }
std::string_view Name(DetectorWord detector) {
  return kDetectorWords[static_cast<size_t>(detector)];
}
std::string_view Name(ReleaseRule rule) { return kReleaseWords[static_cast<size_t>(rule)]; }
std::string_view Name(PanicRule rule) { return kPanicWords[static_cast<size_t>(rule)]; }

}  // namespace kcc
