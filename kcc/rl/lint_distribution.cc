// The lines were set on batches of the lab's kernels (bench/rl_lint_engines --tuned) and of made-up
// models (bench/rl_lint_matrix); docs/rl-lint.md has the confusion matrices, of engines that no
// line was set by too.
#include "kcc/rl/lint_distribution.h"

#include <algorithm>
#include <cmath>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr double kOpenMin = 12;       // tokens that neither side is sure of, for a slope
constexpr double kLevelOpenMin = 40;  // and for a level
constexpr double kLevelSlope = 0.04;
constexpr double kDeficitRatio = 2;  // 1 - mean ratio over k3: more than unseen tails explain
constexpr double kMeanRatioOff = 0.004;
constexpr int64_t kRowsMin = 8;  // for a standard error over rows
constexpr double kEven = 0.45;
constexpr double kApart = 0.25;          // of the tokens, where weights differ
constexpr double kKeptMassSpread = 1.5;  // beyond it the weights differ too
// A cut rarely leaves one token where it had less than half of the mass; a temperature near 0 does.
constexpr double kDoubtedShare = 0.05;
constexpr double kNormal99 = 2.326;

// Which side the tokens were drawn from (lint_odds.h).
enum class Drawn { kRollout, kTrain, kUnclear };

// What the likelihood ratio must pass before train is refuted as the sampler. Where the engine drew
// at the trainer's temperature, it drew from its own numbers all the same: the ratio is lower by
// the numerical noise between the two, on average and with that noise's own spread.
double TrainRefuted(const OddsGap& odds) {
  return kLintLikelihood + odds.noise + kNormal99 * std::sqrt(2 * odds.noise);
}

Drawn DrawnFrom(const OddsGap& odds) {
  if (odds.log_likelihood >= kLintLikelihood) return Drawn::kTrain;
  return odds.log_likelihood <= -TrainRefuted(odds) ? Drawn::kRollout : Drawn::kUnclear;
}

RlFinding TemperatureFault(const OddsGap& odds) {
  const double line = odds.log_likelihood < 0 ? -TrainRefuted(odds) : kLintLikelihood;
  std::vector<RlEvidence> evidence = {
      {"slope of the gap in log-odds", odds.slope, odds.slope < 0 ? -kLintSlope : kLintSlope},
      {"that slope in standard errors", odds.slope_z, odds.slope < 0 ? -kLintSlopeZ : kLintSlopeZ},
      {"variance of that gap explained by the slope", odds.explained, kLintExplained},
      {"log-likelihood of train over rollout", odds.log_likelihood, line}};
  const std::string gap = "the gap in log-odds follows the log-odds (slope " +
                          ReadableNumber(odds.slope) + "): train is " +
                          (odds.slope > 0 ? "sharper" : "flatter") + " than rollout, ";
  const double certainty = std::min(LintCertainty(odds.explained, kLintExplained),
                                    LintCertainty(std::fabs(odds.log_likelihood), std::fabs(line)));
  switch (DrawnFrom(odds)) {
    case Drawn::kRollout:
      return LintFinding(RlFault::kTemperature, certainty,
                         gap +
                             "and the tokens were drawn from rollout's numbers: the trainer is "
                             "at another temperature",
                         std::move(evidence));
    case Drawn::kTrain:
      return LintFinding(RlFault::kRawVsProcessed, certainty,
                         gap +
                             "and the tokens were not drawn from rollout's numbers: these are of "
                             "the logits before the temperature",
                         std::move(evidence));
    case Drawn::kUnclear:
      break;
  }
  std::vector<RlFault> candidates = {RlFault::kTemperature, RlFault::kRawVsProcessed};
  if (odds.log_likelihood > 0) std::swap(candidates[0], candidates[1]);
  return LintUnsure(std::move(candidates),
                    gap + "but these tokens do not tell which side they were drawn from",
                    std::move(evidence));
}

