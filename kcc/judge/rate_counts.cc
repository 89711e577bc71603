#include "kcc/judge/rate_counts.h"

#include <algorithm>

#include "kcc/summary/series.h"

namespace kcc {
namespace {

UnitCounts OfRequests(const FlagCounts& flags, uint64_t bad) {
  UnitCounts share;
  share.units = flags.known();
  share.beyond_sure = share.beyond_possible = bad;
  return share;
}

UnitCounts Flips(const SeriesStats& overlap) {
  const bool exact = overlap.exact();
  UnitCounts share;
  share.units = overlap.count();
  share.beyond_sure = overlap.point.tally.zeros + (exact ? 0 : overlap.ends[1].tally.zeros);
  share.beyond_possible = overlap.point.tally.zeros + (exact ? 0 : overlap.ends[0].tally.zeros);
  return share;
}

}  // namespace

std::optional<UnitCounts> BadShare(const Clause& clause, const Summary& summary, size_t slice) {
  const Quantity& quantity = *clause.metric.quantity;
  const SliceStats& stats = summary.slices[slice];
  const PopulationStats& all = stats.population;
  const SidePopulation& side = all.sides[static_cast<size_t>(clause.metric.side)];
  if (quantity.form == TestForm::kTokenShare) return Flips(stats.series[SourceSeries(quantity)]);
  switch (quantity.counts) {
    case RequestCounts::kFailures:
      return OfRequests(side.failed, side.failed.yes);
    case RequestCounts::kSignatures:
      return OfRequests(all.signatures, all.signatures.no);
    case RequestCounts::kFingerprints:
      return OfRequests(side.fingerprint, side.fingerprint.no);
    case RequestCounts::kCoverage: {
      const CoverageCounts* const coverage = CoverageOf(clause, summary, slice);
      if (coverage == nullptr) return {};
      return OfRequests(*coverage, coverage->no);
    }
    case RequestCounts::kConformance:
      return OfRequests(side.conforming, side.conforming.no);
    case RequestCounts::kRefusals:
    case RequestCounts::kParses:  // gaps between shares, not shares
    case RequestCounts::kNone:
      break;
  }
  return {};
}

const CoverageCounts* CoverageOf(const Clause& clause, const Summary& summary, size_t slice) {
  if (clause.metric.quantity->counts != RequestCounts::kCoverage) return nullptr;
  const auto& sides = summary.slices[slice].population.sides;
  const SidePopulation& side = sides[static_cast<size_t>(clause.metric.side)];
  const int set = summary.plan.FindFieldSet(SortedFields(clause));
  if (set < 0 || static_cast<size_t>(set) >= side.coverage.size()) return nullptr;
  return &side.coverage[static_cast<size_t>(set)];
}

std::vector<std::string> SortedFields(const Clause& clause) {
  std::vector<std::string> fields = clause.fields;
  std::sort(fields.begin(), fields.end());
  fields.erase(std::unique(fields.begin(), fields.end()), fields.end());
  return fields;
}

const PairedFlagCounts* PairedFlags(const Clause& clause, const SliceStats& stats) {
  switch (clause.metric.quantity->counts) {
    case RequestCounts::kRefusals:
      return &stats.population.refused;
    case RequestCounts::kParses:
      return &stats.population.parsed;
    case RequestCounts::kFailures:
    case RequestCounts::kSignatures:
    case RequestCounts::kFingerprints:
    case RequestCounts::kCoverage:
    case RequestCounts::kConformance:
    case RequestCounts::kNone:
      break;
  }
  return nullptr;
}

}  // namespace kcc
