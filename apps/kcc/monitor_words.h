// A monitor policy in words, part by part. What it means for the clauses of a contract is said by
// kcc/monitor.
#pragma once

#include <vector>

#include "apps/kcc/document_part.h"
#include "kcc/contract/monitor_policy.h"

namespace kcc::cli {

// "alarms", "audit", "routes" and "release".
std::vector<DocumentPart> MonitorParts(const MonitorPolicy& policy);

}  // namespace kcc::cli
