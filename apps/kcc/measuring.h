// Measuring as measure and run both do it: flags in, a summary out, progress on a terminal.
#pragma once

#include <string>

#include "apps/kcc/commands.h"
#include "apps/kcc/progress.h"
#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/summary/measure.h"
#include "kcc/summary/summary.h"

namespace kcc::cli {

// A null contract measures the default plan.
Result<Summary> MeasureTraces(const std::string& train, const std::string& infer,
                              const Contract* contract, const MeasureFlags& flags,
                              Console& console);

}  // namespace kcc::cli
