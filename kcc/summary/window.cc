#include "kcc/summary/window.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "kcc/summary/series.h"

namespace kcc {
namespace {

using Stream = SeriesStats::End;

// Values, and their mean where the metric is one. The exact mean takes longer than a comparison, so
// it is taken once for all thresholds.
struct MeanTally {
  MeanTally(const Metric& metric, const Tally& of)
      : tally(of), mean(ComparesMean(metric) ? of.Mean() : 0) {}

  // Also of a request's one value.
  static bool ComparesMean(const Metric& metric) {
    return metric.aggregate != Aggregate::kRate && PercentilePpm(metric.aggregate) < 0;
  }

  const Tally& tally;
  double mean;
};

// -1, 0, 1: the metric of the values against the threshold, decided in integers.
int CompareMetric(const Plan& plan, const Metric& metric, const MeanTally& values,
                  double threshold) {
  const Tally& tally = values.tally;
  if (metric.aggregate == Aggregate::kRate) return tally.CompareRate(threshold);
  if (MeanTally::ComparesMean(metric)) return tally.CompareMean(threshold, values.mean);
  const int ppm = PercentilePpm(metric.aggregate);
  const size_t series = plan.SeriesOf(*metric.quantity, metric.side);
  const Split split = tally.SplitAt(static_cast<size_t>(plan.FindThreshold(series, threshold)));
  using Wide = unsigned __int128;
  const Wide scaled = static_cast<Wide>(tally.count) * static_cast<unsigned>(ppm);
  const auto rank = std::max<uint64_t>(1, static_cast<uint64_t>((scaled + 999999) / 1000000));
  if (split.below >= rank) return -1;
  return split.below + split.at < rank ? 1 : 0;
}

double EndOf(const PlanWindow& window, const Moments& stream, Stream end) {
  const Aggregate aggregate = window.metric.aggregate;
  const auto count = static_cast<double>(stream.tally.count);
  if (aggregate == Aggregate::kRate) {
    return static_cast<double>(stream.tally.count - stream.tally.zeros) / count;
  }
  if (aggregate == Aggregate::kMax) return stream.max;
  if (aggregate == Aggregate::kMin) return stream.min;
  const int ppm = PercentilePpm(aggregate);
  if (ppm < 0) return stream.tally.Mean();
  const Histogram::Bucket bucket = stream.QuantileBucket(ppm);
  return end == Stream::kLow ? std::max(stream.min, Histogram::LowerEdge(bucket))
                             : std::min(stream.max, Histogram::UpperEdge(bucket));
}

Beyond MakeBeyond(int low, int high) {
  return {low > 0 ? 1u : 0u, high > 0 ? 1u : 0u, high < 0 ? 1u : 0u, low < 0 ? 1u : 0u};
}

// One infinite value decides the mean of all. It may show that a window is bad; that it is good it
// must not show, since the other values could be anything.
void DoubtInfinities(const Tally& lower, const Tally& upper, Beyond* beyond) {
  if (lower.plus_infinite != 0 || upper.plus_infinite != 0) beyond->below_possible = 1;
  if (lower.minus_infinite != 0 || upper.minus_infinite != 0) beyond->above_possible = 1;
}

int Compare(double value, double threshold) {
  return value > threshold ? 1 : value < threshold ? -1 : 0;
}

WindowValue TakePopulation(const Plan& plan, const PlanWindow& window, const WindowState& state) {
  const PopulationWindow& from = state.population.front();
  const int field_set = window.fields.empty() ? 0 : plan.FindFieldSet(window.fields);
  const PopulationValue taken =
      ComputePopulation(window.metric, {&from.population, &from.calibration, &state.series},
                        static_cast<size_t>(field_set));
  WindowValue value;
  value.defined = taken.count != 0;
  value.complete = taken.missing == 0;
  if (!value.defined) return value;
  value.value = taken.value;
  for (const double threshold : window.thresholds) {
    value.beyond.push_back(
        MakeBeyond(Compare(taken.value.lo, threshold), Compare(taken.value.hi, threshold)));
  }
  return value;
}

// Whether the window holds a recorded value that the quantity cannot have. Where a slice keeps the
// values, the judge calls them an error; a slice of tokens keeps none of requests.
bool HoldsImpossible(const Quantity& quantity, const SeriesStats& series) {
  if (quantity.level != QuantityLevel::kRequest || !OfWholeRequests(quantity)) return false;
  return series.point.min < quantity.min || series.point.max > quantity.max;
}

// As CompareTallies, of values whose means are at hand.
Beyond CompareEnds(const Plan& plan, const Metric& metric, const MeanTally& lower,
                   const MeanTally* upper, double threshold) {
  const int low = CompareMetric(plan, metric, lower, threshold);
  const int high = upper == nullptr ? low : CompareMetric(plan, metric, *upper, threshold);
  Beyond beyond = MakeBeyond(low, high);
  if (metric.aggregate == Aggregate::kMean && lower.tally.count > 1) {
    DoubtInfinities(lower.tally, upper == nullptr ? lower.tally : upper->tally, &beyond);
  }
  return beyond;
}

}  // namespace

void WindowState::Merge(const WindowState& other, const PlanWindow& window) {
  requests += other.requests;
  series.Merge(other.series, *window.metric.quantity);
  if (other.population.empty()) return;
  if (population.empty()) population.resize(1);
  population[0].population.Merge(other.population[0].population);
  population[0].calibration.Merge(other.population[0].calibration);
}

void WindowState::Visit(Archive& archive, const Plan& plan, const PlanWindow& window) {
  archive.U64(requests);
  const bool of_population = window.metric.quantity->level == QuantityLevel::kPopulation;
  const size_t series_index =
      of_population ? Top1Series() : plan.SeriesOf(*window.metric.quantity, window.metric.side);
  series.Visit(archive, plan.thresholds(series_index).size(), *window.metric.quantity);
  if (!of_population) return;
  population.resize(1);
  population[0].population.Visit(archive, plan.field_sets().size(),
                                 plan.repeats() != Repeats::kNone, plan.events());
  population[0].calibration.Visit(archive);
}

WindowValue TakeMetric(const Plan& plan, const PlanWindow& window, const WindowState& state) {
  if (window.metric.quantity->level == QuantityLevel::kPopulation) {
    return TakePopulation(plan, window, state);
  }
  WindowValue value;
  value.defined = state.series.count() != 0;
  value.complete =
      state.series.missing == 0 && !HoldsImpossible(*window.metric.quantity, state.series);
  if (!value.defined) return value;
  const bool exact = state.series.exact();
  // An interval around 0 is non-zero at both ends and may still hold 0: nothing is then known.
  const bool around_zero = !exact && window.metric.quantity->min < 0;
  if (around_zero && window.metric.aggregate == Aggregate::kRate) return WindowValue();
  const Moments low = exact ? Moments() : state.series.Stream(Stream::kLow);
  const Moments high = exact ? Moments() : state.series.Stream(Stream::kHigh);
  const Moments& lower = exact ? state.series.point : low;
  const Moments& upper = exact ? state.series.point : high;
  value.value = {EndOf(window, lower, Stream::kLow), EndOf(window, upper, Stream::kHigh)};
  // Infinities of both signs have no mean: nothing is then known about it.
  if (std::isnan(value.value.lo) || std::isnan(value.value.hi)) return WindowValue();
  const MeanTally lower_values(window.metric, lower.tally);
  std::optional<MeanTally> upper_values;
  if (!exact) upper_values.emplace(window.metric, upper.tally);
  for (const double threshold : window.thresholds) {
    value.beyond.push_back(CompareEnds(plan, window.metric, lower_values,
                                       exact ? nullptr : &*upper_values, threshold));
  }
  return value;
}

Beyond CompareTallies(const Plan& plan, const Metric& metric, const Tally& lower,
                      const Tally* upper, double threshold) {
  const MeanTally lower_values(metric, lower);
  if (upper == nullptr) return CompareEnds(plan, metric, lower_values, nullptr, threshold);
  const MeanTally upper_values(metric, *upper);
  return CompareEnds(plan, metric, lower_values, &upper_values, threshold);
}

void WindowTally::Fold(const WindowValue& value) {
  incomplete += value.complete ? 0 : 1;
  if (!value.defined) {
    ++undefined;
    return;
  }
  ++windows;
  beyond.resize(value.beyond.size());
  for (size_t i = 0; i < beyond.size(); ++i) {
    beyond[i].above_sure += value.beyond[i].above_sure;
    beyond[i].above_possible += value.beyond[i].above_possible;
    beyond[i].below_sure += value.beyond[i].below_sure;
    beyond[i].below_possible += value.beyond[i].below_possible;
  }
  lows.Add(value.value.lo);
  highs.Add(value.value.hi);
}

void WindowTally::Merge(const WindowTally& other, const PlanWindow& window) {
  windows += other.windows;
  undefined += other.undefined;
  incomplete += other.incomplete;
  unplaced += other.unplaced;
  beyond.resize(std::max(beyond.size(), other.beyond.size()));
  for (size_t i = 0; i < other.beyond.size(); ++i) {
    beyond[i].above_sure += other.beyond[i].above_sure;
    beyond[i].above_possible += other.beyond[i].above_possible;
    beyond[i].below_sure += other.beyond[i].below_sure;
    beyond[i].below_possible += other.beyond[i].below_possible;
  }
  lows.Merge(other.lows);
  highs.Merge(other.highs);
  for (const auto& [index, state] : other.open) open[index].Merge(state, window);
}

void WindowTally::Visit(Archive& archive, const Plan& plan, const PlanWindow& window) {
  archive.U64(windows);
  archive.U64(undefined);
  archive.U64(incomplete);
  archive.U64(unplaced);
  if (windows != 0) {
    beyond.resize(window.thresholds.size());
    for (Beyond& row : beyond) {
      for (uint64_t* count :
           {&row.above_sure, &row.above_possible, &row.below_sure, &row.below_possible}) {
        archive.U64(*count);
        if (archive.reading() && *count > windows) archive.Fail("more windows than there are");
      }
    }
    lows.Visit(archive);
    highs.Visit(archive);
    if (archive.reading() && (lows.total() != windows || highs.total() != windows)) {
      archive.Fail("windows that do not add up");
    }
  }
  size_t count = open.size();
  archive.Length(count, 4);
  if (!archive.reading()) {
    for (auto& [index, state] : open) {
      int64_t number = index;
      archive.I64(number);
      state.Visit(archive, plan, window);
    }
    return;
  }
  for (size_t i = 0; i < count && archive.ok(); ++i) {
    int64_t index = 0;
    archive.I64(index);
    if (!open.empty() && index <= open.rbegin()->first)
      archive.Fail("windows that are not in order");
    if (archive.ok()) open[index].Visit(archive, plan, window);
  }
}

bool WindowSet::Contains(int64_t index) const {
  const auto after = std::upper_bound(
      runs_.begin(), runs_.end(), index,
      [](int64_t wanted, const std::pair<int64_t, int64_t>& run) { return wanted < run.first; });
  return after != runs_.begin() && std::prev(after)->second >= index;
}

void WindowSet::AddRun(int64_t first, int64_t last) {
  auto after = std::upper_bound(
      runs_.begin(), runs_.end(), first,
      [](int64_t wanted, const std::pair<int64_t, int64_t>& run) { return wanted < run.first; });
  const bool joins_before = after != runs_.begin() && std::prev(after)->second == first - 1;
  const bool joins_after = after != runs_.end() && after->first == last + 1;
  if (joins_before && joins_after) {
    std::prev(after)->second = after->second;
    runs_.erase(after);
  } else if (joins_before) {
    std::prev(after)->second = last;
  } else if (joins_after) {
    after->first = first;
  } else {
    runs_.insert(after, {first, last});
  }
}

void WindowSet::Visit(Archive& archive) {
  archive.Each(
      runs_,
      [&](Archive& a, std::pair<int64_t, int64_t>& run) {
        a.I64(run.first);
        a.I64(run.second);
        const bool follows = &run == runs_.data() || (&run)[-1].second < run.first - 1;
        // Window numbers are far from the ends of the integers, so first - 1 exists.
        if (a.reading() &&
            (run.first > run.second || run.first < -(int64_t{1} << 60) || !follows)) {
          a.Fail("window numbers that are not in order");
        }
      },
      2);
}

std::optional<std::pair<int64_t, int64_t>> WindowFill::Ends() const {
  std::vector<int64_t> ends;
  if (!open.empty()) ends = {open.begin()->first, open.rbegin()->first};
  if (!complete.runs().empty()) {
    ends.push_back(complete.runs().front().first);
    ends.push_back(complete.runs().back().second);
  }
  if (ends.empty()) return std::nullopt;
  const auto [first, last] = std::minmax_element(ends.begin(), ends.end());
  return std::make_pair(*first, *last);
}

void WindowFill::Visit(Archive& archive) {
  std::vector<std::pair<int64_t, uint64_t>> rows(open.begin(), open.end());
  archive.Each(
      rows,
      [&](Archive& a, std::pair<int64_t, uint64_t>& row) {
        a.I64(row.first);
        a.U64(row.second);
        const bool partial = row.second >= 1 && row.second < static_cast<uint64_t>(size);
        const bool follows = &row == rows.data() || (&row)[-1].first < row.first;
        if (a.reading() && !(partial && follows)) a.Fail("an open window that is full");
      },
      2);
  if (archive.reading()) open = {rows.begin(), rows.end()};
  complete.Visit(archive);
}

std::optional<int64_t> WindowIndex(const Window& window, Placement placement,
                                   const RequestPair& request) {
  const bool by_time = window.kind == Window::Kind::kTime;
  const std::string_view field = by_time ? "started_at_ms" : "ordinal";
  auto place =
      placement == Placement::kInfer ? request.infer->Number(field) : request.train->Number(field);
  if (!place && placement == Placement::kTrainElseInfer) place = request.infer->Number(field);
  // Beyond 2^53 a double no longer counts one by one.
  if (!place || !(*place >= 0 && *place <= 9007199254740992.0)) return std::nullopt;
  return static_cast<int64_t>(*place) / window.size;
}

std::vector<WindowFill> WindowFills(const Plan& plan) {
  std::set<std::pair<int64_t, Placement>> kinds;
  for (const PlanWindow& row : plan.windows()) {
    if (row.window.kind == Window::Kind::kRequests) {
      kinds.emplace(row.window.size, PlacementOf(row));
    }
  }
  std::vector<WindowFill> fills;
  fills.reserve(kinds.size());
  for (const auto& [size, placement] : kinds) fills.push_back({size, placement, {}, {}});
  return fills;
}

}  // namespace kcc
