#include "kcc/summary/request_group.h"

#include <algorithm>
#include <cmath>

#include "kcc/summary/bad_mass.h"
#include "kcc/summary/own_values.h"
#include "kcc/summary/recorded.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

bool IsCalibration(const Metric& metric) {
  return metric.quantity->evidence == EvidenceNeeded::kGold;
}

bool IsTokenShare(const Quantity& quantity) { return quantity.form == TestForm::kTokenShare; }

Calibration CalibrationOf(const GroupTokens& group) {
  Calibration calibration;
  for (const LabelledToken& token : group.labelled) {
    for (size_t side = 0; side < 2; ++side) {
      calibration.sides[side].Add(token.confidence[side], token.correct[side]);
    }
  }
  calibration.unlabelled = group.unlabelled;
  return calibration;
}

}  // namespace

Tally GroupTally(const GroupTokens& group, size_t series, SeriesStats::End end) {
  Tally tally = group.point[series];
  if (group.has_intervals(series)) {
    tally.Merge(end == SeriesStats::End::kLow ? group.low[series] : group.high[series]);
  }
  return tally;
}

GroupNeeds::GroupNeeds(const Plan& plan) : values_index(plan.token_series_end(), -1) {
  const auto need = [&](size_t series) {
    if (values_index[series] < 0) values_index[series] = static_cast<int>(values_count++);
  };
  const auto need_metric = [&](const Metric& metric) {
    if (metric.quantity->level != QuantityLevel::kToken) return;
    need(plan.SeriesOf(*metric.quantity, metric.side));
    if (metric.aggregate != Aggregate::kMean) return;
    if (const auto estimate = EstimateSeries(*metric.quantity)) need(*estimate);
  };
  for (const PlanWindow& window : plan.windows()) {
    labels = labels || IsCalibration(window.metric);
    if (IsTokenShare(*window.metric.quantity)) need(SourceSeries(*window.metric.quantity));
    need_metric(window.metric);
  }
  for (const PlanTest& test : plan.tests()) {
    labels = labels || IsCalibration(test.metric);
    if (test.truncated) need_metric(test.metric);  // a sum cannot be truncated afterwards
  }
}

GroupTokens::GroupTokens(const GroupNeeds& needs)
    : point(needs.values_index.size()),
      missing(needs.values_index.size()),
      values(needs.values_count) {}

void GroupTokens::Clear() {
  tokens = 0;
  for (Tally& tally : point) {
    if (tally.count != 0) tally.Clear();
  }
  for (Tally& tally : low) tally.Clear();
  for (Tally& tally : high) tally.Clear();
  std::fill(missing.begin(), missing.end(), 0);
  for (auto& column : values) column.clear();
  labelled.clear();
  unlabelled = 0;
}

