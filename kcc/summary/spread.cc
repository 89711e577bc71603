#include "kcc/summary/spread.h"

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <utility>

#include "kcc/summary/series.h"

namespace kcc {
namespace {

constexpr size_t kGroup = 8;
constexpr size_t kPatterns = size_t{1} << kGroup;

// Up to eight slices, and which of them each cell belongs to.
// Example with three slices a, b, c and cells of patterns 011, 011, 101 (bit 0 is a): the first two
// are added up first, since they go to the same slices. Then a takes that sum and the third cell, b
// the sum, c the third cell: 1 + 2 + 1 + 1 additions, where cell by cell would take 6. With 512
// cells and 256 patterns at most the saving is larger.
struct Group {
  std::vector<size_t> slices;
  std::vector<uint8_t> patterns;  // by cell
};

std::vector<Group> MakeGroups(const std::vector<size_t>& slices,
                              const std::vector<SpreadCell>& cells) {
  std::vector<Group> groups;
  for (size_t first = 0; first < slices.size(); first += kGroup) {
    Group group;
    const size_t last = std::min(slices.size(), first + kGroup);
    for (size_t i = first; i < last; ++i) group.slices.push_back(slices[i]);
    for (const SpreadCell& cell : cells) {
      unsigned pattern = 0;
      for (size_t i = 0; i < group.slices.size(); ++i) {
        pattern |= (cell.bits->Test(group.slices[i]) ? 1u : 0u) << i;
      }
      group.patterns.push_back(static_cast<uint8_t>(pattern));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

template <class Part>
void Assign(const Part& from, Part* into) {
  *into = from;
}

// Most of a stream's room is unused: what it holds is added, nothing is copied or allocated.
void Assign(const Moments& from, Moments* into) {
  into->Clear();
  into->Merge(from);
}

// Parts added up by some key: a single one stays where it is, several get a sum of their own. The
// sums are used again and again.
template <class Part>
class Sums {
 public:
  void Reset(size_t keys) {
    values_.assign(keys, nullptr);
    own_.assign(keys, nullptr);
    keys_.clear();
    used_ = 0;
  }

  template <class Add>
  void Put(size_t key, const Part* part, const Add& add) {
    if (values_[key] == nullptr) {
      values_[key] = part;
      keys_.push_back(key);
      return;
    }
    // The second part of a key: only now is a sum needed, since the first stays where it is and
    // belongs to a cell, which must not change.
    if (own_[key] == nullptr) {
      if (used_ == pool_.size()) pool_.push_back(std::make_unique<Part>());
      own_[key] = pool_[used_++].get();
      Assign(*values_[key], own_[key]);
      values_[key] = own_[key];
    }
    add(*part, own_[key]);
  }

  const std::vector<size_t>& keys() const { return keys_; }  // of the parts put in
  const Part* value(size_t key) const { return values_[key]; }

 private:
  std::vector<const Part*> values_;
  std::vector<Part*> own_;
  std::vector<size_t> keys_;
  std::vector<std::unique_ptr<Part>> pool_;
  size_t used_ = 0;
};

// Adds one statistic of the cells to the slices.
template <class Part>
class Spreader {
 public:
  explicit Spreader(const std::vector<Group>& groups) : groups_(groups) {}

  // `parts`: by cell, null where there is nothing to add. `into` gives the slice's part, or null
  // where the slice does not take it; `add` adds one part to another.
  template <class Into, class Add>
  void Spread(const std::vector<const Part*>& parts, const Into& into, const Add& add) {
    for (const Group& group : groups_) {
      patterns_.Reset(kPatterns);
      for (size_t i = 0; i < parts.size(); ++i) {
        if (parts[i] == nullptr || group.patterns[i] == 0) continue;
        patterns_.Put(group.patterns[i], parts[i], add);
      }
      for (size_t i = 0; i < group.slices.size(); ++i) AddPatterns(i, group.slices[i], into, add);
    }
  }

 private:
  template <class Into, class Add>
  void AddPatterns(size_t bit, size_t slice, const Into& into, const Add& add) {
    Part* sum = nullptr;
    for (const size_t pattern : patterns_.keys()) {
      if (((pattern >> bit) & 1) == 0) continue;
      // Asked for late: making room for a part that stays empty would show in the bytes.
      if (sum == nullptr) sum = into(slice);
      if (sum == nullptr) return;
      add(*patterns_.value(pattern), sum);
    }
  }

  const std::vector<Group>& groups_;
  Sums<Part> patterns_;
};

// One call's work: the cells, the slices and what the statistics share.
class CellSpread {
 public:
  CellSpread(const Plan& plan, const std::vector<SpreadCell>& cells,
             const std::vector<size_t>& targets, std::vector<SliceStats>* slices)
      : plan_(plan),
        cells_(cells),
        targets_(targets),
        slices_(*slices),
        groups_(MakeGroups(targets, cells)),
        streams_(groups_) {}

  void AddCounts();
  void AddSeries();
  void AddClusters();
  void AddWholes();
  void AddWindows();
  void AddTests();

 private:
  // Calls what(slice) for each slice of the cell.
  template <class What>
  void ForSlices(const SpreadCell& cell, const What& what) {
    for (const size_t slice : targets_) {
      if (cell.bits->Test(slice)) what(slices_[slice]);
    }
  }

  template <class Part, class PartOf>
  std::vector<const Part*> Parts(const PartOf& part) const {
    std::vector<const Part*> parts;
    parts.reserve(cells_.size());
    for (const SpreadCell& cell : cells_) parts.push_back(part(*cell.stats));
    return parts;
  }

  // A part that every slice takes, by a pointer to the member.
  template <class Part, class Empty>
  void AddWhole(Part SliceStats::*member, const Empty& empty);
  void AddStream(size_t series, int end);
  void AddWorst(size_t series);

  const Plan& plan_;
  const std::vector<SpreadCell>& cells_;
  const std::vector<size_t>& targets_;
  std::vector<SliceStats>& slices_;
  const std::vector<Group> groups_;
  Spreader<Moments> streams_;
};

constexpr auto kMerge = [](const auto& from, auto* into) { into->Merge(from); };

// Plain integers: one addition for each slice costs less than grouping them.
void CellSpread::AddCounts() {
  for (const SpreadCell& cell : cells_) {
    ForSlices(cell, [&](SliceStats& slice) {
      slice.tokens += cell.stats->tokens;
      slice.calibration.unlabelled += cell.stats->calibration.unlabelled;
    });
  }
}

// A stream of values: `end` -1 for the exact ones, else the low or high ends.
void CellSpread::AddStream(size_t series, int end) {
  const auto parts = Parts<Moments>([&](const SliceStats& stats) -> const Moments* {
    if (series >= stats.series.size()) return nullptr;
    const SeriesStats& from = stats.series[series];
    if (end < 0) return from.point.empty() ? nullptr : &from.point;
    return from.ends.empty() ? nullptr : &from.ends[static_cast<size_t>(end)];
  });
  // Points and ends are added apart, since a slice has ends only if one of its cells has: how the
  // requests were split among cells must not be seen in the slice.
  const auto into = [&](size_t slice) {
    SeriesStats& stats = slices_[slice].series[series];
    return end < 0 ? &stats.point : &stats.Ends()[static_cast<size_t>(end)];
  };
  streams_.Spread(parts, into, kMerge);
}

// All rows worst first: each goes to the end of the slices' lists, until those are full.
void CellSpread::AddWorst(size_t series) {
  struct Row {
    double badness;
    const WorstValue* value;
    const SliceBits* bits;
  };
  const Quantity& quantity = plan_.quantity(series);
  std::vector<Row> rows;
  for (const SpreadCell& cell : cells_) {
    if (series >= cell.stats->series.size()) continue;
    for (const WorstValue& value : cell.stats->series[series].worst.values()) {
      rows.push_back({WorstList::Badness(quantity.direction, value.value), &value, cell.bits});
    }
  }
  std::sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) {
    if (a.badness != b.badness) return a.badness > b.badness;
    return WorstList::Worse(quantity, *a.value, *b.value);
  });
  SliceBits all(slices_.size());
  for (const size_t slice : targets_) all.Set(slice);
  std::vector<uint64_t> open = all.words();
  size_t left = targets_.size();
  // Worst first, so that a slice that refuses one row would refuse all that follow: it is closed.
  for (const Row& row : rows) {
    if (left == 0) return;
    for (size_t word = 0; word < open.size(); ++word) {
      for (uint64_t of = open[word] & row.bits->words()[word]; of != 0; of &= of - 1) {
        const auto bit = static_cast<size_t>(std::countr_zero(of));
        WorstList& into = slices_[64 * word + bit].series[series].worst;
        if (into.Takes(quantity, *row.value)) {
          const WorstValue& from = *row.value;
          into.Offer(quantity, from.value, from.request, from.position, from.token);
        } else {
          open[word] &= ~(uint64_t{1} << bit);
          --left;
        }
      }
    }
  }
}

void CellSpread::AddSeries() {
  for (size_t series = 0; series < plan_.series_count(); ++series) {
    bool any = false;
    bool intervals = false;
    for (const SpreadCell& cell : cells_) {
      if (series >= cell.stats->series.size()) continue;
      const SeriesStats& from = cell.stats->series[series];
      any = any || from.count() != 0;
      intervals = intervals || !from.ends.empty();
      if (from.missing == 0) continue;
      ForSlices(cell, [&](SliceStats& slice) { slice.series[series].missing += from.missing; });
    }
    if (!any) continue;
    AddWorst(series);
    AddStream(series, -1);
    if (!intervals) continue;
    AddStream(series, 0);
    AddStream(series, 1);
  }
}

void CellSpread::AddClusters() {
  Spreader<ClusterStats> spreader(groups_);
  for (size_t i = 0; i < plan_.token_series_end(); ++i) {
    const auto parts = Parts<ClusterStats>([&](const SliceStats& stats) -> const ClusterStats* {
      if (i >= stats.clusters.size()) return nullptr;
      const ClusterStats& cluster = stats.clusters[i];
      return cluster.point.requests != 0 || !cluster.ends.empty() ? &cluster : nullptr;
    });
    spreader.Spread(
        parts, [&](size_t slice) { return &slices_[slice].clusters[i]; }, kMerge);
  }
}

template <class Part, class Empty>
void CellSpread::AddWhole(Part SliceStats::*member, const Empty& empty) {
  const auto parts = Parts<Part>(
      [&](const SliceStats& stats) { return empty(stats.*member) ? nullptr : &(stats.*member); });
  Spreader<Part> spreader(groups_);
  spreader.Spread(
      parts, [&](size_t slice) { return &(slices_[slice].*member); }, kMerge);
}

void CellSpread::AddWholes() {
  const auto no_entries = [](const Histogram& part) { return part.empty(); };
  AddWhole(&SliceStats::top1_disagreeing, no_entries);
  AddWhole(&SliceStats::top5_disagreeing, no_entries);
  AddWhole(&SliceStats::population, [](const PopulationStats& part) { return part.requests == 0; });
  // Unlabelled tokens are among the counts.
  const auto parts = Parts<std::array<SideCalibration, 2>>([](const SliceStats& stats) {
    return stats.calibration.count() == 0 ? nullptr : &stats.calibration.sides;
  });
  Spreader<std::array<SideCalibration, 2>> spreader(groups_);
  spreader.Spread(
      parts, [&](size_t slice) { return &slices_[slice].calibration.sides; },
      [](const auto& from, auto* into) {
        for (size_t side = 0; side < from.size(); ++side) (*into)[side].Merge(from[side]);
      });
}

bool Names(const std::vector<std::string>& slices, const std::string& name) {
  return std::binary_search(slices.begin(), slices.end(), name);
}

void CellSpread::AddWindows() {
  // A slice takes a window only if a clause about it does: others would be dead weight.
  Spreader<WindowTally> spreader(groups_);
  for (size_t i = 0; i < plan_.windows().size(); ++i) {
    const PlanWindow& window = plan_.windows()[i];
    const auto parts = Parts<WindowTally>([&](const SliceStats& stats) {
      return stats.windows[i].empty() ? nullptr : &stats.windows[i];
    });
    spreader.Spread(
        parts,
        [&](size_t slice) {
          return Names(window.slices, plan_.slices()[slice].name) ? &slices_[slice].windows[i]
                                                                  : nullptr;
        },
        [&](const WindowTally& from, WindowTally* into) { into->Merge(from, window); });
  }
}

void CellSpread::AddTests() {
  Spreader<BetSums> spreader(groups_);
  for (size_t i = 0; i < plan_.tests().size(); ++i) {
    const PlanTest& test = plan_.tests()[i];
    const auto parts = Parts<BetSums>([&](const SliceStats& stats) {
      return stats.tests[i].empty() ? nullptr : &stats.tests[i];
    });
    spreader.Spread(
        parts,
        [&](size_t slice) {
          return Names(test.slices, plan_.slices()[slice].name) ? &slices_[slice].tests[i]
                                                                : nullptr;
        },
        kMerge);
  }
}

}  // namespace

void SpreadCells(const Plan& plan, const std::vector<SpreadCell>& cells,
                 const std::vector<size_t>& targets, std::vector<SliceStats>* slices) {
  if (cells.empty()) return;
  CellSpread spread(plan, cells, targets, slices);
  // Each adds one kind of statistic of all cells, so that what is added to stays in cache.
  spread.AddCounts();
  spread.AddSeries();
  spread.AddClusters();
  spread.AddWholes();
  spread.AddWindows();
  spread.AddTests();
}

}  // namespace kcc
