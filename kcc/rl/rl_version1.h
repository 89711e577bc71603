// The RL texts of the C interface: version 1 of the RL JSON, in its own words (figure, limit,
// outcome; keys_like_this), byte for byte what programs compiled against kcc.h have always read
// (tests/capi/test_rl_version1.py). The program prints version 2 (rl_json.h); docs/rl.md maps the
// one to the other. The replay page reads version 1 too: kcc_rl_replay gives it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kcc/rl/correction.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/lint.h"
#include "kcc/rl/lint_settings.h"
#include "kcc/rl/replay.h"
#include "kcc/rl/rl_metrics.h"

namespace kcc::rl_version1 {

// {"tokens": …, "token": {"k1": …}, …}.
std::string FiguresJson(const RlMetrics& figures);
// [{"figure", "atMost" or "atLeast", "outcome", "value", "interval", "certified", "why"}].
std::string JudgementsJson(std::span<const RlClauseVerdict> verdicts);
// [{"slice", "tokens", "tokens_kept", …}], of everything first.
std::string CorrectionFiguresJson(std::span<const RlCorrectionMetrics> figures);
// {"tokens", "findings", "features"}; with settings also "settings".
std::string LintJson(const RlLintReport& report,
                     const std::vector<RlSettingFinding>* settings = nullptr);
std::string ReplayJson(const RlReplay& replay);

}  // namespace kcc::rl_version1
