// kcc monitor as a subject of the fault tests. Of `monitor run` more is asked than of a command
// that writes a file: whatever stopped it, what it left behind must lead to the log and the state
// of a run that was never stopped, and nothing was told that the log does not hold.
#pragma once

#include <string>
#include <vector>

#include "tests/faults/inputs.h"
#include "tests/faults/trials.h"

namespace kcc::faults {

// The documents and the observations, and the commands that make logs and states of them.
void WriteMonitorInputs(const Inputs& inputs);
std::vector<std::vector<std::string>> MonitorRecipes(const Inputs& inputs);

std::vector<Case> MonitorCases();

}  // namespace kcc::faults
