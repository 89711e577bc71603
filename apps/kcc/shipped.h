// What comes with kcc besides the program: the lab's model, its requests and its contract.
//
// They are looked for in the folders of Console::shipped, in that order, and the first that has
// them counts: beside the program before the current folder, so that a command means the same
// wherever it is run. A path that the user gives is never looked for.
#pragma once

#include <string>

#include "apps/kcc/console.h"
#include "kcc/lab/lab_kernel.h"

namespace kcc::cli {

// The directory of the lab's model. The console outlives the function that is returned.
ShippedModel ShippedModelOf(const Console& console);

// The evaluation set of the lab's model, and the contract that the lab's experiments judge by. Each
// fails where it is in none of the folders; the message names them all and says what to do.
Result<std::string> ShippedRequests(const Console& console);
Result<std::string> ShippedLabContract(const Console& console);
// That of rollouts, which the lab's training experiment judges by.
Result<std::string> ShippedRlContract(const Console& console);

}  // namespace kcc::cli
