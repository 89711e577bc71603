// How far a clause-slice pair is from its limit, as one number that compares clauses of any kind.
#pragma once

#include <optional>

#include "kcc/judge/verdict.h"

namespace kcc {

// 1 at the threshold (a soft clause: at its budget), less within, more beyond; +inf beyond a
// threshold of 0. Nothing where it was not measured. For `atLeast` on a share the distance from 1
// counts: 0.96 against 0.98 is 2.
std::optional<double> Severity(const ClauseVerdict& clause, const SliceVerdict& slice);

}  // namespace kcc
