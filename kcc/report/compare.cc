#include "kcc/report/compare.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace kcc {
namespace {

using PairKey = std::pair<std::string_view, std::string_view>;  // clause, slice

struct PairRef {
  const ClauseVerdict* clause = nullptr;
  const SliceVerdict* slice = nullptr;
};

std::map<PairKey, PairRef> PairsOf(const ReportData& report) {
  std::map<PairKey, PairRef> pairs;
  for (const ClauseVerdict& clause : report.judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      pairs.emplace(PairKey{clause.id, slice.slice}, PairRef{&clause, &slice});
    }
  }
  return pairs;
}

PairSide SideOf(const SliceVerdict& slice) {
  return {slice.verdict(), slice.value, slice.threshold, slice.exceedance, slice.about.reason};
}

// Not measured equals not measured.
bool Same(const Interval& a, const Interval& b) {
  return (!a.known() && !b.known()) || (a.lo == b.lo && a.hi == b.hi);
}

bool Same(const std::optional<ExceedanceCount>& a, const std::optional<ExceedanceCount>& b) {
  if (a.has_value() != b.has_value()) return false;
  return !a || (a->windows == b->windows && a->exceeding == b->exceeding && a->budget == b->budget);
}

// Intervals must both move the same way, or stay, for a direction to be claimed.
std::optional<bool> Worse(const Interval& before, const Interval& after, BoundKind bound) {
  if (!before.known() || !after.known() || Same(before, after)) return std::nullopt;
  const bool rose = after.lo >= before.lo && after.hi >= before.hi;
  const bool fell = after.lo <= before.lo && after.hi <= before.hi;
  if (!rose && !fell) return std::nullopt;
  return rose == (bound == BoundKind::kAtMost);
}

PairChange ChangeOf(const PairSide& before, const PairSide& after) {
  if (after.verdict > before.verdict) return PairChange::kRegressed;
  if (after.verdict < before.verdict) return PairChange::kImproved;
  const bool same = Same(before.value, after.value) && before.threshold == after.threshold &&
                    Same(before.exceedance, after.exceedance);
  return same ? PairChange::kUnchanged : PairChange::kMoved;
}

PairComparison Named(const PairRef& pair) {
  PairComparison row;
  row.clause = pair.clause->id;
  row.metric = pair.clause->metric;
  row.slice = pair.slice->slice;
  row.bound = pair.clause->bound;
  return row;
}

}  // namespace

std::string_view Name(PairChange change) {
  constexpr std::array<std::string_view, 6> kNames = {"regressed", "improved", "new",
                                                      "gone",      "moved",    "unchanged"};
  return kNames[static_cast<size_t>(change)];
}

int64_t ReportComparison::Count(PairChange change) const {
  if (change == PairChange::kUnchanged) return unchanged;
  return std::count_if(pairs.begin(), pairs.end(),
                       [change](const PairComparison& pair) { return pair.change == change; });
}

ReportComparison CompareReports(const ReportData& before, const ReportData& after) {
  ReportComparison comparison;
  comparison.contract_before = before.contract;
  comparison.contract_after = after.contract;
  comparison.verdict_before = before.judgement.verdict;
  comparison.verdict_after = after.judgement.verdict;
  comparison.health_before = before.judgement.health;
  comparison.health_after = after.judgement.health;

  const std::map<PairKey, PairRef> old_pairs = PairsOf(before);
  const std::map<PairKey, PairRef> new_pairs = PairsOf(after);
  for (const ClauseVerdict& clause : after.judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      PairComparison row = Named({&clause, &slice});
      row.after = SideOf(slice);
      row.change = PairChange::kNew;
      const auto old = old_pairs.find({clause.id, slice.slice});
      if (old != old_pairs.end()) {
        row.before = SideOf(*old->second.slice);
        row.change = ChangeOf(*row.before, *row.after);
        // Values of different metrics do not compare.
        if (old->second.clause->metric == clause.metric) {
          row.worse = Worse(row.before->value, row.after->value, row.bound);
        }
      }
      if (row.change == PairChange::kUnchanged) {
        ++comparison.unchanged;
      } else {
        comparison.pairs.push_back(std::move(row));
      }
    }
  }
  for (const ClauseVerdict& clause : before.judgement.clauses) {
    for (const SliceVerdict& slice : clause.slices) {
      if (new_pairs.contains({clause.id, slice.slice})) continue;
      PairComparison row = Named({&clause, &slice});
      row.before = SideOf(slice);
      row.change = PairChange::kGone;
      comparison.pairs.push_back(std::move(row));
    }
  }
  std::stable_sort(
      comparison.pairs.begin(), comparison.pairs.end(),
      [](const PairComparison& a, const PairComparison& b) { return a.change < b.change; });
  return comparison;
}

}  // namespace kcc