// Tokens that are certain after a cut and were not before it.
std::optional<RlFinding> CutFault(const OddsGap& odds, bool tempered) {
  const bool in_rollout = odds.rollout_certain.count >= odds.train_certain.count;
  const CertainTokens& certain = in_rollout ? odds.rollout_certain : odds.train_certain;
  const CertainTokens& other = in_rollout ? odds.train_certain : odds.rollout_certain;
  const auto count = static_cast<double>(certain.count);
  if (count < kLintCertain || 5 * other.count > certain.count) return std::nullopt;
  const RlFault fault = in_rollout ? RlFault::kKeptMass : RlFault::kRawVsProcessed;
  const std::string side = in_rollout ? "rollout" : "train";
  const double doubted = static_cast<double>(certain.doubted) / count;
  std::vector<RlEvidence> evidence = {
      {"tokens certain to " + side + " alone", count, kLintCertain},
      {"share of them with less than half of the mass", doubted, kDoubtedShare}};
  std::string message =
      side + " has log-prob 0 at " + ReadableNumber(count) + " tokens that the other side doubts";
  const bool sloped = tempered && certain.count < 2 * odds.open;
  if (sloped || (certain.doubted > 1 && doubted > kDoubtedShare)) {
    return LintUnsure({fault, RlFault::kTemperature, RlFault::kSentinel},
                      std::move(message) + ", as a cut or a temperature near 0 leaves it",
                      std::move(evidence));
  }
  return LintFinding(fault, LintCertainty(count, kLintCertain),
                     std::move(message) + ": top-p, top-k or min-p cut all else " +
                         (in_rollout ? "before rollout's numbers were taken"
                                     : "in the trainer, but not in rollout's numbers"),
                     std::move(evidence));
}

// Every ratio at most 1 under a cut sampler: the mean ratio is the mass kept.
std::optional<RlFinding> KeptMassFault(const LintFeatures& f) {
  const double deficit = 1 - f.mean_w;
  if (f.rows < kRowsMin || f.odds.spread > kKeptMassSpread || !(f.mean_w_z < -kLintMeanRatioZ) ||
      deficit <= kMeanRatioOff || deficit <= kDeficitRatio * f.k3) {
    return std::nullopt;
  }
  return LintFinding(RlFault::kKeptMass, LintCertainty(-f.mean_w_z, kLintMeanRatioZ),
                     "the mean ratio is " + ReadableNumber(f.mean_w) +
                         ", below 1 by more than the spread explains: the share of probability "
                         "that top-p or top-k kept",
                     {{"mean ratio", f.mean_w, 1},
                      {"its distance from 1 in standard errors", f.mean_w_z, -kLintMeanRatioZ},
                      {"1 - mean ratio, over k3", deficit / f.k3, kDeficitRatio}});
}

}  // namespace

double LintCertainty(double value, double line) {
  if (!(line > 0)) return 1;
  return std::clamp(1 - 0.5 * line / std::max(value, 1e-300), 0.0, 1.0);
}

std::string LintPercent(double share) { return ReadableNumber(100 * share) + " %"; }

RlFinding LintFinding(RlFault fault, double certainty, std::string message,
                      std::vector<RlEvidence> evidence) {
  return {fault, certainty, std::move(message), std::move(evidence), {}};
}

RlFinding LintUnsure(std::vector<RlFault> candidates, std::string message,
                     std::vector<RlEvidence> evidence) {
  std::string names;
  for (size_t i = 0; i < candidates.size(); ++i) {
    names += i == 0 ? "" : i + 1 == candidates.size() ? " or " : ", ";
    names += RlFaultName(candidates[i]);
  }
  RlFinding finding =
      LintFinding(RlFault::kUnsure, 0.5, std::move(message) + ": " + names, std::move(evidence));
  finding.candidates = std::move(candidates);
  return finding;
}

