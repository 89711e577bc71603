// Measuring as measure, run, calibrate and author do it: flags in, a summary out, progress on a
// terminal.
#pragma once

#include <string>

#include "apps/kcc/commands.h"
#include "apps/kcc/progress.h"
#include "kcc/base/result.h"
#include "kcc/contract/contract.h"
#include "kcc/summary/measure.h"
#include "kcc/summary/summary.h"
#include "kcc/trace/pairing.h"

namespace kcc::cli {

// Two traces side by side.
Result<PairedTraces> OpenPair(const std::string& train, const std::string& infer,
                              const MeasureFlags& flags);

// A null contract measures the default plan.
Result<Summary> MeasurePair(const PairedTraces& pair, const Contract* contract,
                            const MeasureFlags& flags, Console& console);

}  // namespace kcc::cli
