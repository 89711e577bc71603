// YAML text -> MonitorPolicy, read as strictly as a contract (contract/reader.h): every problem in
// one run, with its place.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kcc/contract/diagnostic.h"
#include "kcc/contract/monitor_policy.h"

namespace kcc {

struct MonitorOutcome {
  std::optional<MonitorPolicy> policy;  // present iff there is no error
  std::vector<Diagnostic> diagnostics;  // in the order of the text
};

// Never fails otherwise than by diagnostics; time and memory are bounded by the text's size.
MonitorOutcome ReadMonitorPolicy(std::string_view yaml);

}  // namespace kcc
