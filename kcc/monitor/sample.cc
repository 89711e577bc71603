#include "kcc/monitor/sample.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kcc/base/check.h"
#include "kcc/stats/token_ratio.h"
#include "kcc/summary/bad_mass.h"
#include "kcc/summary/population.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

constexpr UnitValue kWorst{.value = 1, .complement = 0};
constexpr UnitValue kBest{.value = 0, .complement = 1};

Sample UnknownUnit() {
  Sample sample;
  sample.defined = true;
  SetUnit(false, true, &sample);
  return sample;
}

Sample UnitOf(bool sure, bool possible, double value) {
  Sample sample;
  sample.defined = true;
  sample.value = value;
  SetUnit(sure, possible, &sample);
  return sample;
}

// A value known up to an interval against the clause's threshold.
Sample UnitOfValue(const Clause& clause, double lo, double hi) {
  const double t = clause.threshold;
  return clause.at_most() ? UnitOf(lo > t, hi > t, hi) : UnitOf(hi < t, lo < t, lo);
}

Sample UnitOfBeyond(const Clause& clause, const Beyond& beyond, double value) {
  return clause.at_most() ? UnitOf(beyond.above_sure != 0, beyond.above_possible != 0, value)
                          : UnitOf(beyond.below_sure != 0, beyond.below_possible != 0, value);
}

// Values that are missing could not take back what those that are there show.
bool OneValueDecides(const ClauseSignal& signal) {
  const Aggregate aggregate = signal.clause->metric.aggregate;
  if (signal.kind == SignalKind::kProof) return true;
  return signal.clause->at_most() ? aggregate == Aggregate::kMax : aggregate == Aggregate::kMin;
}

// The metric of the group's tokens against the threshold.
Sample UnitOfTokens(const ClauseSignal& signal, const Plan& plan, const GroupTokens& group) {
  const Metric& metric = signal.clause->metric;
  const size_t series = plan.SeriesOf(*metric.quantity, metric.side);
  const bool intervals = group.has_intervals(series);
  const uint64_t missing = group.missing[series];
  if (group.point[series].count == 0 && !intervals) return missing == 0 ? Sample() : UnknownUnit();
  // An interval around 0 is non-zero at both ends and may still hold 0.
  const bool rate = metric.aggregate == Aggregate::kRate;
  if (rate && intervals && metric.quantity->min < 0) return UnknownUnit();
  const bool mean = metric.aggregate == Aggregate::kMean;
  Sample sample;
  if (!intervals) {
    const Tally& tally = group.point[series];
    if (mean && tally.plus_infinite != 0 && tally.minus_infinite != 0) return UnknownUnit();
    const Beyond beyond = CompareTallies(plan, metric, tally, nullptr, signal.clause->threshold);
    sample = UnitOfBeyond(*signal.clause, beyond, mean ? tally.Mean() : 0);
  } else {
    const Tally low = GroupTally(group, series, SeriesStats::End::kLow);
    const Tally high = GroupTally(group, series, SeriesStats::End::kHigh);
    for (const Tally* tally : {&low, &high}) {
      if (mean && tally->plus_infinite != 0 && tally->minus_infinite != 0) return UnknownUnit();
    }
    const Beyond beyond = CompareTallies(plan, metric, low, &high, signal.clause->threshold);
    sample = UnitOfBeyond(*signal.clause, beyond, mean ? high.Mean() : 0);
  }
  if (missing != 0) SetUnit(sample.sure && OneValueDecides(signal), true, &sample);
  return sample;
}

// A share of tokens that must be 0: one of them is a proof.
Sample UnitOfFlips(const ClauseSignal& signal, const GroupTokens& group) {
  const size_t series = SourceSeries(*signal.clause->metric.quantity);
  const bool intervals = group.has_intervals(series);
  const uint64_t missing = group.missing[series];
  const Tally& point = group.point[series];
  if (point.count == 0 && !intervals) return missing == 0 ? Sample() : UnknownUnit();
  const bool sure = point.zeros != 0 || (intervals && group.high[series].zeros != 0);
  const bool possible = sure || missing != 0 || (intervals && group.low[series].zeros != 0);
  return UnitOf(sure, possible, sure ? 1 : 0);
}

