// The three-state test as calibrate and author both show it.
#pragma once

#include "apps/kcc/console.h"
#include "kcc/author/three_state.h"
#include "kcc/base/json_writer.h"

namespace kcc::cli {

void WriteThreeStates(const ThreeStateTest& test, JsonWriter* json);  // the fields of an object
void PrintThreeStates(const ThreeStateTest& test, std::ostream& out, bool colour);
int ExitCodeOf(const ThreeStateTest& test);

}  // namespace kcc::cli
