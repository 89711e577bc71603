// What the monitor says, as JSON: `kcc monitor run --json` and the C interface give the same.
#pragma once

#include <string>

#include "kcc/base/json_writer.h"
#include "kcc/monitor/monitor.h"

namespace kcc {

// As a value of the writer.
void WriteMonitorStatus(const MonitorStatus& status, JsonWriter* json);

// {"number", "handling", "serves", "changes"}: what a line of the decision log says beside the
// observation itself.
std::string DecisionJson(const MonitorDecision& decision);

}  // namespace kcc
