// What of a configuration may change while a gateway runs, and what needs a restart.
#pragma once

#include <string>
#include <vector>

#include "kcc/control/gateway_files.h"
#include "kcc/control/route_plan.h"

namespace kcc {

// Puts back into `next` what cannot change while it runs, as `now` has it; names what differed.
std::vector<std::string> KeepWhatNeedsRestart(const GatewayDocuments& now, GatewayDocuments* next);

// Whether the scorer of the one would do for the other.
bool SameScoring(const GatewayDocuments& a, const GatewayDocuments& b);

// What the configuration wishes for beside the monitor's word.
RouteWishes WishesOf(const GatewayConfig& config);

}  // namespace kcc
