// Measuring as measure and run both do it: two kernels and flags in, a summary out, progress on a
// terminal. Two traces are read as they are; if one side is an engine, both are asked in batches.
#pragma once

#include <string>

#include "apps/kcc/commands.h"
#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/summary/summary.h"

namespace kcc::cli {

// A null contract measures the default plan.
Result<Summary> MeasureSides(const std::string& train, const std::string& infer,
                             const Contract* contract, const MeasureFlags& flags,
                             const KernelFlags& kernels, Console& console);

}  // namespace kcc::cli
