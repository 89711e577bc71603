// kcc lab serve as a subject of the fault tests: a server from its start to its end, without
// requests. tests/serve has those, and what happens to a server from outside.
#pragma once

#include <vector>

#include "tests/faults/trials.h"

namespace kcc::faults {

std::vector<Case> ServeCases();

}  // namespace kcc::faults
