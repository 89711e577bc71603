#include "apps/kcc/metric_words.h"

#include "kcc/base/strings.h"

namespace kcc::cli {
namespace {

std::string QuantityName(const Metric& metric) {
  return (metric.side == Side::kTrain ? "train_" : "") + std::string(metric.quantity->id);
}

std::string_view PluralUnit(QuantityLevel level) {
  return level == QuantityLevel::kToken ? "tokens" : "requests";
}

// p001 is the 0.1th percentile, p999 the 99.9th.
std::string PercentileWords(int ppm) {
  const std::string number = ShortestNumber(static_cast<double>(ppm) / 10000.0);
  return (number == "1" ? "1st" : number + "th") + " percentile";
}

}  // namespace

std::string MetricWords(const Metric& metric) {
  std::string name = QuantityName(metric);
  const std::string over = " over the " + std::string(PluralUnit(metric.quantity->level));
  switch (metric.aggregate) {
    case Aggregate::kNone:
      return name;
    case Aggregate::kMean:
      return "the mean of " + name + over;
    case Aggregate::kMax:
      return "the largest " + name + over;
    case Aggregate::kMin:
      return "the smallest " + name + over;
    case Aggregate::kRate:
      return "the share of " + std::string(PluralUnit(metric.quantity->level)) + " whose " + name +
             " is not 0";
    case Aggregate::kP50:
      return "the median of " + name + over;
    default:
      return "the " + PercentileWords(PercentilePpm(metric.aggregate)) + " of " + name + over;
  }
}

std::string QuantityWords(const Quantity& quantity, Side side) {
  std::string text = side == Side::kTrain ? "train_" : "";
  text.append(quantity.id);
  if (quantity.level == QuantityLevel::kPopulation) {
    text += ", one number per slice";
  } else {
    text.append(", per ").append(Name(quantity.level));
  }
  if (quantity.unit != Unit::kPure) text.append(", in ").append(Name(quantity.unit));
  if (quantity.sided) {
    text += side == Side::kTrain ? ", of the training kernel" : ", of the inference kernel";
  }
  return text.append(": ").append(quantity.definition);
}

std::string EvidenceWords(const Quantity& quantity) {
  switch (quantity.evidence) {
    case EvidenceNeeded::kLogits:
      return "full logits of both kernels; top-k lists give an interval";
    case EvidenceNeeded::kSampledToken:
      return "the log-prob of the sampled token under both kernels";
    case EvidenceNeeded::kGold:
      return "full logits of both kernels and a gold token";
    case EvidenceNeeded::kOutputs:
      return "the tokens of both kernels' generated traces";
    case EvidenceNeeded::kRequestFields:
    case EvidenceNeeded::kTokenFields:
      break;
  }
  if (quantity.fields.empty()) return "the request fields that the clause lists";
  std::string text = quantity.evidence == EvidenceNeeded::kTokenFields
                         ? "the token and request field"
                         : "the request field";
  text += quantity.fields.find(' ') == std::string_view::npos ? " " : "s ";
  for (const char c : quantity.fields) {
    if (c == ' ') text += ',';
    text += c;
  }
  return text;
}

std::string DirectionWords(Direction direction) {
  switch (direction) {
    case Direction::kLowerIsBetter:
      return "lower is better";
    case Direction::kHigherIsBetter:
      return "higher is better";
    case Direction::kSigned:
      break;
  }
  return "may be bad on either side";
}

std::string AmountWords(double value, const Metric& metric) {
  const Unit unit = metric.aggregate == Aggregate::kRate ? Unit::kPure : metric.quantity->unit;
  return ShortestNumber(value) + (unit == Unit::kPure ? "" : " " + std::string(Name(unit)));
}

}  // namespace kcc::cli
