// The numbers that lint decides by: one pass over the rows, then ratios.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"
#include "kcc/rl/lint_odds.h"

namespace kcc {

// A value that one side repeats where the other disagrees.
struct Sentinel {
  double value = 0;
  double share = 0;     // of the valid tokens
  double mean_gap = 0;  // between the sides there
  bool in_rollout = true;
};

struct LintFeatures {
  int64_t rows = 0, tokens = 0;
  double equal_share = 0;  // tokens with equal log-probs
  double mean_abs_d = 0;
  double lag[3] = {};               // correlation of train[t] with rollout[t-1], [t], [t+1]
  double lag_gap[3] = {};           // mean |difference| at these
  double break_share = 0;           // rows clean up to a position and broken from there
  double unrelated_share = 0;       // rows whose two sides have nothing to do with each other
  double slope = 1;                 // of train on rollout, over related rows
  double explained = 0;             // share of the variance of d that rollout's log-prob explains
  double mean_w = 1, mean_w_z = 0;  // z: (mean - 1) / its standard error over rows
  double low_tail = 0, high_tail = 0;  // -quantile 0.5 % and +quantile 99.5 % of d
  double advantage_t = 0;  // t of the slope of rows' mean d on their advantage, where it is not 0
  double k3 = 0;
  OddsGap odds;  // over related rows
  std::optional<Sentinel> sentinel;
};

Result<LintFeatures> ComputeLintFeatures(const RlBatch& batch);

}  // namespace kcc
