// The faults that leave every token in its place and change the numbers: another temperature,
// log-probs before or after the sampler's processors, another model. And the answer `unsure`, where
// the tokens show a gap beyond numerics but not which of these it is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kcc/rl/lint.h"
#include "kcc/rl/lint_features.h"

namespace kcc {

// The lines, for the report's list of features as well.
inline constexpr double kLintSlope = 0.05;          // temperatures 5 % apart
inline constexpr double kLintSlopeZ = 5;            // standard errors
inline constexpr double kLintExplained = 0.1;       // of the gap's variance
inline constexpr double kLintLevel = 0.5;           // of the gap's square
inline constexpr double kLintLikelihood = 4.60517;  // log 100: one error in a hundred
inline constexpr double kLintCertain = 3;           // tokens
inline constexpr double kLintMeanRatioZ = 5;
inline constexpr double kLintOtherWeightsK3 = 0.045;
inline constexpr double kLintSpread = 1.15;  // of the gap in log-odds; numerics reach 0.5
inline constexpr double kLintAdvantageT = 5;

// 0.5 at the line, 1 far beyond.
double LintCertainty(double value, double line);
std::string LintPercent(double share);  // "2.5 %"
RlFinding LintFinding(RlFault fault, double certainty, std::string message,
                      std::vector<RlEvidence> evidence);

// The message ends with the candidates' names.
RlFinding LintUnsure(std::vector<RlFault> candidates, std::string message,
                     std::vector<RlEvidence> evidence);

// Of batches without faults of positions and rows.
std::optional<RlFinding> FindDistributionFault(const LintFeatures& features);
// Where FindDistributionFault found none.
std::optional<RlFinding> FindWeightFault(const LintFeatures& features);

}  // namespace kcc
