// Runs recorded tokens through every correction and threshold: what each keeps, how much it
// biases and how noisy it leaves the gradient, by slice, and which to take. Today one trains to
// find out. Thresholds beyond the grid's are searched for in replay_search.h.
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
#include "kcc/rl/training_evidence.h"

namespace kcc {

struct RlReplayRow {
  RlCorrection correction;
  std::vector<RlCorrectionMetrics> metrics;  // of everything, then by slice
  bool pareto = false;                       // none is better in both bias and variance
  // The slice (or everything) that comes nearest to losing all its tokens, and its kept share.
  double kept_min = 1;
  std::string kept_min_slice;
  bool searched = false;  // its threshold was searched for, and is none of the grid's
};

struct RlReplayOptions {
  double kept_min = kRlKeptShareMin;  // of every slice's tokens, by what is recommended
  // A token that a mask gives weight 0 is as lost as a rejected one: the gradient lacks both. Off:
  // rejected ones alone are counted (version 1 of the JSON).
  bool masked_is_lost = true;
  double ess_min = 0.3;  // and has at least this effective sample size
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

// One correction on its own. `pareto` is left open.
Result<RlReplayRow> ReplayOne(const RlBatch& batch, const RlCorrection& correction,
                              const RlReplayOptions& options);

// Why a row cannot be recommended; the first of these that holds.
enum class RlUnfit : uint8_t { kFits, kKeepsTooLittle, kTooThin, kMeanWeightOff };
RlUnfit UnfitOf(const RlReplayRow& row, const RlReplayOptions& options);

// What is made as small as can be: bias^2 + E phi^2 / rows, the mean squared error of the gradient
// in units of (A G)^2 as far as weights decide it (docs/math.md A.7). It orders corrections and
// estimates nothing absolute.
double ReplayScore(const RlReplayRow& row, const RlReplayOptions& options);

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