void GroupTokens::Merge(const GroupTokens& other) {
  tokens += other.tokens;
  for (size_t i = 0; i < point.size(); ++i) {
    point[i].Merge(other.point[i]);
    missing[i] += other.missing[i];
  }
  if (!other.low.empty()) {
    low.resize(point.size());
    high.resize(point.size());
    for (size_t i = 0; i < point.size(); ++i) {
      low[i].Merge(other.low[i]);
      high[i].Merge(other.high[i]);
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    values[i].insert(values[i].end(), other.values[i].begin(), other.values[i].end());
  }
  labelled.insert(labelled.end(), other.labelled.begin(), other.labelled.end());
  unlabelled += other.unlabelled;
}

size_t SeriesForMean(const Plan& plan, const Metric& metric, const GroupTokens& group) {
  const Quantity& quantity = *metric.quantity;
  const size_t own = plan.SeriesOf(quantity, metric.side);
  if (group.point[own].count != 0 || group.has_intervals(own)) return own;
  const auto estimate = EstimateSeries(quantity);
  return estimate && group.point[*estimate].count != 0 ? *estimate : own;
}

namespace {

bool OutputsKnown(const RequestPair& pair) {
  return pair.outputs != nullptr && pair.outputs->known;
}

// How infer's value stands to train's. Missing unless both sides recorded one: to leave a value out
// must not help. One record that stands for both sides (arrays have one) compares nothing.
FieldQuantity OfBothSides(const Quantity& quantity, const RequestPair& pair) {
  if (pair.one_record()) return {};
  const Quantity& source = SourceOf(quantity);
  const FieldQuantity infer = RecordedQuantity(source, pair, Side::kInfer);
  const FieldQuantity train = RecordedQuantity(source, pair, Side::kTrain);
  FieldQuantity result;
  result.defined = infer.defined || train.defined;
  if (!infer.value || !train.value) return result;
  // That train timed out says only that it took longer than a limit that nobody recorded. As what
  // infer is compared with, infinity would be the kindest reading.
  if (!std::isfinite(*train.value)) return result;
  // A number that the source cannot be (a time below 0) is no evidence.
  if (*infer.value < source.min || *train.value < source.min) return result;
  double value = *infer.value - *train.value;
  if (quantity.taken == TakenFrom::kSideGap) value = std::fabs(value);
  if (quantity.taken == TakenFrom::kSideRatio) {
    if (*train.value <= 0) return result;
    value = *infer.value / *train.value;
  }
  result.value = value;  // no NaN: train is finite
  return result;
}

}  // namespace

FieldQuantity RecordedQuantity(const Quantity& quantity, const RequestPair& pair, Side side) {
  const Request& request = pair.side(side);
  FieldQuantity result;
  switch (quantity.taken) {
    case TakenFrom::kField:
      result.value = RecordedNumber(request, quantity.id);
      break;
    case TakenFrom::kFirstTokenTime:
      result.value = RecordedNumber(request, quantity.id);
      // The first token came before the request was given up, where the side wrote one. Of an
      // answer that both sides only score nobody knows how much of it was written by then, and a
      // side's own claim of a length must not help it.
      if (result.value && pair.output_rows < 0 && pair.OutputTokens(side).value_or(0) >= 1) {
        return result;
      }
      break;
    case TakenFrom::kOutputTokens:
      result.value = pair.OutputTokens(side);
      break;
    case TakenFrom::kTimePerToken: {
      const auto latency = PossibleNumber(request, "latency_ms");
      const auto first = PossibleNumber(request, "ttft_ms");
      const auto tokens = pair.OutputTokens(side);
      result.defined = !tokens || *tokens > 1;
      if (latency && first && tokens && result.defined) {
        result.value = (*latency - *first) / (*tokens - 1);
      }
      break;
    }
    case TakenFrom::kSideDifference:
    case TakenFrom::kSideGap:
    case TakenFrom::kSideRatio:
      return OfBothSides(quantity, pair);
    case TakenFrom::kSameOutput:
      if (OutputsKnown(pair)) result.value = pair.outputs->same ? 1 : 0;
      return result;
    case TakenFrom::kFirstDivergence:
      if (!OutputsKnown(pair)) return result;
      result.value = pair.outputs->same ? std::numeric_limits<double>::infinity()
                                        : static_cast<double>(pair.outputs->common);
      return result;
    case TakenFrom::kExpression:
      result.value = OwnRequestValue(quantity, pair, side);
      return result;
    case TakenFrom::kNone:
    case TakenFrom::kTokenSum:
    case TakenFrom::kTokenMean:
      return result;  // recorded nowhere
  }
  const bool is_time = quantity.unit == Unit::kMs;
  if (is_time && TimedOut(request)) {
    result = {std::numeric_limits<double>::infinity(), true};
  }
  return result;
}

namespace {

RequestQuantity TakeSequence(const Quantity& quantity, const GroupTokens& group) {
  const size_t source = SourceSeries(quantity);
  const bool mean = quantity.taken == TakenFrom::kTokenMean;
  const Tally low = GroupTally(group, source, SeriesStats::End::kLow);
  // A sum over some of the tokens is not the sum.
  if (low.count == 0 || group.missing[source] != 0) return {};
  const Tally high = GroupTally(group, source, SeriesStats::End::kHigh);
  const ValueInterval value{mean ? low.Mean() : low.Sum(), mean ? high.Mean() : high.Sum()};
  // Infinities of both signs have no sum.
  if (std::isnan(value.lo) || std::isnan(value.hi)) return {};
  return {value};
}

}  // namespace

RequestQuantity TakeRequestQuantity(const Plan& plan, const RequestPair& request,
                                    const GroupTokens& group, size_t series) {
  const Quantity& quantity = plan.quantity(series);
  if (!OfWholeRequests(quantity)) return TakeSequence(quantity, group);
  const FieldQuantity recorded = RecordedQuantity(quantity, request, plan.side(series));
  if (!recorded.value) return {{}, recorded.defined};
  return {ValueInterval{*recorded.value, *recorded.value}};
}

GroupRecorder::GroupRecorder(const Plan& plan) : plan_(plan), needs_(plan) {
  for (const PlanTest& test : plan.tests()) {
    bets_.push_back(*MakeBettingPlan(TestMean(test), test.grid));
  }
  for (size_t series = TokenSeriesCount(); series < plan.series_count(); ++series) {
    if (plan.Keeps(series) && !plan.IsToken(series)) request_series_.push_back(series);
  }
}

void GroupRecorder::Record(const RequestPair& request, const GroupTokens& group, bool whole_request,
                           const std::vector<size_t>& windows, const std::vector<size_t>& tests,
                           SliceStats* into) const {
  RecordClusters(group, into);
  for (const size_t series : request_series_) {
    if (whole_request || !OfWholeRequests(plan_.quantity(series))) {
      RecordRequestSeries(request, group, series, &into->series[series]);
    }
  }
  into->population.Add(request, plan_.field_sets());
  for (const size_t window : windows) RecordWindow(request, group, window, into);
  for (const size_t test : tests) RecordTest(request, group, test, into);
}

void GroupRecorder::RecordClusters(const GroupTokens& group, SliceStats* into) const {
  using End = SeriesStats::End;
  for (size_t series = 0; series < group.point.size(); ++series) {
    const size_t thresholds = plan_.thresholds(series).size();
    ClusterStats& cluster = into->clusters[series];
    if (group.has_intervals(series)) {
      if (cluster.ends.empty()) cluster.ends.resize(2);
      cluster.ends[0].Add(GroupTally(group, series, End::kLow), thresholds);
      cluster.ends[1].Add(GroupTally(group, series, End::kHigh), thresholds);
    } else if (group.point[series].count != 0) {
      cluster.point.Add(group.point[series], thresholds);
    }
  }
}

void GroupRecorder::RecordRequestSeries(const RequestPair& request, const GroupTokens& group,
                                        size_t series, SeriesStats* into) const {
  const RequestQuantity taken = TakeRequestQuantity(plan_, request, group, series);
  if (taken.value) {
    into->Add(taken.value->lo, taken.value->hi, plan_.thresholds(series));
    into->worst.Offer(plan_.quantity(series), taken.value->hi, request.id, -1, -1);
  } else if (taken.defined) {
    ++into->missing;
  }
}

void GroupRecorder::AddValues(const GroupTokens& group, size_t series, size_t counted_as,
                              SeriesStats* into) const {
  const auto column = static_cast<size_t>(needs_.values_index[series]);
  for (const ValueInterval& value : group.values[column]) {
    into->Add(value.lo, value.hi, plan_.thresholds(counted_as));
  }
  into->missing = group.missing[series];
}

void GroupRecorder::TakeTallies(const GroupTokens& group, size_t series, SeriesStats* into) {
  into->point.tally = group.point[series];
  into->missing = group.missing[series];
  if (!group.has_intervals(series)) return;
  into->Ends()[0].tally = group.low[series];
  into->Ends()[1].tally = group.high[series];
}

WindowState GroupRecorder::MakeState(const RequestPair& request, const GroupTokens& group,
                                     const PlanWindow& window) const {
  WindowState state;
  state.requests = 1;
  const Quantity& quantity = *window.metric.quantity;
  if (quantity.level == QuantityLevel::kToken) {
    const bool mean = window.metric.aggregate == Aggregate::kMean;
    const size_t own = plan_.SeriesOf(quantity, window.metric.side);
    const size_t series = mean ? SeriesForMean(plan_, window.metric, group) : own;
    // A request's mean is settled by the tally that its group has already; thresholds are no part
    // of it.
    if (mean && window.window.kind == Window::Kind::kRequest) {
      TakeTallies(group, series, &state.series);
    } else {
      AddValues(group, series, own, &state.series);
    }
  } else if (quantity.level == QuantityLevel::kRequest) {
    RecordRequestSeries(request, group, plan_.SeriesOf(quantity, window.metric.side),
                        &state.series);
    state.series.worst = WorstList();  // the slice has them
  } else {
    if (IsTokenShare(quantity)) {
      const size_t source = SourceSeries(quantity);
      AddValues(group, source, source, &state.series);
    }
    state.population.resize(1);
    state.population[0].population.Add(request, plan_.field_sets());
    if (IsCalibration(window.metric)) state.population[0].calibration = CalibrationOf(group);
  }
  return state;
}

void GroupRecorder::RecordWindow(const RequestPair& request, const GroupTokens& group,
                                 size_t window, SliceStats* into) const {
  const PlanWindow& row = plan_.windows()[window];
  WindowTally& tally = into->windows[window];
  if (row.window.kind == Window::Kind::kRequest) {
    tally.Fold(TakeMetric(plan_, row, MakeState(request, group, row)));
    return;
  }
  const auto index = WindowIndex(row.window, PlacementOf(row), request);
  if (!index) {
    ++tally.unplaced;
    return;
  }
  tally.open[*index].Merge(MakeState(request, group, row), row);
}

void GroupRecorder::RecordTest(const RequestPair& request, const GroupTokens& group, size_t test,
                               SliceStats* into) const {
  const PlanTest& row = plan_.tests()[test];
  const BadMass mass = BadMassOf(plan_, row, needs_, request, group);
  if (mass.tokens == 0) return;
  BetSums& sums = into->tests[test];
  if (mass.broken) {
    ++sums.oversized;
    return;
  }
  // Rounding may step over the ends of what is possible by an ulp.
  const double low = std::clamp(mass.low, 0.0, mass.tokens);
  const double high = std::clamp(mass.high, 0.0, mass.tokens);
  sums.Add(bets_[test], mass.tokens, low, high, row.tokens_max);
}

}  // namespace kcc
