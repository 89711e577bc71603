#include "kcc/rl/lint_settings.h"

#include <cmath>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

constexpr double kAlwaysShare = 0.99;

// One rule of a correction, alone.
struct Part {
  std::string setting;
  RlCorrection alone;
  double low = 0, high = 0;  // of w; high 0: none
  bool bounds_ratio = true;  // else `high` bounds a divergence
  RlLevel level = RlLevel::kToken;
  bool is_weight = false;
};

RlLevel LevelOf(RlAggregate aggregate) {
  switch (aggregate) {
    case RlAggregate::kSequenceSum:
      return RlLevel::kSequence;
    case RlAggregate::kSequenceMean:
      return RlLevel::kGeometric;
    case RlAggregate::kSegmentSum:
      return RlLevel::kSegment;
    default:
      return RlLevel::kToken;
  }
}

std::vector<Part> PartsOf(const RlCorrection& correction) {
  std::vector<Part> parts;
  const RlWeightRule& weight = correction.weight;
  if (weight.mode != RlWeightMode::kOff && weight.mode != RlWeightMode::kFull) {
    Part part;
    part.setting = "weight";
    part.alone.weight = weight;
    part.low = weight.mode == RlWeightMode::kTruncate ? 0 : weight.low;
    part.high = weight.high;
    part.level = weight.level;
    part.is_weight = true;
    parts.push_back(std::move(part));
  }
  for (size_t i = 0; i < correction.reject.size(); ++i) {
    const RlRejectRule& rule = correction.reject[i];
    Part part;
    part.setting = "reject[" + std::to_string(i) + "]";
    part.alone.reject = {rule};
    part.bounds_ratio = rule.statistic == RlStatistic::kRatio || rule.statistic == RlStatistic::kK1;
    part.low = rule.low;
    part.high = rule.high;
    if (rule.statistic == RlStatistic::kK1) {  // its band is of 1/w
      part.low = 1 / rule.high;
      part.high = rule.low > 0 ? 1 / rule.low : 0;
    }
    part.level = LevelOf(rule.aggregate);
    parts.push_back(std::move(part));
  }
  if (correction.veto.has_value()) {
    Part part;
    part.setting = "veto";
    part.alone.veto = correction.veto;
    part.low = correction.veto->low;
    part.high = correction.veto->high;
    parts.push_back(std::move(part));
  }
  return parts;
}

std::string Bounds(const Part& part) {
  if (!part.bounds_ratio) return "at most " + ShortestNumber(part.high);
  if (part.high == 0) return "w at least " + ShortestNumber(part.low);
  if (part.low == 0) return "w at most " + ShortestNumber(part.high);
  return "w in [" + ReadableNumber(part.low) + ", " + ReadableNumber(part.high) + "]";
}

bool ExcludesOne(const Part& part) {
  return part.bounds_ratio && (part.low > 1 || (part.high > 0 && part.high < 1));
}

std::string Share(int64_t part, int64_t all) {
  return std::to_string(part) + " of " + std::to_string(all);
}

RlSettingFinding Finding(const Part& part, RlSettingFault fault, std::string message,
                         std::vector<RlEvidence> evidence) {
  return {part.setting, fault, std::move(message), std::move(evidence)};
}

// The range of w that the batch shows, beside the bounds.
std::vector<RlEvidence> Seen(const Part& part, const RlLevelMetrics& level) {
  if (!part.bounds_ratio)
    return {{"largest |log w| seen", std::max(-level.log_ratio_min, level.log_ratio_max), 0}};
  std::vector<RlEvidence> seen;
  if (part.low > 0) seen.push_back({"smallest w seen", std::exp(level.log_ratio_min), part.low});
  if (part.high > 0) seen.push_back({"largest w seen", std::exp(level.log_ratio_max), part.high});
  return seen;
}

