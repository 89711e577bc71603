// Thresholds between those of the grid: for each kind of correction with one threshold the best one
// for this batch.
//
// Best is the least bias^2 + E phi^2 / rows (ReplayScore) among the thresholds that qualify
// (UnfitOf). It is looked for among the values that the batch itself shows: a rule changes what it
// keeps at its own units' values alone, so these are all the thresholds there are. They are rounded
// up to four digits, which keeps the unit whose value it was. Ranks are visited coarsely, then ever
// more finely around the best; every threshold that is looked at is evaluated exactly, by CorrectRl
// on the whole batch. Where the score has several valleys, the one of the coarse visit is taken. No
// randomness: equal batches give equal thresholds.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"
#include "kcc/rl/correction.h"
#include "kcc/rl/replay.h"

namespace kcc {

// A correction whose threshold is open.
struct RlThresholdFamily {
  enum class Open : uint8_t { kCap, kBand, kReject };
  RlCorrection correction;  // its first rejection, or else its weight, has the open threshold
  Open open = Open::kReject;
};

// The kinds of correction that the grid has thresholds of.
std::vector<RlThresholdFamily> ReplayFamilies();
// The correction at a threshold: the cap, or c of a band [1/c, c], or the largest statistic.
RlCorrection AtThreshold(const RlThresholdFamily& family, double threshold);

// All thresholds that a family has on a batch, rising.
Result<std::vector<double>> ThresholdsOf(const RlBatch& batch, const RlThresholdFamily& family);

// The grid, then what the search found: one correction for each family, where one qualifies and
// does anything at all. `reason` ends with the kernel's own values of what the recommended one
// bounds.
Result<RlReplay> ReplayAndSearch(const RlBatch& batch, const RlReplayOptions& options = {});

}  // namespace kcc
