// The functions of the C interface as subjects of the fault tests.
#pragma once

#include <vector>

#include "tests/faults/trials.h"

namespace kcc::faults {

// A small call of every function that can fail.
std::vector<Case> CCases();

}  // namespace kcc::faults