Sample UnitOfRequest(const ClauseSignal& signal, const Plan& plan, size_t slice,
                     const RequestEvidence& evidence) {
  const Clause& clause = *signal.clause;
  const Quantity& quantity = *clause.metric.quantity;
  if (OfWholeRequests(quantity) && evidence.OfTokens(slice)) return {};
  const RequestQuantity taken = TakeRequestQuantity(plan, evidence.pair(), evidence.Group(slice),
                                                    plan.SeriesOf(quantity, clause.metric.side));
  if (!taken.value) return taken.defined ? UnknownUnit() : Sample();
  const auto [lo, hi] = *taken.value;
  Sample sample;
  if (clause.metric.aggregate == Aggregate::kRate) {
    const bool nonzero = lo > 0 || hi < 0;
    const bool zero = lo == 0 && hi == 0;
    sample = clause.at_most() ? UnitOf(nonzero, !zero, hi) : UnitOf(zero, !nonzero, lo);
  } else {
    sample = UnitOfValue(clause, lo, hi);
  }
  sample.broken = OfWholeRequests(quantity) && (lo < quantity.min || hi > quantity.max);
  return sample;
}

Sample UnitOfPopulation(const ClauseSignal& signal, const Plan& plan, size_t slice,
                        RequestEvidence* evidence) {
  const Clause& clause = *signal.clause;
  const Quantity& quantity = *clause.metric.quantity;
  if (quantity.form == TestForm::kTokenShare && clause.hard()) {
    return UnitOfFlips(signal, evidence->Group(slice));
  }
  const bool of_counts =
      quantity.form == TestForm::kRequestShare || quantity.form == TestForm::kLargest;
  if (of_counts && quantity.observation != Observation::kToken) {
    static const Calibration kNoLabels;
    static const SeriesStats kNoTokens;
    const PopulationValue value = ComputePopulation(
        clause.metric, {&evidence->Population(), &kNoLabels, &kNoTokens}, signal.field_set);
    if (value.count == 0) return value.missing == 0 ? Sample() : UnknownUnit();
    return UnitOfValue(clause, value.value.lo, value.value.hi);
  }
  const WindowState state = evidence->recorder().MakeState(evidence->pair(), evidence->Group(slice),
                                                           plan.windows()[signal.window]);
  return SampleOfBlock(signal, plan, state, false);
}

// A metric that the emitter computed itself, of a request that shows no rows.
std::optional<Sample> UnitOfGivenValue(const ClauseSignal& signal, size_t slice,
                                       const RequestEvidence& evidence) {
  const MonitorObservation& from = evidence.observation();
  // Whether a line is as it should be is not for the line to say.
  if (signal.clause->metric.quantity->counts == RequestCounts::kConformance) return {};
  if (from.values.empty() || from.tokens.rows() != 0 || evidence.OfTokens(slice)) return {};
  const auto found = from.values.find(signal.metric);
  if (found == from.values.end()) return {};
  return UnitOfValue(*signal.clause, found->second.lo, found->second.hi);
}

Sample UnitOnSlice(const ClauseSignal& signal, const Plan& plan, size_t slice,
                   RequestEvidence* evidence) {
  if (const auto given = UnitOfGivenValue(signal, slice, *evidence)) return *given;
  switch (signal.clause->metric.quantity->level) {
    case QuantityLevel::kToken:
      return UnitOfTokens(signal, plan, evidence->Group(slice));
    case QuantityLevel::kRequest:
      return UnitOfRequest(signal, plan, slice, *evidence);
    case QuantityLevel::kPopulation:
      break;
  }
  return UnitOfPopulation(signal, plan, slice, evidence);
}

