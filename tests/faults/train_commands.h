// kcc lab train as a subject of the fault tests: whatever stopped a run, the folder that it left
// leads to the files of a run that was never stopped.
#pragma once

#include <string>
#include <vector>

#include "tests/faults/inputs.h"
#include "tests/faults/trials.h"

namespace kcc::faults {

// The commands that make the folders of runs that were never stopped.
std::vector<std::vector<std::string>> TrainRecipes(const Inputs& inputs);

std::vector<Case> TrainCases();

}  // namespace kcc::faults
