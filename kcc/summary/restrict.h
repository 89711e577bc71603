// A summary as a narrower plan would have measured it: what a promotion's step began with stays
// its measure, though more is measured by now because another contract is compared elsewhere.
#pragma once

#include "kcc/base/result.h"
#include "kcc/summary/summary.h"

namespace kcc {

// The same evidence under `plan`, byte for byte what measuring it by `plan` gives: counters are
// added up or left out, and nothing is estimated. Exact quantiles are not kept, as after a merge.
// Fails (kInvalid) where the summary's plan does not cover it, naming the first thing that it
// lacks.
Result<Summary> Restrict(const Summary& summary, const Plan& plan);

}  // namespace kcc
