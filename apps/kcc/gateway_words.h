// A gateway in words, part by part.
#pragma once

#include <vector>

#include "apps/kcc/document_part.h"
#include "kcc/contract/gateway_config.h"

namespace kcc::cli {

// "door", "kernels", "routes", "evidence" and "limits".
std::vector<DocumentPart> GatewayParts(const GatewayConfig& config);

}  // namespace kcc::cli
