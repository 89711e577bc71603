#include "kcc/summary/plan_slices.h"

#include <utility>
#include <vector>

namespace kcc {

Result<SliceEvaluator> MakeSliceEvaluator(const Plan& plan) {
  std::vector<Slice> slices;
  std::vector<Side> outcomes;
  for (const PlanSlice& row : plan.slices()) {
    Slice slice;
    slice.name = row.name;
    if (!row.where.empty()) {
      KCC_TRY(Predicate where, Predicate::Parse(row.where));
      slice.where = std::move(where);
    }
    slices.push_back(std::move(slice));
    outcomes.push_back(row.outcomes);
  }
  return SliceEvaluator::Make(std::move(slices), std::move(outcomes));
}

}  // namespace kcc