std::optional<RlFinding> FindDistributionFault(const LintFeatures& f) {
  const OddsGap& odds = f.odds;
  const bool tempered = static_cast<double>(odds.open) >= kOpenMin &&
                        std::fabs(odds.slope) > kLintSlope &&
                        std::fabs(odds.slope_z) > kLintSlopeZ && odds.explained > kLintExplained &&
                        odds.level > kLintLevel;
  if (auto found = CutFault(odds, tempered)) return found;
  if (auto found = KeptMassFault(f); found.has_value() && !tempered) return found;
  if (tempered) return TemperatureFault(odds);
  if (odds.spread <= kLintSpread && static_cast<double>(odds.open) >= kLevelOpenMin &&
      odds.level > kLintLevel && std::fabs(odds.level_slope) > kLevelSlope) {
    const RlFault cut = odds.level_slope < 0 ? RlFault::kKeptMass : RlFault::kRawVsProcessed;
    return LintUnsure(
        {cut, RlFault::kTemperature},
        std::string("train is ") + (odds.level_slope < 0 ? "less" : "more") +
            " sure than rollout nearly everywhere, but the gap is no line",
        {{"square of the gap in log-odds explained by a line through 0", odds.level, kLintLevel},
         {"slope of that line", odds.level_slope,
          odds.level_slope < 0 ? -kLevelSlope : kLevelSlope}});
  }
  return std::nullopt;
}

std::optional<RlFinding> FindWeightFault(const LintFeatures& f) {
  if (f.advantage_t > kLintAdvantageT && f.k3 < 4 * kLintOtherWeightsK3) {
    return LintFinding(
        RlFault::kStale, LintCertainty(f.advantage_t, kLintAdvantageT),
        "train moved the way the advantages push (" + ReadableNumber(f.advantage_t) +
            " standard errors of the slope): rollout is of older weights",
        {{"t of the log-ratio's slope on the advantage", f.advantage_t, kLintAdvantageT}});
  }
  const bool large = f.k3 > kLintOtherWeightsK3;
  const bool wide =
      f.odds.spread > kLintSpread && static_cast<double>(f.odds.open) >= kLevelOpenMin;
  if (!large && !wide) return std::nullopt;
  std::vector<RlEvidence> evidence = {
      {"k3", f.k3, kLintOtherWeightsK3},
      {"spread of the gap in log-odds", f.odds.spread, kLintSpread}};
  if (large && f.odds.apart < kApart) {
    evidence.push_back({"tokens whose log-odds are apart", f.odds.apart, kApart});
    return LintUnsure({RlFault::kSentinel, RlFault::kTokenization, RlFault::kStale},
                      "the sides are far apart at a few tokens and agree elsewhere",
                      std::move(evidence));
  }
  if (f.odds.even < 0) {
    return LintUnsure(
        {RlFault::kOtherWeights, RlFault::kRawVsProcessed, RlFault::kTokenization, RlFault::kStale},
        "the sides are further apart than numerics, on too few rows to say more",
        std::move(evidence));
  }
  evidence.push_back({"lower quartile of the rows' gaps over their mean", f.odds.even, kEven});
  if (f.odds.even < kEven) {
    return LintUnsure(
        {RlFault::kTokenization, RlFault::kStale, RlFault::kOtherWeights, RlFault::kRawVsProcessed},
        "the sides are far apart on some rows and agree on others", std::move(evidence));
  }
  if (!large) {
    return LintUnsure(
        {RlFault::kOtherWeights, RlFault::kRawVsProcessed, RlFault::kStale},
        "log-odds differ by " + ReadableNumber(f.odds.spread) + " on every row, more than numerics",
        std::move(evidence));
  }
  return LintFinding(RlFault::kOtherWeights, LintCertainty(f.k3, kLintOtherWeightsK3),
                     "k3 is " + ReadableNumber(f.k3) +
                         " on every row, more than numerics: the sides have other weights",
                     std::move(evidence));
}

}  // namespace kcc
