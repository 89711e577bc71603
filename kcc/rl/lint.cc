// LintRl: the decision, from the plainest fault to the subtlest. The lines of faults of positions
// and rows were set on synthetic faults (bench/rl_lint_matrix.cc); docs/rl-lint.md has the
// confusion matrices.
#include "kcc/rl/lint.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kcc/base/strings.h"
#include "kcc/rl/lint_distribution.h"
#include "kcc/rl/lint_features.h"

namespace kcc {
namespace {

constexpr double kVacuousShare = 0.9999;
constexpr double kLagGain = 0.2;      // correlation that a lag must win over lag 0
constexpr double kLagGapRatio = 0.5;  // and how much smaller its gap must be
constexpr double kRowShare = 0.02;    // rows that must show a fault of rows
constexpr double kUnrelatedShare = 0.1;

std::optional<RlFinding> FindSentinelFault(const LintFeatures& f) {
  if (!f.sentinel.has_value()) return std::nullopt;
  const Sentinel& s = *f.sentinel;
  return LintFinding(
      RlFault::kSentinel, LintCertainty(s.mean_gap, 1),
      std::string(s.in_rollout ? "rollout" : "train") + " is exactly " + ShortestNumber(s.value) +
          " at " + LintPercent(s.share) + " of the tokens, where the other side differs by " +
          ReadableNumber(s.mean_gap) + " on average",
      {{"share of a repeated value", s.share, 2e-4}, {"mean gap there", s.mean_gap, 1}});
}

std::optional<RlFinding> FindShift(const LintFeatures& f) {
  const size_t best = f.lag[0] > f.lag[2] ? 0 : 2;
  if (f.lag[best] < f.lag[1] + kLagGain || f.lag_gap[best] > kLagGapRatio * f.lag_gap[1]) {
    return std::nullopt;
  }
  return LintFinding(RlFault::kShift, LintCertainty(f.lag[best] - f.lag[1], kLagGain),
                     std::string("train agrees with rollout one position ") +
                         (best == 0 ? "earlier" : "later") + ": correlation " +
                         ReadableNumber(f.lag[best]) + " there, " + ReadableNumber(f.lag[1]) +
                         " as given",
                     {{"correlation shifted", f.lag[best], f.lag[1] + kLagGain},
                      {"mean gap shifted", f.lag_gap[best], kLagGapRatio * f.lag_gap[1]}});
}

std::optional<RlFinding> FindRowFault(const LintFeatures& f) {
  if (f.break_share >= kRowShare && f.break_share >= f.unrelated_share) {
    return LintFinding(RlFault::kTokenization, LintCertainty(f.break_share, kRowShare),
                       LintPercent(f.break_share) +
                           " of the rows agree up to a position and disagree from there on",
                       {{"rows that break", f.break_share, kRowShare}});
  }
  // A row that breaks at its beginning looks unrelated.
  if (f.unrelated_share >= kRowShare && f.unrelated_share < kUnrelatedShare) {
    return LintUnsure(
        {RlFault::kStale, RlFault::kTokenization},
        LintPercent(f.unrelated_share) + " of the rows have two sides that are unrelated",
        {{"unrelated rows", f.unrelated_share, kUnrelatedShare}});
  }
  if (f.unrelated_share >= kUnrelatedShare) {
    return LintFinding(
        RlFault::kStale, LintCertainty(f.unrelated_share, kUnrelatedShare),
        LintPercent(f.unrelated_share) +
            " of the rows have two sides that are unrelated: they are not of the same "
            "samples",
        {{"unrelated rows", f.unrelated_share, kUnrelatedShare}});
  }
  return std::nullopt;
}

std::vector<RlEvidence> AllFeatures(const LintFeatures& f) {
  const auto number = [](int64_t count) { return static_cast<double>(count); };
  return {{"tokens", number(f.tokens), 0},
          {"share of equal log-probs", f.equal_share, kVacuousShare},
          {"mean |log ratio|", f.mean_abs_d, 0},
          {"correlation one earlier", f.lag[0], 0},
          {"correlation", f.lag[1], 0},
          {"correlation one later", f.lag[2], 0},
          {"rows that break", f.break_share, kRowShare},
          {"unrelated rows", f.unrelated_share, kUnrelatedShare},
          {"slope of train on rollout", f.slope, 1},
          {"variance of d explained by rollout", f.explained, 0},
          {"mean ratio", f.mean_w, 1},
          {"mean ratio's distance from 1 in standard errors", f.mean_w_z, kLintMeanRatioZ},
          {"low tail of the log-ratio", f.low_tail, 0},
          {"high tail of the log-ratio", f.high_tail, 0},
          {"tokens that neither side is sure of", number(f.odds.open), 0},
          {"slope of the gap in log-odds", f.odds.slope, kLintSlope},
          {"that slope in standard errors", f.odds.slope_z, kLintSlopeZ},
          {"variance of that gap explained by the slope", f.odds.explained, kLintExplained},
          {"square of that gap explained by a line through 0", f.odds.level, kLintLevel},
          {"slope of that line", f.odds.level_slope, 0},
          {"spread of that gap", f.odds.spread, kLintSpread},
          {"tokens whose log-odds are apart", f.odds.apart, 0},
          {"lower quartile of the rows' gaps over their mean", f.odds.even, 0},
          {"log-likelihood of train over rollout", f.odds.log_likelihood, kLintLikelihood},
          {"nats of it that are noise", f.odds.noise, 0},
          {"tokens certain to rollout alone", number(f.odds.rollout_certain.count), kLintCertain},
          {"tokens certain to train alone", number(f.odds.train_certain.count), kLintCertain},
          {"k3", f.k3, kLintOtherWeightsK3},
          {"t of the log-ratio's slope on the advantage", f.advantage_t, kLintAdvantageT}};
}

}  // namespace

std::string_view RlFaultName(RlFault fault) {
  switch (fault) {
    case RlFault::kNone:
      return "none";
    case RlFault::kTemperature:
      return "temperature";
    case RlFault::kRawVsProcessed:
      return "raw_vs_processed";
    case RlFault::kKeptMass:
      return "kept_mass";
    case RlFault::kShift:
      return "shift";
    case RlFault::kTokenization:
      return "tokenization";
    case RlFault::kOtherWeights:
      return "other_weights";
    case RlFault::kStale:
      return "stale";
    case RlFault::kSentinel:
      return "sentinel";
    case RlFault::kEverythingMasked:
      return "everything_masked";
    case RlFault::kVacuous:
      return "vacuous";
    case RlFault::kUnsure:
      return "unsure";
  }
  return "";
}

std::string_view RlFaultAdvice(RlFault fault) {
  switch (fault) {
    case RlFault::kNone:
      return "nothing to do";
    case RlFault::kTemperature:
      return "divide the trainer's logits by the sampling temperature before its log-softmax";
    case RlFault::kRawVsProcessed:
      return "have the engine return log-probs after its processors (vLLM: processed_logprobs)";
    case RlFault::kKeptMass:
      return "sample without top-p and top-k, or apply the engine's sampling mask in the trainer";
    case RlFault::kShift:
      return "align the arrays: position t must be the log-prob of token t on both sides";
    case RlFault::kTokenization:
      return "give the trainer the engine's token ids instead of tokenising its text again";
    case RlFault::kOtherWeights:
      return "check that the engine loaded the trainer's checkpoint, layout and quantisation";
    case RlFault::kStale:
      return "check the weight update and that both arrays are of the same step and samples";
    case RlFault::kSentinel:
      return "mask the tokens without a log-prob instead of filling in a number";
    case RlFault::kEverythingMasked:
      return "loosen the mask: no token is left to learn from";
    case RlFault::kVacuous:
      return "compare with log-probs that the trainer recomputed; here nothing is compared";
    case RlFault::kUnsure:
      return "change nothing on this alone: more tokens, or full logits of both sides (kcc run), "
             "tell";
  }
  return "";
}

bool RlFinding::MayBe(RlFault wanted) const {
  return std::find(candidates.begin(), candidates.end(), wanted) != candidates.end();
}

Result<RlLintReport> LintRl(const RlBatch& batch) {
  KCC_TRY(const LintFeatures f, ComputeLintFeatures(batch));
  RlLintReport report;
  report.tokens = f.tokens;
  report.features = AllFeatures(f);
  if (f.tokens == 0) {
    report.findings.push_back(
        LintFinding(RlFault::kEverythingMasked, 1, "the mask leaves no token", {{"tokens", 0, 1}}));
    return report;
  }
  if (f.equal_share >= kVacuousShare) {
    report.findings.push_back(LintFinding(
        RlFault::kVacuous, 1,
        "the two sides are equal at " + LintPercent(f.equal_share) +
            " of the tokens: unless the kernels are bitwise equal, one array was copied",
        {{"share of equal log-probs", f.equal_share, kVacuousShare}}));
    return report;
  }
  // A fault of positions makes nonsense of all that follows: it ends the search.
  if (auto found = FindShift(f)) {
    report.findings.push_back(std::move(*found));
    return report;
  }
  if (auto found = FindSentinelFault(f)) report.findings.push_back(std::move(*found));
  if (auto found = FindRowFault(f)) report.findings.push_back(std::move(*found));
  if (!report.findings.empty()) return report;
  if (auto found = FindDistributionFault(f)) {
    report.findings.push_back(std::move(*found));
    return report;
  }
  if (auto found = FindWeightFault(f)) report.findings.push_back(std::move(*found));
  return report;
}

}  // namespace kcc
