// kcc register, kcc promote and --register as subjects of the fault tests.
#pragma once

#include <vector>

#include "tests/faults/trials.h"

namespace kcc::faults {

// A small run of every command that uses a register or a key.
std::vector<Case> RegisterCases();

}  // namespace kcc::faults
