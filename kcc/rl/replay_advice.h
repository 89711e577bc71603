// What to do with a replay: whether the gap asks for a correction at all, what it spends of PPO's
// clip range, and the settings of a framework for what is recommended.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kcc/base/result.h"
#include "kcc/rl/batch.h"
#include "kcc/rl/clip_budget.h"
#include "kcc/rl/dialect_settings.h"
#include "kcc/rl/replay.h"

namespace kcc {

struct RlReplayAdvice {
  // False only where k3 is within the strictest published bound on every slice, from enough tokens,
  // and the bias of leaving the gap alone is below the noise of a gradient of this many rows.
  bool correction_needed = true;
  std::string need_reason;
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