// How a rule treats the batch: units of the weight's level, or tokens that a rejection takes.
void JudgePart(const Part& part, const RlMetrics& seen,
               const std::vector<RlCorrectionMetrics>& metrics,
               std::vector<RlSettingFinding>* findings) {
  const RlCorrectionMetrics& all = metrics[0];
  const RlLevelMetrics& level = seen.at(part.level);
  const int64_t acted = part.is_weight ? all.units_outside : all.tokens - all.tokens_kept;
  const int64_t units = part.is_weight ? level.units : all.tokens;
  const std::string name =
      part.is_weight ? std::string(RlLevelName(part.level)) + " weights" : std::string("tokens");
  std::vector<RlEvidence> evidence = Seen(part, level);
  evidence.push_back({"share acted on", static_cast<double>(acted) / static_cast<double>(units),
                      acted == 0 ? 0 : kAlwaysShare});
  if (!part.is_weight && all.everything_rejected()) {
    findings->push_back(Finding(
        part, RlSettingFault::kRejectsEverything,
        "keeps " + Bounds(part) + ", which rejects all " + std::to_string(all.tokens) + " tokens",
        std::move(evidence)));
  } else if (ExcludesOne(part)) {
    findings->push_back(Finding(part, RlSettingFault::kExcludesOne,
                                "keeps " + Bounds(part) + ", which leaves out w = 1: it acts on " +
                                    Share(acted, units) + " " + name +
                                    ", also where the two sides agree",
                                std::move(evidence)));
  } else if (static_cast<double>(acted) >= kAlwaysShare * static_cast<double>(units)) {
    findings->push_back(
        Finding(part, RlSettingFault::kAlwaysActs,
                "keeps " + Bounds(part) + " and so acts on " + Share(acted, units) + " " + name,
                std::move(evidence)));
  } else if (acted == 0) {
    findings->push_back(Finding(part, RlSettingFault::kNeverActs,
                                "keeps " + Bounds(part) + ", as all of the " +
                                    std::to_string(units) + " " + name +
                                    " are: it does nothing here",
                                std::move(evidence)));
  }
}

void JudgeWhole(const std::vector<RlCorrectionMetrics>& metrics,
                std::vector<RlSettingFinding>* findings) {
  const auto evidence = [](const RlCorrectionMetrics& f) {
    return std::vector<RlEvidence>{{"tokens kept", static_cast<double>(f.tokens_kept), 1},
                                   {"tokens", static_cast<double>(f.tokens), 0}};
  };
  if (metrics[0].everything_rejected()) {
    for (const RlSettingFinding& finding : *findings) {
      if (finding.fault == RlSettingFault::kRejectsEverything) return;  // one rule does it alone
    }
    findings->push_back({"correction", RlSettingFault::kRejectsEverything,
                         "rejects all " + std::to_string(metrics[0].tokens) +
                             " tokens: nothing is left to learn from",
                         evidence(metrics[0])});
    return;
  }
  for (size_t i = 1; i < metrics.size(); ++i) {
    if (!metrics[i].everything_rejected()) continue;
    findings->push_back({"correction", RlSettingFault::kRejectsSlice,
                         "rejects all " + std::to_string(metrics[i].tokens) +
                             " tokens of the slice \"" + metrics[i].slice + "\"",
                         evidence(metrics[i])});
  }
}

}  // namespace

std::string_view RlSettingFaultName(RlSettingFault fault) {
  switch (fault) {
    case RlSettingFault::kExcludesOne:
      return "excludes_one";
    case RlSettingFault::kAlwaysActs:
      return "always_acts";
    case RlSettingFault::kRejectsEverything:
      return "rejects_everything";
    case RlSettingFault::kRejectsSlice:
      return "rejects_slice";
    case RlSettingFault::kNeverActs:
      return "never_acts";
  }
  return "";
}

Result<std::vector<RlSettingFinding>> LintCorrection(const RlBatch& batch,
                                                     const RlCorrection& correction, int threads) {
  KCC_TRY_VOID(CheckCorrection(correction));
  KCC_TRY(const RlMetrics seen, DiagnoseRl(batch, {}, threads));
  std::vector<RlSettingFinding> findings;
  if (seen.tokens == 0) return findings;
  for (const Part& part : PartsOf(correction)) {
    KCC_TRY(const auto alone, CorrectRl(batch, part.alone, {}, threads));
    JudgePart(part, seen, alone, &findings);
  }
  KCC_TRY(const auto together, CorrectRl(batch, correction, {}, threads));
  JudgeWhole(together, &findings);
  return findings;
}

}  // namespace kcc
