// YAML text -> GatewayConfig, read as strictly as a contract (contract/reader.h): every problem in
// one run, with its place. Files that the document names are not opened.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kcc/contract/diagnostic.h"
#include "kcc/contract/gateway_config.h"

namespace kcc {

struct GatewayOutcome {
  std::optional<GatewayConfig> config;  // present iff there is no error
  std::vector<Diagnostic> diagnostics;  // in the order of the text
};

// Never fails otherwise than by diagnostics; time and memory are bounded by the text's size.
GatewayOutcome ReadGateway(std::string_view yaml);

}  // namespace kcc
