// Corrections as words: names, checks, the sentence and the bias expression (docs/math.md A.7).
#include "kcc/rl/correction.h"

#include <cmath>

#include "kcc/base/strings.h"

namespace kcc {

std::string_view RlWeightModeName(RlWeightMode mode) {
  switch (mode) {
    case RlWeightMode::kOff:
      return "off";
    case RlWeightMode::kFull:
      return "full";
    case RlWeightMode::kTruncate:
      return "truncate";
    case RlWeightMode::kClip:
      return "clip";
    case RlWeightMode::kMask:
      return "mask";
  }
  return "";
}

std::string_view RlStatisticName(RlStatistic statistic) {
  switch (statistic) {
    case RlStatistic::kRatio:
      return "ratio";
    case RlStatistic::kK1:
      return "k1";
    case RlStatistic::kK2:
      return "k2";
    case RlStatistic::kK3:
      return "k3";
  }
  return "";
}

std::string_view RlAggregateName(RlAggregate aggregate) {
  switch (aggregate) {
    case RlAggregate::kTokenwise:
      return "token";
    case RlAggregate::kSequenceSum:
      return "sequence_sum";
    case RlAggregate::kSequenceMean:
      return "sequence_mean";
    case RlAggregate::kSequenceMax:
      return "sequence_max";
    case RlAggregate::kSegmentSum:
      return "segment_sum";
  }
  return "";
}

namespace {

std::string BandText(double low, double high) {
  return "[" + ShortestNumber(low) + ", " + ShortestNumber(high) + "]";
}

bool HasBand(RlStatistic statistic) {
  return statistic == RlStatistic::kRatio || statistic == RlStatistic::kK1;
}

std::string DescribeWeight(const RlWeightRule& weight) {
  if (weight.mode == RlWeightMode::kOff) return "weight 1";
  std::string text =
      std::string(RlLevelName(weight.level)) + " " + std::string(RlWeightModeName(weight.mode));
  if (weight.mode == RlWeightMode::kTruncate) text += " at " + ShortestNumber(weight.high);
  if (weight.mode == RlWeightMode::kClip || weight.mode == RlWeightMode::kMask) {
    text += " to " + BandText(weight.low, weight.high);
  }
  if (weight.batch_normalize) text += ", normalised";
  return text;
}

Result<> CheckBounds(std::string_view where, double low, double high) {
  if (!std::isfinite(low) || !std::isfinite(high) || low < 0 || high <= 0 || low > high) {
    return InvalidError(std::string(where) + " has the bounds " + BandText(low, high) +
                        "; 0 <= low <= high and 0 < high are needed");
  }
  return {};
}

}  // namespace

RlAggregate RlAggregateOf(RlLevel level) {
  switch (level) {
    case RlLevel::kToken:
      return RlAggregate::kTokenwise;
    case RlLevel::kSequence:
      return RlAggregate::kSequenceSum;
    case RlLevel::kGeometric:
      return RlAggregate::kSequenceMean;
    case RlLevel::kSegment:
      return RlAggregate::kSegmentSum;
  }
  return RlAggregate::kTokenwise;
}

std::string DescribeCorrection(const RlCorrection& correction) {
  std::string text = DescribeWeight(correction.weight);
  for (const RlRejectRule& rule : correction.reject) {
    std::string aggregate(RlAggregateName(rule.aggregate));
    for (char& c : aggregate) c = c == '_' ? ' ' : c;
    text += "; reject by " + aggregate + " " + std::string(RlStatisticName(rule.statistic));
    text += HasBand(rule.statistic) ? " outside " + BandText(rule.low, rule.high)
                                    : " above " + ShortestNumber(rule.high);
  }
  if (correction.veto.has_value()) {
    text += "; veto below " + ShortestNumber(correction.veto->low);
    if (correction.veto->high > 0) text += " or above " + ShortestNumber(correction.veto->high);
  }
  return text;
}

RlCorrection PaperCorrection(double eps) {
  RlCorrection correction;
  correction.name = "w-hat";
  correction.weight.mode = RlWeightMode::kClip;
  correction.weight.low = 1 - eps;
  correction.weight.high = 1 + eps;
  return correction;
}

Result<> CheckCorrection(const RlCorrection& correction) {
  const RlWeightRule& weight = correction.weight;
  if (weight.mode == RlWeightMode::kTruncate) {
    KCC_TRY_VOID(CheckBounds("weight", 0, weight.high));
  } else if (weight.mode == RlWeightMode::kClip || weight.mode == RlWeightMode::kMask) {
    KCC_TRY_VOID(CheckBounds("weight", weight.low, weight.high));
  }
  for (const RlRejectRule& rule : correction.reject) {
    const std::string where = "reject by " + std::string(RlAggregateName(rule.aggregate)) + " " +
                              std::string(RlStatisticName(rule.statistic));
    KCC_TRY_VOID(CheckBounds(where, HasBand(rule.statistic) ? rule.low : 0, rule.high));
  }
  if (correction.veto.has_value()) {
    const RlVeto& veto = *correction.veto;
    KCC_TRY_VOID(CheckBounds("veto", veto.low, veto.high > 0 ? veto.high : veto.low + 1));
  }
  return {};
}

std::string BiasExpression(const RlCorrection& correction) {
  const RlWeightRule& rule = correction.weight;
  const bool rejects = !correction.reject.empty() || correction.veto.has_value();
  if (rejects) return "A G E|w - phi 1{kept}|";
  if (rule.batch_normalize) return "A G E|w - phi/mean(phi)|";
  if (rule.level == RlLevel::kGeometric || rule.level == RlLevel::kSegment) {
    if (rule.mode != RlWeightMode::kOff) return "A G E|w - phi|";
  }
  const std::string w = rule.level == RlLevel::kSequence ? "W" : "w";
  const std::string scale = rule.level == RlLevel::kSequence ? "A G_seq " : "A G ";
  const std::string low = ShortestNumber(rule.low);
  const std::string high = ShortestNumber(rule.high);
  switch (rule.mode) {
    case RlWeightMode::kOff:
      return "2 A G TV";
    case RlWeightMode::kFull:
      return "0";
    case RlWeightMode::kTruncate:
      return scale + "E(" + w + " - " + high + ")+";
    case RlWeightMode::kClip:
      return scale + "(E(" + w + " - " + high + ")+ + E(" + low + " - " + w + ")+)";
    case RlWeightMode::kMask:
      return scale + "P_train(" + w + " outside [" + low + ", " + high + "])";
  }
  return "";
}

}  // namespace kcc
