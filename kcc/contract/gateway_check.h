// Checks that need the documents that a gateway names: its pool is its policy's, and what its
// contract reads of requests and answers is there to be read.
#pragma once

#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/contract/diagnostic.h"
#include "kcc/contract/gateway_config.h"
#include "kcc/contract/monitor_policy.h"

namespace kcc {

// Errors and warnings with places in the gateway's document, in its order. With an error the
// gateway must not start.
std::vector<Diagnostic> CheckGateway(const GatewayConfig& config, const MonitorPolicy& policy,
                                     const Contract& contract);

// True if one of them is an error.
bool AnyError(const std::vector<Diagnostic>& diagnostics);

}  // namespace kcc
