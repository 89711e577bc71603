#include "kcc/summary/restrict.h"

#include <algorithm>

#include "kcc/base/check.h"
#include "kcc/metric/token_slots.h"
#include "kcc/summary/series.h"

namespace kcc {
namespace {

// Of each wanted item, its place among those that there are; both lists are sorted.
template <class T>
std::vector<size_t> PlacesOf(std::span<const T> wanted, std::span<const T> held) {
  std::vector<size_t> places;
  for (const T& one : wanted) {
    const auto found = std::find(held.begin(), held.end(), one);
    KCC_CHECK(found != held.end());
    places.push_back(static_cast<size_t>(found - held.begin()));
  }
  return places;
}

// 2n + 1 counters, below, at and between n thresholds, become 2k + 1: what lay on either side of a
// threshold that is left out, or at it, now lies together.
void RestrictTally(const std::vector<size_t>& kept, Tally* tally) {
  if (tally->intervals.empty()) return;
  std::vector<uint64_t> intervals;
  if (!kept.empty()) {
    intervals.resize(2 * kept.size() + 1);
    size_t into = 0;
    for (size_t i = 0; i < tally->intervals.size(); ++i) {
      const bool at = into < kept.size() && i == 2 * kept[into] + 1;
      intervals[2 * into + (at ? 1 : 0)] += tally->intervals[i];
      if (at) ++into;
    }
  }
  tally->intervals = std::move(intervals);
}

void RestrictSeries(const std::vector<size_t>& kept, SeriesStats* series) {
  RestrictTally(kept, &series->point.tally);
  for (Moments& end : series->ends) RestrictTally(kept, &end.tally);
}

void RestrictClusters(const std::vector<size_t>& kept, ClusterStats* clusters) {
  const auto keep_splits = [&](ClusterSums* sums) {
    if (sums->splits.empty()) return;
    std::vector<ClusterSplit> splits;
    splits.reserve(kept.size());
    for (const size_t place : kept) splits.push_back(sums->splits[place]);
    sums->splits = std::move(splits);
  };
  keep_splits(&clusters->point);
  for (ClusterSums& end : clusters->ends) keep_splits(&end);
}

// One restriction: what of `from` each part of `to` is.
class Restriction {
 public:
  Restriction(const Plan& from, const Plan& to) : from_(from), to_(to) {
    field_sets_ = PlacesOf<std::vector<std::string>>(to.field_sets(), from.field_sets());
    for (const PlanWindow& window : to.windows()) {
      windows_.push_back(
          static_cast<size_t>(from.FindWindow(window.metric, window.window, window.fields)));
    }
    for (const PlanTest& test : to.tests()) {
      tests_.push_back(static_cast<size_t>(from.FindTest(test)));
    }
    for (size_t i = 0; i < to.series_count(); ++i) {
      // Built-in series have one number in every plan; a metric of one's own is known by its name.
      const auto found = i < SeriesCount() ? std::optional(i) : from.FindSeries(to.name(i));
      KCC_CHECK(found.has_value());
      series_.push_back(*found);
      thresholds_.push_back(PlacesOf<double>(to.thresholds(i), from.thresholds(*found)));
    }
  }

  SliceStats Slice(const std::string& name, const SliceStats& held) const {
    SliceStats slice(to_);
    slice.tokens = held.tokens;
    slice.unvouched = held.unvouched;
    slice.calibration = held.calibration;
    slice.top1_disagreeing = held.top1_disagreeing;
    slice.top5_disagreeing = held.top5_disagreeing;
    slice.population = held.population;
    RestrictPopulation(&slice.population);
    for (size_t i = 0; i < series_.size(); ++i) {
      if (!to_.Keeps(i) || !Computed(i)) continue;
      slice.series[i] = held.series[series_[i]];
      RestrictSeries(thresholds_[i], &slice.series[i]);
      if (!to_.IsToken(i)) continue;
      slice.clusters[i] = held.clusters[series_[i]];
      RestrictClusters(thresholds_[i], &slice.clusters[i]);
    }
    for (size_t i = 0; i < windows_.size(); ++i) {
      if (Names(to_.windows()[i].slices, name)) slice.windows[i] = Window(i, held);
    }
    for (size_t i = 0; i < tests_.size(); ++i) {
      if (Names(to_.tests()[i].slices, name)) slice.tests[i] = held.tests[tests_[i]];
    }
    return slice;
  }

