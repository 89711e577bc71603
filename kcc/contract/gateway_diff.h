// What changed between two configurations of a gateway, in words, and whether it became looser.
//
// The promise: if nothing is called looser, no more of the traffic goes unseen or to a kernel that
// it did not go to before, no more of requests is kept, and no more people can ask. What is not
// provably so counts as looser: another address of a kernel, another file.
#pragma once

#include <vector>

#include "kcc/contract/diff.h"
#include "kcc/contract/gateway_config.h"

namespace kcc {

// Looser changes first, then by where: "admin", "canary", "hook parsed", "kernel fp8", "limits".
std::vector<Change> DiffGateways(const GatewayConfig& before, const GatewayConfig& after);

}  // namespace kcc
