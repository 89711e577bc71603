// From cells to slices: each cell's statistics are added to every slice it belongs to.
//
// Done statistic by statistic, so that what is added to stays in cache, and for eight slices at a
// time: cells that agree on those eight are added up first. So a cell is added about once for every
// eight slices, not once per slice. Everything is additive, so the order cannot be seen.
#pragma once

#include <vector>

#include "kcc/summary/plan.h"
#include "kcc/summary/slice_stats.h"
#include "kcc/trace/slices.h"

namespace kcc {

struct SpreadCell {
  const SliceBits* bits;
  const SliceStats* stats;
};

// The cells belong to no other slices than `targets`. Windows and tests go only to the slices that
// the plan names for them.
void SpreadCells(const Plan& plan, const std::vector<SpreadCell>& cells,
                 const std::vector<size_t>& targets, std::vector<SliceStats>* slices);

}  // namespace kcc
