#include "kcc/summary/bad_mass.h"

#include <algorithm>

#include "kcc/summary/series.h"

namespace kcc {
namespace {

using End = SeriesStats::End;

// The sum of the group's values, each truncated to the test's range, on the scale of [0, 1].
ValueInterval TruncatedSum(const PlanTest& test, const GroupNeeds& needs, const GroupTokens& group,
                           size_t series) {
  ExactSum low;
  ExactSum high;
  for (const ValueInterval& value : group.values[static_cast<size_t>(needs.values_index[series])]) {
    low.Add(std::clamp(value.lo, test.range_min, test.range_max));
    high.Add(std::clamp(value.hi, test.range_min, test.range_max));
  }
  return {low.Round(), high.Round()};
}

BadMass MassOfTokens(const Plan& plan, const PlanTest& test, const GroupNeeds& needs,
                     const GroupTokens& group) {
  const bool flips = test.metric.quantity->form == TestForm::kTokenShare;
  const bool mean = test.metric.aggregate == Aggregate::kMean;
  const size_t series = flips  ? SourceSeries(*test.metric.quantity)
                        : mean ? SeriesForMean(plan, test.metric, group)
                               : plan.SeriesOf(*test.metric.quantity, test.metric.side);
  const bool at_most = test.bound == BoundKind::kAtMost;
  BadMass mass;
  const auto missing = static_cast<double>(group.missing[series]);
  const Tally low = GroupTally(group, series, End::kLow);
  const auto count = static_cast<double>(low.count);
  mass.tokens = count + missing;
  if (low.count != 0) {
    const Tally high = GroupTally(group, series, End::kHigh);
    if (flips) {
      mass.low = static_cast<double>(high.zeros);
      mass.high = static_cast<double>(low.zeros);
    } else if (PercentilePpm(test.metric.aggregate) >= 0) {
      const auto at = static_cast<size_t>(plan.FindThreshold(series, test.threshold));
      mass.low = static_cast<double>(at_most ? low.SplitAt(at).above : high.SplitAt(at).below);
      mass.high = static_cast<double>(at_most ? high.SplitAt(at).above : low.SplitAt(at).below);
    } else if (test.metric.aggregate == Aggregate::kRate) {
      // An interval around 0 is non-zero at both ends and may still hold 0.
      const bool around_zero = group.has_intervals(series) && test.metric.quantity->min < 0;
      const Tally& point = group.point[series];
      const auto fewest =
          static_cast<double>(around_zero ? point.count - point.zeros : low.count - low.zeros);
      const auto most =
          static_cast<double>(around_zero ? low.count - point.zeros : high.count - high.zeros);
      mass.low = at_most ? fewest : count - most;
      mass.high = at_most ? most : count - fewest;
    } else {
      const ValueInterval sum = test.truncated ? TruncatedSum(test, needs, group, series)
                                               : ValueInterval{low.Sum(), high.Sum()};
      const double width = test.range_max - test.range_min;
      const double lo = (sum.lo - test.range_min * count) / width;
      const double hi = (sum.hi - test.range_min * count) / width;
      mass.low = at_most ? lo : count - hi;
      mass.high = at_most ? hi : count - lo;
    }
  }
  mass.high += missing;
  return mass;
}

BadMass MassOfLabels(const PlanTest& test, const GroupTokens& group) {
  ExactSum gap;  // of infer's Brier score over train's
  for (const LabelledToken& token : group.labelled) {
    for (const Side side : {Side::kInfer, Side::kTrain}) {
      const auto i = static_cast<size_t>(side);
      const double residual = (token.correct[i] ? 1.0 : 0.0) - token.confidence[i];
      const bool adds = (side == Side::kInfer) != test.negative;
      gap.Add(adds ? residual * residual : -(residual * residual));
    }
  }
  const auto labelled = static_cast<double>(group.labelled.size());
  const auto unlabelled = static_cast<double>(group.unlabelled);
  BadMass mass;
  mass.tokens = labelled + unlabelled;
  mass.low = (gap.Round() + labelled) / 2;
  mass.high = mass.low + unlabelled;
  return mass;
}

BadMass MassOfValue(const PlanTest& test, const RequestQuantity& taken) {
  BadMass mass;
  if (!taken.defined) return mass;
  mass.tokens = 1;
  mass.high = 1;
  if (!taken.value) return mass;
  ValueInterval value = *taken.value;
  if (test.truncated) {
    value = {std::min(value.lo, test.range_max), std::min(value.hi, test.range_max)};
  }
  mass.broken = !(value.lo >= test.range_min && value.hi <= test.range_max);
  const double width = test.range_max - test.range_min;
  const double lo = (value.lo - test.range_min) / width;
  const double hi = (value.hi - test.range_min) / width;
  const bool at_most = test.bound == BoundKind::kAtMost;
  mass.low = at_most ? lo : 1 - hi;
  mass.high = at_most ? hi : 1 - lo;
  return mass;
}

// A reward that the contract says cannot be: neither 0 nor the largest.
bool BreaksTwoValues(const PlanTest& test, const RequestPair& request) {
  if (!test.two_valued) return false;
  const Quantity& reward = SourceOf(*test.metric.quantity);
  const bool gap = test.metric.quantity->form == TestForm::kMeanGap;
  for (const Side side : {Side::kTrain, Side::kInfer}) {
    if (!gap && side != test.metric.side) continue;
    const FieldQuantity recorded = RecordedQuantity(reward, request, side);
    if (recorded.value && *recorded.value != 0 && *recorded.value != test.range_max) return true;
  }
  return false;
}

RequestQuantity RecordedGap(const PlanTest& test, const RequestPair& request) {
  if (request.one_record()) return {};
  const Quantity& recorded = SourceOf(*test.metric.quantity);
  const FieldQuantity infer = RecordedQuantity(recorded, request, Side::kInfer);
  const FieldQuantity train = RecordedQuantity(recorded, request, Side::kTrain);
  if (!infer.value || !train.value) return {};
  const double gap = test.negative ? *train.value - *infer.value : *infer.value - *train.value;
  return {ValueInterval{gap, gap}};
}

}  // namespace

BadMass BadMassOf(const Plan& plan, const PlanTest& test, const GroupNeeds& needs,
                  const RequestPair& request, const GroupTokens& group) {
  const Quantity& quantity = *test.metric.quantity;
  if (BreaksTwoValues(test, request)) return {.tokens = 1, .broken = true};
  if (quantity.form == TestForm::kMeanGap) {
    return quantity.observation == Observation::kToken
               ? MassOfLabels(test, group)
               : MassOfValue(test, RecordedGap(test, request));
  }
  if (quantity.level == QuantityLevel::kRequest) {
    const size_t series = plan.SeriesOf(quantity, test.metric.side);
    return MassOfValue(test, TakeRequestQuantity(plan, request, group, series));
  }
  return MassOfTokens(plan, test, needs, group);
}

}  // namespace kcc
