// The chain as JSON: what `kcc bound --json` prints and the C interface gives (docs/bounds.md).
#pragma once

#include <string>

#include "kcc/base/result.h"
#include "kcc/bounds/chain.h"

namespace kcc {

// {"kccBound": 1, "given": …, "assumptions": …, "bounds": {name: {"atMost", "formula", …}},
// "missing": […]}
std::string ForwardJson(DriftForm form, double value, const BoundAssumptions& assumptions);

// {"kccBound": 1, "tolerated": …, "assumptions": …, "thresholds": {quantity: {"atMost", …}}}
Result<std::string> BackwardJson(Tolerated what, double budget,
                                 const BoundAssumptions& assumptions);

}  // namespace kcc
