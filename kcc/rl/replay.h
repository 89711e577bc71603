// Runs recorded tokens through every correction and threshold: what each keeps, how much it
// biases and how noisy it leaves the gradient, by slice, and which to take. Today one trains to
// find out.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"
#include "kcc/rl/correction.h"

namespace kcc {

struct RlReplayRow {
  RlCorrection correction;
  std::vector<RlCorrectionMetrics> metrics;  // of everything, then by slice
  bool pareto = false;                       // none is better in both bias and variance
  // The slice (or everything) that comes nearest to losing all its tokens, and its kept share.
  double kept_min = 1;
  std::string kept_min_slice;
};

struct RlReplayOptions {
  double kept_min = 0.5;  // a recommendation keeps at least this share of every slice's tokens
  double ess_min = 0.3;   // and has at least this effective sample size
  // and a mean weight this near to 1. Ratios have mean 1; a sample whose weights have not has not
  // seen their tail, so its bias and variance look better than they are.
  double mean_weight_tolerance = 0.1;
  bool outcome_advantages = true;  // one advantage a sequence (GRPO): judge bias_sequence
  int threads = 1;
};

struct RlReplay {
  std::vector<RlReplayRow> rows;  // in a fixed order: off, then by level, mode and threshold
  int recommended = -1;           // index into rows; -1: none qualifies
  std::string reason;
};

// The grid that `kcc rl replay` walks: the presets of docs/rl-replay.md.
std::vector<RlCorrection> ReplayGrid();
Result<RlReplay> ReplayRl(const RlBatch& batch, std::span<const RlCorrection> grid,
                          const RlReplayOptions& options = {});

// The row with the least mean squared error among those that qualify and that `allowed` takes; -1
// if there is none. `reason` gets a sentence about it.
using RlCorrectionTest = std::function<bool(const RlCorrection&)>;
int RecommendRl(const RlReplay& replay, const RlReplayOptions& options,
                const RlCorrectionTest& allowed, std::string* reason);

// What the page says beside the corrections. Empty: nobody looked.
struct RlReplayAnswer {
  std::string unneeded;               // why no correction is needed, which is then the answer
  std::string advised;                // or why one is
  std::string clip;                   // what the gap spends of PPO's epsilon
  std::string framework;              // whose settings follow
  std::vector<std::string> settings;  // one a line
};

// Self-contained.
std::string ReplayHtml(const RlReplay& replay, std::string_view title,
                       const RlReplayAnswer& answer = {});

}  // namespace kcc
