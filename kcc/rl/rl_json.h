// What `kcc rl COMMAND --json` prints: version 2 of the RL JSON (docs/rl.md lists the keys and
// those of version 1). The first key is the command's with the version, as everywhere in kcc; keys
// are camelCase; metrics, clauses and verdicts are named as in reports. Names of metrics, faults
// and rules are words of their own language and stay as they are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kcc/rl/conform.h"
#include "kcc/rl/correction.h"
#include "kcc/rl/diagnostics.h"
#include "kcc/rl/dialect.h"
#include "kcc/rl/lint.h"
#include "kcc/rl/lint_settings.h"
#include "kcc/rl/lint_training.h"
#include "kcc/rl/replay.h"
#include "kcc/rl/replay_advice.h"
#include "kcc/rl/rl_metrics.h"

namespace kcc {

inline constexpr int kRlJsonVersion = 2;

// The worst of them: violated before inconclusive before satisfied. There must be one.
RlVerdict WorstVerdict(std::span<const RlClauseVerdict> verdicts);

// metrics: of everything, then by slice. "verdict" is null where there is no clause.
std::string DiagnoseJson(std::span<const RlMetrics> metrics,
                         std::span<const RlClauseVerdict> verdicts);
// settings: null where no correction was given. training: null where it was not looked at.
std::string LintJson(const RlLintReport& report,
                     const std::vector<RlSettingFinding>* settings = nullptr,
                     const std::vector<RlTrainingFinding>* training = nullptr);
std::string DialectsJson();  // every row of dialect_list.h
std::string TranslateJson(const DialectTranslation& translation);
// metrics: of everything, then by slice.
std::string CorrectJson(const RlCorrection& correction,
                        std::span<const RlCorrectionMetrics> metrics);
// advice: null where none was made.
std::string ReplayJson(const RlReplay& replay, const RlReplayAdvice* advice = nullptr);

struct ConformedFile {
  std::string path;
  ConformReport report;
};
std::string ConformJson(std::span<const ConformedFile> files);

}  // namespace kcc