 private:
  static bool Names(const std::vector<std::string>& slices, const std::string& name) {
    return std::binary_search(slices.begin(), slices.end(), name);
  }

  // Some quantities have a place in every summary, and values only where they were asked for.
  bool Computed(size_t series) const {
    if (!IsTokenSeries(series)) return true;
    return to_.slots()[TokenSlot(SeriesQuantity(series), SeriesSide(series))];
  }

  void RestrictPopulation(PopulationStats* population) const {
    for (SidePopulation& side : population->sides) {
      if (!side.coverage.empty()) {
        std::vector<CoverageCounts> coverage;
        for (const size_t place : field_sets_) coverage.push_back(side.coverage[place]);
        side.coverage = std::move(coverage);
      }
      if (to_.repeats() == Repeats::kNone) side.spreads = {};
      if (!to_.events()) side.conforming = {};
    }
  }

  WindowTally Window(size_t i, const SliceStats& held) const {
    const PlanWindow& wanted = to_.windows()[i];
    const PlanWindow& row = from_.windows()[windows_[i]];
    WindowTally tally = held.windows[windows_[i]];
    if (!tally.beyond.empty()) {
      std::vector<Beyond> beyond;
      for (const size_t place : PlacesOf<double>(wanted.thresholds, row.thresholds)) {
        beyond.push_back(tally.beyond[place]);
      }
      tally.beyond = std::move(beyond);
    }
    const Quantity& quantity = *wanted.metric.quantity;
    const size_t series = quantity.level == QuantityLevel::kPopulation
                              ? Top1Series()
                              : to_.SeriesOf(quantity, wanted.metric.side);
    for (auto& [index, state] : tally.open) {
      RestrictSeries(thresholds_[series], &state.series);
      for (PopulationWindow& one : state.population) RestrictPopulation(&one.population);
    }
    return tally;
  }

  const Plan& from_;
  const Plan& to_;
  std::vector<size_t> field_sets_, windows_, tests_;  // places in from_
  std::vector<size_t> series_;                        // numbers in from_, by series of to_
  std::vector<std::vector<size_t>> thresholds_;       // places in from_, by series of to_
};

Result<> CheckCovered(const Plan& from, const Plan& to) {
  KCC_TRY_VOID(from.Covers(to));
  for (const PlanTest& test : to.tests()) {
    if (from.tests()[static_cast<size_t>(from.FindTest(test))].grid == test.grid) continue;
    return InvalidError("the summary was measured with another grid of bets for " +
                        MetricName(test.metric));
  }
  return {};
}

}  // namespace

Result<Summary> Restrict(const Summary& summary, const Plan& plan) {
  KCC_TRY_VOID(CheckCovered(summary.plan, plan));
  Summary restricted(plan);
  restricted.format = summary.format;
  restricted.requests = summary.requests;
  restricted.sources = summary.sources;
  restricted.advantage_abs_max = summary.advantage_abs_max;
  const Restriction restriction(summary.plan, plan);
  for (size_t i = 0; i < plan.slices().size(); ++i) {
    const std::string& name = plan.slices()[i].name;
    restricted.slices[i] = restriction.Slice(name, *summary.FindSlice(name));
  }
  for (WindowFill& fill : restricted.fills) {
    const auto held =
        std::find_if(summary.fills.begin(), summary.fills.end(), [&](const WindowFill& one) {
          return one.size == fill.size && one.placement == fill.placement;
        });
    KCC_CHECK(held != summary.fills.end());
    fill = *held;
  }
  return restricted;
}

}  // namespace kcc
