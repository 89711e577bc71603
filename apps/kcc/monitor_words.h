// A monitor policy in words, part by part. What it means for the clauses of a contract is said by
// kcc/monitor.
#pragma once

#include <string_view>
#include <vector>

#include "kcc/contract/monitor_policy.h"
#include "kcc/promotion/plan.h"

namespace kcc::cli {

struct MonitorPart {
  std::string_view name;  // "alarms", "audit", "routes", "release"
  std::vector<PlanSentence> sentences;
};

std::vector<MonitorPart> MonitorParts(const MonitorPolicy& policy);

}  // namespace kcc::cli
