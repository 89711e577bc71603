#include "kcc/summary/spread.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

#include "kcc/summary/series.h"

namespace kcc {
namespace {

constexpr size_t kGroup = 8;
constexpr size_t kPatterns = size_t{1} << kGroup;

// Up to eight slices, and which of them each member (a cell, or a class of cells) belongs to.
struct Group {
  std::vector<size_t> slices;
  std::vector<uint8_t> patterns;  // by member
};

std::vector<Group> MakeGroups(const std::vector<size_t>& slices,
                              const std::vector<const SliceBits*>& members) {
  std::vector<Group> groups;
  for (size_t first = 0; first < slices.size(); first += kGroup) {
    Group group;
    const size_t last = std::min(slices.size(), first + kGroup);
    for (size_t i = first; i < last; ++i) group.slices.push_back(slices[i]);
    for (const SliceBits* bits : members) {
      unsigned pattern = 0;
      for (size_t i = 0; i < group.slices.size(); ++i) {
        pattern |= (bits->Test(group.slices[i]) ? 1u : 0u) << i;
      }
      group.patterns.push_back(static_cast<uint8_t>(pattern));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

// Who is added to whom, the same for every statistic.
struct Layout {
  Layout(const Plan& plan, const std::vector<SpreadCell>& cells) {
    std::vector<size_t> token_slices, request_slices;
    for (size_t i = 0; i < plan.slices().size(); ++i) {
      (plan.slices()[i].reads_token ? token_slices : request_slices).push_back(i);
    }
    std::vector<const SliceBits*> all, firsts;
    std::map<std::vector<uint64_t>, size_t> numbers;
    for (const SpreadCell& cell : cells) {
      SliceBits bits(plan.slices().size());
      for (const size_t slice : request_slices) {
        if (cell.bits->Test(slice)) bits.Set(slice);
      }
      const auto [place, is_new] = numbers.emplace(bits.words(), firsts.size());
      if (is_new) firsts.push_back(cell.bits);
      classes.push_back(place->second);
      all.push_back(cell.bits);
    }
    class_count = firsts.size();
    token_groups = MakeGroups(token_slices, all);
    request_groups = MakeGroups(request_slices, firsts);
  }

  std::vector<size_t> classes;  // by cell: cells of one class agree on all slices of requests
  size_t class_count = 0;
  std::vector<Group> token_groups;    // members: cells
  std::vector<Group> request_groups;  // members: classes
};

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
    used_ = 0;
  }

  template <class Add>
  void Put(size_t key, const Part* part, const Add& add) {
    if (values_[key] == nullptr) {
      values_[key] = part;
      return;
    }
    if (own_[key] == nullptr) {
      if (used_ == pool_.size()) pool_.push_back(std::make_unique<Part>());
      own_[key] = pool_[used_++].get();
      Assign(*values_[key], own_[key]);
      values_[key] = own_[key];
    }
    add(*part, own_[key]);
  }

  const std::vector<const Part*>& values() const { return values_; }  // null: no part has the key

 private:
  std::vector<const Part*> values_;
  std::vector<Part*> own_;
  std::vector<std::unique_ptr<Part>> pool_;
  size_t used_ = 0;
};

// Adds one statistic of the cells to the slices.
template <class Part>
class Spreader {
 public:
  explicit Spreader(const Layout& layout) : layout_(layout) {}

  // `parts`: by cell, null where there is nothing to add. `into` gives the slice's part, or null
  // where the slice does not take it; `add` adds one part to another.
  template <class Into, class Add>
  void Spread(const std::vector<const Part*>& parts, const Into& into, const Add& add) {
    for (const Group& group : layout_.token_groups) SpreadGroup(group, parts, into, add);
    classes_.Reset(layout_.class_count);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] != nullptr) classes_.Put(layout_.classes[i], parts[i], add);
    }
    for (const Group& group : layout_.request_groups) {
      SpreadGroup(group, classes_.values(), into, add);
    }
  }

 private:
  template <class Into, class Add>
  void SpreadGroup(const Group& group, const std::vector<const Part*>& members, const Into& into,
                   const Add& add) {
    patterns_.Reset(kPatterns);
    for (size_t i = 0; i < members.size(); ++i) {
      if (members[i] == nullptr || group.patterns[i] == 0) continue;
      patterns_.Put(group.patterns[i], members[i], add);
    }
    for (size_t i = 0; i < group.slices.size(); ++i) {
      Part* sum = nullptr;
      for (size_t p = 1; p < kPatterns; ++p) {
        if (patterns_.values()[p] == nullptr || ((p >> i) & 1) == 0) continue;
        if (sum == nullptr) sum = into(group.slices[i]);
        if (sum == nullptr) break;
        add(*patterns_.values()[p], sum);
      }
    }
  }

  const Layout& layout_;
  Sums<Part> classes_;
  Sums<Part> patterns_;
};

// One call's work: the cells, the slices and what the statistics share.
class CellSpread {
 public:
  CellSpread(const Plan& plan, const std::vector<SpreadCell>& cells,
             std::vector<SliceStats>* slices)
      : plan_(plan), cells_(cells), slices_(*slices), layout_(plan, cells), streams_(layout_) {}

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
    for (size_t i = 0; i < slices_.size(); ++i) {
      if (cell.bits->Test(i)) what(slices_[i]);
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
  std::vector<SliceStats>& slices_;
  Layout layout_;
  Spreader<Moments> streams_;
};

constexpr auto kMerge = [](const auto& from, auto* into) { into->Merge(from); };

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
  const auto into = [&](size_t slice) {
    SeriesStats& stats = slices_[slice].series[series];
    return end < 0 ? &stats.point : &stats.Ends()[static_cast<size_t>(end)];
  };
  streams_.Spread(parts, into, kMerge);
}

// Worst first: a slice whose list is full of worse values than a cell's worst has seen all it
// needs.
void CellSpread::AddWorst(size_t series) {
  const Quantity& quantity = SeriesQuantity(series);
  std::vector<std::pair<const WorstList*, const SliceBits*>> rows;
  for (const SpreadCell& cell : cells_) {
    if (series >= cell.stats->series.size()) continue;
    const WorstList& worst = cell.stats->series[series].worst;
    if (!worst.values().empty()) rows.emplace_back(&worst, cell.bits);
  }
  std::sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    return WorstList::Worse(quantity, a.first->values()[0], b.first->values()[0]);
  });
  std::vector<size_t> open(slices_.size());
  std::iota(open.begin(), open.end(), size_t{0});
  for (const auto& [worst, bits] : rows) {
    if (open.empty()) return;
    std::erase_if(open, [&, from = worst, of = bits](size_t slice) {
      if (!of->Test(slice)) return false;
      WorstList& into = slices_[slice].series[series].worst;
      if (!into.Takes(quantity, from->values()[0])) return true;
      into.Merge(quantity, *from);
      return false;
    });
  }
}

void CellSpread::AddSeries() {
  for (size_t series = 0; series < SeriesCount(); ++series) {
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
  Spreader<ClusterStats> spreader(layout_);
  for (size_t i = 0; i < TokenSeriesCount(); ++i) {
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
  Spreader<Part> spreader(layout_);
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
  Spreader<std::array<SideCalibration, 2>> spreader(layout_);
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
  Spreader<WindowTally> spreader(layout_);
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
  Spreader<BetSums> spreader(layout_);
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
                 std::vector<SliceStats>* slices) {
  CellSpread spread(plan, cells, slices);
  spread.AddCounts();
  spread.AddSeries();
  spread.AddClusters();
  spread.AddWholes();
  spread.AddWindows();
  spread.AddTests();
}

}  // namespace kcc
