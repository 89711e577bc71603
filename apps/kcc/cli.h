// The command line: argv in, exit code out.
#pragma once

#include "apps/kcc/console.h"

namespace kcc::cli {

int RunProgram(int argc, const char* const* argv, Console& console);

}  // namespace kcc::cli
