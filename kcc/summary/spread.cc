#include "kcc/summary/spread.h"

#include <algorithm>
#include <array>
#include <memory>

#include "kcc/summary/series.h"

namespace kcc {
namespace {

constexpr size_t kGroup = 8;

// The cells of one pattern: the first as it is, a sum of its own from the second on.
template <class Part>
struct Pattern {
  const Part* first = nullptr;
  std::unique_ptr<Part> sum;
  const Part& value() const { return sum ? *sum : *first; }
};

// Adds part(cell) to part(slice) for every cell and slice. `part` gives a pointer, null or empty
// where there is nothing to add; `add` adds one part to another; `takes` says whether a slice does.
template <class Part, class PartOf, class Add, class Takes>
void Spread(const std::vector<SpreadCell>& cells, std::vector<SliceStats>* slices, PartOf part,
            Add add, Takes takes) {
  std::array<Pattern<Part>, size_t{1} << kGroup> patterns;
  for (size_t group = 0; group * kGroup < slices->size(); ++group) {
    for (const SpreadCell& cell : cells) {
      const uint64_t word = cell.bits->words()[group / 8];
      Pattern<Part>& pattern = patterns[(word >> (kGroup * (group % 8))) & 0xff];
      const Part* from = part(*cell.stats);
      if (from == nullptr) continue;
      if (pattern.first == nullptr) {
        pattern.first = from;
        continue;
      }
      if (pattern.sum == nullptr) pattern.sum = std::make_unique<Part>(*pattern.first);
      add(*from, pattern.sum.get());
    }
    const size_t last = std::min(slices->size(), (group + 1) * kGroup);
    for (size_t slice = group * kGroup; slice < last; ++slice) {
      if (!takes(slice)) continue;
      for (size_t p = 1; p < patterns.size(); ++p) {
        if (patterns[p].first == nullptr || ((p >> (slice % kGroup)) & 1) == 0) continue;
        add(patterns[p].value(), const_cast<Part*>(part((*slices)[slice], /*even_empty=*/true)));
      }
    }
    patterns = {};
  }
}

// A stream of values: `end` -1 for the exact ones, else the low or high ends.
void SpreadStream(size_t series, int end, const std::vector<SpreadCell>& cells,
                  std::vector<SliceStats>* slices) {
  const auto stream = [=](const SliceStats& stats, bool even_empty = false) -> const Moments* {
    if (series >= stats.series.size()) return nullptr;
    const SeriesStats& from = stats.series[series];
    if (end < 0) return even_empty || !from.point.empty() ? &from.point : nullptr;
    return from.ends.empty() ? nullptr : &from.ends[static_cast<size_t>(end)];
  };
  Spread<Moments>(
      cells, slices, stream, [](const Moments& from, Moments* into) { into->Merge(from); },
      [](size_t) { return true; });
}

void SpreadSeries(size_t series, const std::vector<SpreadCell>& cells,
                  std::vector<SliceStats>* slices) {
  const Quantity& quantity = SeriesQuantity(series);
  bool intervals = false;
  for (const SpreadCell& cell : cells) {
    if (series >= cell.stats->series.size()) continue;
    const SeriesStats& from = cell.stats->series[series];
    if (from.empty()) continue;
    intervals = intervals || !from.ends.empty();
    // Most of a cell's worst values are not among a slice's: one comparison tells.
    for (size_t slice = 0; slice < slices->size(); ++slice) {
      if (!cell.bits->Test(slice)) continue;
      SeriesStats& into = (*slices)[slice].series[series];
      into.missing += from.missing;
      into.worst.Merge(quantity, from.worst);
      if (!from.ends.empty()) into.Ends();
    }
  }
  SpreadStream(series, -1, cells, slices);
  if (!intervals) return;
  SpreadStream(series, 0, cells, slices);
  SpreadStream(series, 1, cells, slices);
}

bool Names(const std::vector<std::string>& slices, const std::string& name) {
  return std::binary_search(slices.begin(), slices.end(), name);
}

}  // namespace

void SpreadCells(const Plan& plan, const std::vector<SpreadCell>& cells,
                 std::vector<SliceStats>* slices) {
  const auto everywhere = [](size_t) { return true; };
  const auto merge = [](const auto& from, auto* into) { into->Merge(from); };
  for (size_t i = 0; i < SeriesCount(); ++i) SpreadSeries(i, cells, slices);
  for (size_t i = 0; i < TokenSeriesCount(); ++i) {
    Spread<ClusterStats>(
        cells, slices,
        [i](const SliceStats& stats, bool even_empty = false) -> const ClusterStats* {
          if (i >= stats.clusters.size()) return nullptr;
          const ClusterStats& cluster = stats.clusters[i];
          return even_empty || cluster.point.requests != 0 || !cluster.ends.empty() ? &cluster
                                                                                    : nullptr;
        },
        merge, everywhere);
  }
  const auto spread_whole = [&](auto member, auto empty) {
    using Part = std::remove_cvref_t<decltype(std::declval<SliceStats>().*member)>;
    Spread<Part>(
        cells, slices,
        [=](const SliceStats& stats, bool even_empty = false) {
          return even_empty || !empty(stats.*member) ? &(stats.*member) : nullptr;
        },
        merge, everywhere);
  };
  spread_whole(&SliceStats::calibration,
               [](const Calibration& part) { return part.count() + part.unlabelled == 0; });
  const auto no_entries = [](const Histogram& part) { return part.empty(); };
  spread_whole(&SliceStats::top1_disagreeing, no_entries);
  spread_whole(&SliceStats::top5_disagreeing, no_entries);
  spread_whole(&SliceStats::population,
               [](const PopulationStats& part) { return part.requests == 0; });
  for (size_t i = 0; i < plan.windows().size(); ++i) {
    const PlanWindow& window = plan.windows()[i];
    Spread<WindowTally>(
        cells, slices,
        [i](const SliceStats& stats, bool even_empty = false) {
          return even_empty || !stats.windows[i].empty() ? &stats.windows[i] : nullptr;
        },
        [&](const WindowTally& from, WindowTally* into) { into->Merge(from, window); },
        [&](size_t slice) { return Names(window.slices, plan.slices()[slice].name); });
  }
  for (size_t i = 0; i < plan.tests().size(); ++i) {
    Spread<BetSums>(
        cells, slices,
        [i](const SliceStats& stats, bool even_empty = false) {
          return even_empty || !stats.tests[i].empty() ? &stats.tests[i] : nullptr;
        },
        merge,
        [&](size_t slice) { return Names(plan.tests()[i].slices, plan.slices()[slice].name); });
  }
  for (const SpreadCell& cell : cells) {
    for (size_t slice = 0; slice < slices->size(); ++slice) {
      if (cell.bits->Test(slice)) (*slices)[slice].tokens += cell.stats->tokens;
    }
  }
}

}  // namespace kcc
