#include "kcc/judge/passing.h"

#include <cmath>
#include <limits>

#include "kcc/summary/series.h"

namespace kcc {
namespace {

// The tightest edge that leaves at most `allowed` windows beyond it, walking from the bad end.
std::optional<double> EdgeLeaving(const Histogram& windows, uint64_t allowed, bool at_most) {
  const std::vector<Histogram::Entry> entries = windows.Entries();
  uint64_t beyond = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& [bucket, count] = entries[at_most ? entries.size() - 1 - i : i];
    beyond += count;
    if (beyond <= allowed) continue;
    const double edge = at_most ? Histogram::UpperEdge(bucket) : Histogram::LowerEdge(bucket);
    return std::isfinite(edge) ? std::optional<double>(edge) : std::nullopt;
  }
  return {};
}

}  // namespace

Passing WouldHavePassed(const Clause& clause, const Facts& facts, FactReader* reader) {
  Passing passing;
  if (facts.truth == Truth::kNoEvidence || !facts.slice) return passing;
  const bool at_most = clause.bound == BoundKind::kAtMost;
  if (!clause.hard()) {
    const UnitCounts& units = *facts.units;
    passing.budget = static_cast<double>(units.beyond_possible) / static_cast<double>(units.units);
    const auto values = SliceWindowValues(reader->summary(), *facts.slice, clause.metric,
                                          clause.window, clause.fields);
    if (values) {
      passing.threshold =
          EdgeLeaving(at_most ? values->highs : values->lows, units.allowed, at_most);
    }
    return passing;
  }
  double worst = at_most ? facts.value.hi : facts.value.lo;
  if (!std::isfinite(worst)) return passing;
  // The mean shown was rounded twice; the judge rounds it once.
  if (clause.metric.aggregate == Aggregate::kMean) {
    const Quantity& quantity = *clause.metric.quantity;
    const size_t series = facts.estimate
                              ? *EstimateSeries(quantity)
                              : reader->summary().plan.SeriesOf(quantity, clause.metric.side);
    const SeriesView& view = reader->View(*facts.slice, series);
    const auto end = at_most ? SeriesView::End::kHigh : SeriesView::End::kLow;
    const int beyond = at_most ? 1 : -1;
    while (view.CompareMean(end, worst) == beyond) {
      worst = std::nextafter(worst, beyond * std::numeric_limits<double>::infinity());
    }
  }
  passing.threshold = worst;
  return passing;
}

}  // namespace kcc