Sample MassOnSlice(const ClauseSignal& signal, const Plan& plan, size_t slice,
                   const RequestEvidence& evidence) {
  const GroupTokens& group = evidence.Group(slice);
  const Quantity& quantity = *signal.clause->metric.quantity;
  if (OfWholeRequests(quantity) && evidence.OfTokens(slice)) return {};
  Sample sample;
  for (size_t i = 0; i < signal.tests.size(); ++i) {
    const PlanTest& test = signal.tests[i];
    const BadMass mass = BadMassOf(plan, test, evidence.recorder().needs(), evidence.pair(), group);
    if (mass.tokens == 0) return {};
    sample.defined = true;
    sample.broken = sample.broken || mass.broken || mass.tokens > test.tokens_max ||
                    std::isnan(mass.low) || std::isnan(mass.high);
    if (sample.broken) return sample;
    // Rounding may step over the ends of what is possible by an ulp.
    const double low = std::clamp(mass.low, 0.0, mass.tokens);
    const double high = std::clamp(mass.high, 0.0, mass.tokens);
    const double m = signal.limit;
    sample.for_pass[i] = *RatioObservation(high, mass.tokens, test.tokens_max, m);
    sample.for_fail[i] = *RatioObservation(low, mass.tokens, test.tokens_max, m);
    if (i == 0 || low > sample.bad) sample.bad = low;
    sample.weight = mass.tokens;
    sample.possible = sample.possible || high >= mass.tokens;  // at the cap of a truncated mean
  }
  return sample;
}

Sample FlagGapOf(const ClauseSignal& signal, RequestEvidence* evidence) {
  const PopulationStats& all = evidence->Population();
  const bool refusals = signal.clause->metric.quantity->counts == RequestCounts::kRefusals;
  const PairedFlagCounts& flags = refusals ? all.refused : all.parsed;
  Sample sample;
  sample.defined = true;
  sample.weight = 1;
  const double difference = flags.infer_only != 0 ? 1 : flags.train_only != 0 ? -1 : 0;
  for (size_t sign = 0; sign < 2; ++sign) {
    const double x = (1 + (sign == 0 ? difference : -difference)) / 2;
    const bool missing = flags.missing != 0;
    sample.for_pass[sign] = missing ? kWorst : UnitValue{x, 1 - x};
    sample.for_fail[sign] = missing ? kBest : UnitValue{x, 1 - x};
    if (sign == 0) sample.bad = sample.for_fail[0].value;
  }
  return sample;
}

}  // namespace

void SetUnit(bool sure, bool possible, Sample* sample) {
  sample->sure = sure;
  sample->possible = possible;
  sample->for_pass[0] = possible ? kWorst : kBest;
  sample->for_fail[0] = sure ? kWorst : kBest;
  sample->bad = sure ? 1 : 0;
  sample->weight = 1;
}

Sample SampleOf(const ClauseSignal& signal, const Plan& plan, size_t slice,
                RequestEvidence* evidence) {
  switch (signal.kind) {
    case SignalKind::kProof:
    case SignalKind::kExistence:
    case SignalKind::kUnit:
      return UnitOnSlice(signal, plan, slice, evidence);
    case SignalKind::kMass:
      return MassOnSlice(signal, plan, slice, *evidence);
    case SignalKind::kFlagGap:
      return FlagGapOf(signal, evidence);
    case SignalKind::kBlock:
    case SignalKind::kNone:
      break;
  }
  return {};
}

Sample SampleOfBlock(const ClauseSignal& signal, const Plan& plan, const WindowState& state,
                     bool doubtful) {
  const Clause& clause = *signal.clause;
  const PlanWindow& window = plan.windows()[signal.window];
  const WindowValue value = TakeMetric(plan, window, state);
  if (!value.defined) return value.complete ? Sample() : UnknownUnit();
  const auto at = std::find(window.thresholds.begin(), window.thresholds.end(), clause.threshold);
  KCC_CHECK(at != window.thresholds.end());
  const auto place = static_cast<size_t>(at - window.thresholds.begin());
  Sample sample =
      UnitOfBeyond(clause, value.beyond[place], clause.at_most() ? value.value.hi : value.value.lo);
  if (!value.complete || doubtful) {
    SetUnit(sample.sure && !doubtful && OneValueDecides(signal), true, &sample);
  }
  return sample;
}

}  // namespace kcc
