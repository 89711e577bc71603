// What the commands of kcc monitor share.
#pragma once

#include <optional>
#include <string>

#include "apps/kcc/commands_monitor.h"
#include "kcc/contract/monitor_policy.h"
#include "kcc/monitor/monitor.h"

namespace kcc::cli {

struct MonitorDocuments {
  Contract contract;
  MonitorPolicy policy;
};
// Both, or a report of what is wrong and `exit_code`; as RequireContract.
std::optional<MonitorDocuments> RequireMonitorDocuments(const std::string& contract,
                                                        const std::string& policy, Console& console,
                                                        int* exit_code);

Stage StageNamed(const std::string& word);  // full where it is none of the others

// Whether a kernel is guarded, or a clause of one is violated or broken.
bool IsBad(const MonitorStatus& status);

// The table at the end of a run, and what keeps clauses from being decided.
void PrintMonitorStatus(const MonitorStatus& status, Console& console);

}  // namespace kcc::cli
