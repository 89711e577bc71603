// Reading a summary: the accessors that the judge and the report use.
#include <algorithm>
#include <cmath>

#include "kcc/summary/series.h"
#include "kcc/summary/summary.h"

namespace kcc {

SeriesView::SeriesView(const Summary& summary, size_t slice, size_t series)
    : plan_(summary.plan),
      stats_(summary.slices[slice].series[series]),
      clusters_(summary.plan.IsToken(series) ? &summary.slices[slice].clusters[series] : nullptr),
      series_(series) {
  if (exact()) return;
  low_ = stats_.Stream(End::kLow);
  high_ = stats_.Stream(End::kHigh);
}

double SeriesView::Rate(End end) const {
  const Tally& tally = stream(end).tally;
  return static_cast<double>(tally.count - tally.zeros) / static_cast<double>(tally.count);
}

double SeriesView::Variance(End end) const {
  const Moments& moments = stream(end);
  if (moments.tally.finite() != moments.tally.count) return std::numeric_limits<double>::infinity();
  if (moments.tally.count < 2) return 0;
  // sum of v^2 - 2 mean v + mean^2, exactly, for the rounded mean: what its rounding changes is of
  // second order. The sum and mean * n are taken as two doubles each.
  const auto n = static_cast<double>(moments.tally.count);
  const double sum = moments.tally.sum.Round();
  if (!std::isfinite(sum)) return std::numeric_limits<double>::infinity();
  ExactSum rest = moments.tally.sum;
  rest.Add(-sum);
  const double mean = sum / n;
  const double mean_n = mean * n;
  ExactProductSum centred = moments.squares;
  centred.AddProduct(-2 * mean, sum);
  centred.AddProduct(-2 * mean, rest.Round());
  centred.AddProduct(mean_n, mean);
  centred.AddProduct(std::fma(mean, n, -mean_n), mean);
  return std::max(0.0, centred.Round()) / (n - 1);
}

int SeriesView::CompareMean(End end, double threshold) const {
  return stream(end).tally.CompareMean(threshold);
}

bool SeriesView::Counted(double threshold) const {
  return plan_.FindThreshold(series_, threshold) >= 0;
}

CountRange SeriesView::Beyond(const Moments& moments, double threshold, bool above) const {
  if (moments.empty()) return {};
  if (above ? threshold >= moments.max : threshold <= moments.min) return {};
  if (above ? threshold < moments.min : threshold > moments.max) {
    return {moments.tally.count, moments.tally.count};
  }
  const int counted = plan_.FindThreshold(series_, threshold);
  if (counted >= 0) {
    const Split split = moments.tally.SplitAt(static_cast<size_t>(counted));
    const uint64_t beyond = above ? split.above : split.below;
    return {beyond, beyond};
  }
  const Histogram::Bucket at = Histogram::BucketOf(threshold);
  CountRange range;
  for (const auto& [bucket, count] : moments.histogram.Entries()) {
    if (above ? bucket > at : bucket < at) range.lo += count;
    if (bucket == at) {
      const double edge = above ? Histogram::UpperEdge(bucket) : Histogram::LowerEdge(bucket);
      if (edge != threshold) range.hi += count;  // at the bucket's own edge none lies beyond
    }
  }
  range.hi += range.lo;
  return range;
}

CountRange SeriesView::Above(End end, double threshold) const {
  return Beyond(stream(end), threshold, true);
}

CountRange SeriesView::Below(End end, double threshold) const {
  return Beyond(stream(end), threshold, false);
}

Interval SeriesView::Quantile(End end, int percentile_ppm) const {
  const Moments& moments = stream(end);
  const Histogram::Bucket bucket = moments.QuantileBucket(percentile_ppm);
  return {std::max(moments.min, Histogram::LowerEdge(bucket)),
          std::min(moments.max, Histogram::UpperEdge(bucket))};
}

bool JoinsPairs(const Summary& summary, const Metric& metric) {
  const Quantity& quantity = *metric.quantity;
  if (summary.sources.size() < 2 || quantity.level != QuantityLevel::kPopulation) return false;
  const bool of_a_span = quantity.fields.find("started_at_ms") != std::string_view::npos;
  const bool of_maxima = !quantity.of.empty() && SourceOf(quantity).form == TestForm::kLargest;
  // One run of each of two kernels is no repetition of either.
  const bool of_repeats =
      quantity.observation == Observation::kReplay && quantity.form == TestForm::kLargest;
  return of_a_span || of_maxima || of_repeats;
}

PopulationValue SlicePopulation(const Summary& summary, size_t slice, const Metric& metric,
                                const std::vector<std::string>& fields) {
  std::vector<std::string> sorted = fields;
  std::sort(sorted.begin(), sorted.end());
  const int field_set = sorted.empty() ? 0 : summary.plan.FindFieldSet(sorted);
  if (field_set < 0) return {};
  const SliceStats& stats = summary.slices[slice];
  if (JoinsPairs(summary, metric)) return {{}, 0, stats.population.requests};
  return ComputePopulation(metric,
                           {&stats.population, &stats.calibration, &stats.series[Top1Series()]},
                           static_cast<size_t>(field_set));
}

namespace {

// The plan's window on the slice, as an index; -1 where the plan lacks either.
int FindRow(const Summary& summary, size_t slice, const Metric& metric, const Window& window,
            const std::vector<std::string>& fields) {
  std::vector<std::string> sorted = fields;
  std::sort(sorted.begin(), sorted.end());
  const int at = summary.plan.FindWindow(metric, window, sorted);
  if (at < 0) return -1;
  const std::vector<std::string>& slices = summary.plan.windows()[static_cast<size_t>(at)].slices;
  const std::string& name = summary.plan.slices()[slice].name;
  return std::binary_search(slices.begin(), slices.end(), name) ? at : -1;
}

WindowTally FoldOpen(const Summary& summary, size_t slice, size_t row) {
  WindowTally open;
  for (const auto& [number, state] : summary.slices[slice].windows[row].open) {
    open.Fold(TakeMetric(summary.plan, summary.plan.windows()[row], state));
  }
  return open;
}

uint64_t CountGaps(const Summary& summary, size_t slice, size_t row) {
  const PlanWindow& window = summary.plan.windows()[row];
  if (window.window.kind != Window::Kind::kRequests) return 0;
  const auto fill =
      std::find_if(summary.fills.begin(), summary.fills.end(), [&](const WindowFill& each) {
        return each.size == window.window.size && each.placement == PlacementOf(window);
      });
  if (fill == summary.fills.end()) return 0;
  const auto ends = fill->Ends();
  if (!ends) return 0;
  const std::map<int64_t, WindowState>& open = summary.slices[slice].windows[row].open;
  return static_cast<uint64_t>(std::count_if(open.begin(), open.end(), [&](const auto& each) {
    return each.first != ends->first && each.first != ends->second;
  }));
}

}  // namespace

std::optional<WindowOutcome> SliceWindows(const Summary& summary, size_t slice,
                                          const Metric& metric, const Window& window,
                                          double threshold,
                                          const std::vector<std::string>& fields) {
  const int at = FindRow(summary, slice, metric, window, fields);
  if (at < 0) return std::nullopt;
  const auto row = static_cast<size_t>(at);
  const std::vector<double>& thresholds = summary.plan.windows()[row].thresholds;
  const auto found = std::find(thresholds.begin(), thresholds.end(), threshold);
  if (found == thresholds.end()) return std::nullopt;
  const auto index = static_cast<size_t>(found - thresholds.begin());
  // A window of one request is of one pair; any other may hold requests of several.
  const bool joined = window.kind != Window::Kind::kRequest && JoinsPairs(summary, metric);
  const auto count = [&](const WindowTally& tally) {
    return WindowCounts{tally.windows, tally.undefined,
                        joined ? tally.windows + tally.undefined : tally.incomplete, tally.unplaced,
                        tally.beyond.empty() ? Beyond() : tally.beyond[index]};
  };
  return WindowOutcome{count(summary.slices[slice].windows[row]),
                       count(FoldOpen(summary, slice, row)), CountGaps(summary, slice, row)};
}

std::optional<WindowValues> SliceWindowValues(const Summary& summary, size_t slice,
                                              const Metric& metric, const Window& window,
                                              const std::vector<std::string>& fields) {
  const int at = FindRow(summary, slice, metric, window, fields);
  if (at < 0) return std::nullopt;
  const auto row = static_cast<size_t>(at);
  const WindowTally& folded = summary.slices[slice].windows[row];
  WindowValues values{folded.lows, folded.highs};
  const WindowTally open = FoldOpen(summary, slice, row);
  values.lows.Merge(open.lows);
  values.highs.Merge(open.highs);
  return values;
}

}  // namespace kcc
