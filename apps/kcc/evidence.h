// Evidence named on the command line: a summary S.kccs, or two traces TRAIN:INFER.
#pragma once

#include <string>
#include <utility>

#include "apps/kcc/commands.h"
#include "kcc/contract/contract.h"
#include "kcc/summary/summary.h"

namespace kcc::cli {

// Traces are measured by the contract's plan (null: the default plan); a summary is what it is.
Result<Summary> LoadEvidence(const std::string& name, const Contract* contract,
                             const MeasureFlags& flags, Console& console);

// TRAIN:INFER as the two directories.
Result<std::pair<std::string, std::string>> SplitTraces(const std::string& name);

}  // namespace kcc::cli
