// LintRl: the decision, from the plainest fault to the subtlest. The lines were set on synthetic
// faults (bench/rl_lint_matrix.cc); docs/rl-lint.md has the confusion matrix.
#include "kcc/rl/lint.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kcc/base/json_writer.h"
#include "kcc/base/strings.h"
#include "kcc/rl/lint_features.h"
#include "kcc/rl/lint_settings.h"

namespace kcc {
namespace {

constexpr double kVacuousShare = 0.9999;
constexpr double kLagGain = 0.2;      // correlation that a lag must win over lag 0
constexpr double kLagGapRatio = 0.5;  // and how much smaller its gap must be
constexpr double kRowShare = 0.02;    // rows that must show a fault of rows
constexpr double kExplained = 0.12;   // variance of d that a temperature explains at least
constexpr double kSlopeOff = 0.025;
constexpr double kMeanRatioZ = 5;
constexpr double kDeficitRatio = 2;  // 1 - mean ratio over k3: more than unseen tails explain
constexpr double kMeanRatioOff = 0.004;
constexpr double kOtherWeightsK3 = 0.045;
constexpr double kAdvantageT = 5;

double Certainty(double value, double line) {
  if (!(line > 0)) return 1;
  return std::clamp(1 - 0.5 * line / std::max(value, 1e-300), 0.0, 1.0);
}

std::string Percent(double share) { return ReadableNumber(100 * share) + " %"; }

RlFinding Finding(RlFault fault, double certainty, std::string message,
                  std::vector<RlEvidence> evidence) {
  return {fault, certainty, std::move(message), std::move(evidence)};
}

std::optional<RlFinding> FindSentinelFault(const LintFeatures& f) {
  if (!f.sentinel.has_value()) return std::nullopt;
  const Sentinel& s = *f.sentinel;
  return Finding(RlFault::kSentinel, Certainty(s.mean_gap, 1),
                 std::string(s.in_rollout ? "rollout" : "train") + " is exactly " +
                     ShortestNumber(s.value) + " at " + Percent(s.share) +
                     " of the tokens, where the other side differs by " +
                     ReadableNumber(s.mean_gap) + " on average",
                 {{"share of a repeated value", s.share, 2e-4}, {"mean gap there", s.mean_gap, 1}});
}

std::optional<RlFinding> FindShift(const LintFeatures& f) {
  const size_t best = f.lag[0] > f.lag[2] ? 0 : 2;
  if (f.lag[best] < f.lag[1] + kLagGain || f.lag_gap[best] > kLagGapRatio * f.lag_gap[1]) {
    return std::nullopt;
  }
  return Finding(RlFault::kShift, Certainty(f.lag[best] - f.lag[1], kLagGain),
                 std::string("train agrees with rollout one position ") +
                     (best == 0 ? "earlier" : "later") + ": correlation " +
                     ReadableNumber(f.lag[best]) + " there, " + ReadableNumber(f.lag[1]) +
                     " as given",
                 {{"correlation shifted", f.lag[best], f.lag[1] + kLagGain},
                  {"mean gap shifted", f.lag_gap[best], kLagGapRatio * f.lag_gap[1]}});
}

std::optional<RlFinding> FindRowFault(const LintFeatures& f) {
  if (f.break_share >= kRowShare && f.break_share >= f.unrelated_share) {
    return Finding(
        RlFault::kTokenization, Certainty(f.break_share, kRowShare),
        Percent(f.break_share) + " of the rows agree up to a position and disagree from there on",
        {{"rows that break", f.break_share, kRowShare}});
  }
  if (f.unrelated_share >= kRowShare) {
    return Finding(RlFault::kStale, Certainty(f.unrelated_share, kRowShare),
                   Percent(f.unrelated_share) +
                       " of the rows have two sides that are unrelated: they are not of the same "
                       "samples",
                   {{"unrelated rows", f.unrelated_share, kRowShare}});
  }
  return std::nullopt;
}

// What separates the three: under a cut sampler every ratio is at most 1; if the engine's numbers
// are what it sampled from, the mean ratio is 1 whatever the temperature.
std::optional<RlFinding> FindDistributionFault(const LintFeatures& f) {
  const RlEvidence mean = {"mean ratio", f.mean_w, 1};
  const RlEvidence z = {"its distance from 1 in standard errors", f.mean_w_z, kMeanRatioZ};
  const double deficit = 1 - f.mean_w;
  if (f.mean_w_z < -kMeanRatioZ && deficit > kMeanRatioOff && deficit > kDeficitRatio * f.k3) {
    return Finding(RlFault::kKeptMass, Certainty(-f.mean_w_z, kMeanRatioZ),
                   "the mean ratio is " + ReadableNumber(f.mean_w) +
                       ", below 1 by more than the spread explains: the share of probability that "
                       "top-p or top-k kept",
                   {mean, z, {"1 - mean ratio, over k3", deficit / f.k3, kDeficitRatio}});
  }
  const RlEvidence slope = {"slope of train on rollout", f.slope, 1};
  const RlEvidence explained = {"variance of d explained by rollout", f.explained, kExplained};
  const bool bent = f.explained > kExplained && std::fabs(f.slope - 1) > kSlopeOff;
  if (bent && f.mean_w_z > kMeanRatioZ && f.mean_w > 1 + kMeanRatioOff) {
    return Finding(RlFault::kRawVsProcessed, Certainty(f.mean_w_z, kMeanRatioZ),
                   "the gap follows the log-prob (slope " + ReadableNumber(f.slope) +
                       ") and the mean ratio is " + ReadableNumber(f.mean_w) +
                       ", not 1: rollout's log-probs are not of the distribution it sampled from",
                   {slope, explained, mean, z});
  }
  if (bent) {
    return Finding(RlFault::kTemperature, Certainty(f.explained, kExplained),
                   "the gap follows the log-prob (slope " + ReadableNumber(f.slope) +
                       ") with mean ratio " + ReadableNumber(f.mean_w) +
                       ": one side is at another temperature",
                   {slope, explained, mean});
  }
  return std::nullopt;
}

std::optional<RlFinding> FindWeightFault(const LintFeatures& f) {
  if (f.advantage_t > kAdvantageT && f.k3 < 4 * kOtherWeightsK3) {
    return Finding(RlFault::kStale, Certainty(f.advantage_t, kAdvantageT),
                   "train moved the way the advantages push (" + ReadableNumber(f.advantage_t) +
                       " standard errors of the slope): rollout is of older weights",
                   {{"t of the log-ratio's slope on the advantage", f.advantage_t, kAdvantageT}});
  }
  if (f.k3 > kOtherWeightsK3) {
    return Finding(RlFault::kOtherWeights, Certainty(f.k3, kOtherWeightsK3),
                   "k3 is " + ReadableNumber(f.k3) +
                       " on every row, more than numerics: the sides have other weights",
                   {{"k3", f.k3, kOtherWeightsK3}});
  }
  return std::nullopt;
}

std::vector<RlEvidence> AllFeatures(const LintFeatures& f) {
  return {{"tokens", static_cast<double>(f.tokens), 0},
          {"share of equal log-probs", f.equal_share, kVacuousShare},
          {"mean |log ratio|", f.mean_abs_d, 0},
          {"correlation one earlier", f.lag[0], 0},
          {"correlation", f.lag[1], 0},
          {"correlation one later", f.lag[2], 0},
          {"rows that break", f.break_share, kRowShare},
          {"unrelated rows", f.unrelated_share, kRowShare},
          {"slope of train on rollout", f.slope, 1},
          {"variance of d explained by rollout", f.explained, kExplained},
          {"mean ratio", f.mean_w, 1},
          {"mean ratio's distance from 1 in standard errors", f.mean_w_z, kMeanRatioZ},
          {"low tail of the log-ratio", f.low_tail, 0},
          {"high tail of the log-ratio", f.high_tail, 0},
          {"k3", f.k3, kOtherWeightsK3},
          {"t of the log-ratio's slope on the advantage", f.advantage_t, kAdvantageT}};
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
  }
  return "";
}

Result<RlLintReport> LintRl(const RlBatch& batch) {
  KCC_TRY(const LintFeatures f, ComputeLintFeatures(batch));
  RlLintReport report;
  report.tokens = f.tokens;
  report.features = AllFeatures(f);
  if (f.tokens == 0) {
    report.findings.push_back(
        Finding(RlFault::kEverythingMasked, 1, "the mask leaves no token", {{"tokens", 0, 1}}));
    return report;
  }
  if (f.equal_share >= kVacuousShare) {
    report.findings.push_back(
        Finding(RlFault::kVacuous, 1,
                "the two sides are equal at " + Percent(f.equal_share) +
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

namespace {

void WriteEvidence(const std::vector<RlEvidence>& evidence, JsonWriter* json) {
  json->Key("evidence").BeginArray();
  for (const RlEvidence& e : evidence) {
    json->BeginObject().Field("name", e.name).Field("value", e.value).Field("line", e.line);
    json->EndObject();
  }
  json->EndArray();
}

void WriteReport(const RlLintReport& report, JsonWriter* to) {
  JsonWriter& json = *to;
  json.Field("tokens", report.tokens);
  json.Key("findings").BeginArray();
  for (const RlFinding& finding : report.findings) {
    json.BeginObject().Field("fault", RlFaultName(finding.fault));
    json.Field("confidence", finding.confidence).Field("message", finding.message);
    json.Field("advice", RlFaultAdvice(finding.fault));
    WriteEvidence(finding.evidence, &json);
    json.EndObject();
  }
  json.EndArray();
  json.Key("features").BeginObject();
  for (const RlEvidence& e : report.features) json.Field(e.name, e.value);
  json.EndObject();
}

}  // namespace

std::string LintJson(const RlLintReport& report) {
  JsonWriter json;
  json.BeginObject();
  WriteReport(report, &json);
  json.EndObject();
  return json.Take();
}

std::string LintJson(const RlLintReport& report, const std::vector<RlSettingFinding>& settings) {
  JsonWriter json;
  json.BeginObject();
  WriteReport(report, &json);
  json.Key("settings").BeginArray();
  for (const RlSettingFinding& finding : settings) {
    json.BeginObject().Field("setting", finding.setting);
    json.Field("fault", RlSettingFaultName(finding.fault)).Field("note", finding.is_note());
    json.Field("message", finding.message);
    WriteEvidence(finding.evidence, &json);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Take();
}

}  // namespace kcc
