// Which kernel of the pool serves (paper eq. 19, from verdicts): the first kernel of role infer,
// or, while it is guarded, where its order sends requests, and so on. Where that leads to no kernel
// that may serve, any that may; where none may, the policy's panic rule.
#pragma once

#include <span>
#include <string>

#include "kcc/contract/monitor_policy.h"
#include "kcc/monitor/signal.h"

namespace kcc {

// A kernel as the route sees it.
struct RouteKernel {
  const MonitorKernel* kernel = nullptr;
  bool guarded = false;
  Order order;        // of its alarms, while it is guarded
  double health = 0;  // H: what the safest has least of
};

struct Route {
  std::string kernel;  // empty: none serves
  bool panic = false;
  std::string reason;

  bool operator==(const Route&) const = default;
};

// Precondition: there is a kernel of role infer.
Route ChooseRoute(std::span<const RouteKernel> kernels, PanicRule panic);

}  // namespace kcc
