// What to do with a replay: whether the gap asks for a correction at all, what it spends of PPO's
// clip range, what the kernel's own gap makes of each threshold, and the settings of a framework
// for what is recommended.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"
#include "kcc/rl/clip_budget.h"
#include "kcc/rl/dialect_settings.h"
#include "kcc/rl/own_kernel.h"
#include "kcc/rl/replay.h"

namespace kcc {

struct RlReplayAdvice {
  // False only where k3 is within the strictest published bound on every slice, from enough tokens,
  // and the bias of leaving the gap alone is below the noise of a gradient of this many rows.
  bool correction_needed = true;
  std::string need_reason;
  // What E3 saw of trainings across a gap of this size: with recomputed log-probs it often cost
  // nothing that could be measured, in bypass it did. Decides nothing.
  std::string evidence;
  // Of each row, by rejection rule: its threshold beside the kernel's own values.
  std::vector<std::vector<RlOwnKernel>> own;
  RlClipBudget clip;
  std::string dialect;  // empty: none was asked for
  // Of the settings: the recommended row, or the best that the framework can say; -1: none.
  int row = -1;
  std::optional<DialectSettings> settings;
  std::string settings_reason;  // why the row is another than the recommended, or there is none
};

Result<RlReplayAdvice> AdviseRl(const RlBatch& batch, const RlReplay& replay,
                                const RlReplayOptions& options, double epsilon,
                                std::string_view dialect);

}  // namespace kcc
