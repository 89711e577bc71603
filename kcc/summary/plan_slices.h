// The slices of a plan, ready to be asked which requests and tokens belong to them.
#pragma once

#include "kcc/base/result.h"
#include "kcc/summary/plan.h"
#include "kcc/trace/slices.h"

namespace kcc {

// By index of plan.slices(). Fails on a predicate that does not parse, which a plan made from a
// contract does not have.
Result<SliceEvaluator> MakeSliceEvaluator(const Plan& plan);

}  // namespace kcc
