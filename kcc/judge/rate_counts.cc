#include "kcc/judge/rate_counts.h"

#include <algorithm>

#include "kcc/summary/series.h"

namespace kcc {
namespace {

ShareCounts OfRequests(const FlagCounts& flags, uint64_t bad) {
  ShareCounts share;
  share.units.units = flags.known();
  share.units.beyond_sure = share.units.beyond_possible = bad;
  share.of_requests = true;
  return share;
}

ShareCounts Flips(const SliceStats& stats) {
  static const size_t kTop1 = *FindSeries("top1_overlap");
  const SeriesStats& overlap = stats.series[kTop1];
  const bool exact = overlap.exact();
  ShareCounts share;
  share.units.units = overlap.count();
  share.units.beyond_sure = overlap.point.tally.zeros + (exact ? 0 : overlap.ends[1].tally.zeros);
  share.units.beyond_possible =
      overlap.point.tally.zeros + (exact ? 0 : overlap.ends[0].tally.zeros);
  return share;
}

}  // namespace

std::optional<ShareCounts> BadShare(const Clause& clause, const Summary& summary, size_t slice) {
  const std::string_view id = clause.metric.quantity->id;
  const SliceStats& stats = summary.slices[slice];
  const PopulationStats& all = stats.population;
  const SidePopulation& side = all.sides[static_cast<size_t>(clause.metric.side)];
  if (id == "flip_rate") return Flips(stats);
  if (id == "failure_rate") return OfRequests(side.failed, side.failed.yes);
  if (id == "replay_mismatch_rate") return OfRequests(all.signatures, all.signatures.no);
  if (id == "signature_match_rate") return OfRequests(all.signatures, all.signatures.no);
  if (id == "fingerprint_match_rate") return OfRequests(side.fingerprint, side.fingerprint.no);
  if (id == "trace_field_coverage") {
    std::vector<std::string> fields = clause.fields;
    std::sort(fields.begin(), fields.end());
    const int set = summary.plan.FindFieldSet(fields);
    if (set < 0 || static_cast<size_t>(set) >= side.coverage.size()) return {};
    const FlagCounts& flags = side.coverage[static_cast<size_t>(set)];
    return OfRequests(flags, flags.no);
  }
  return {};
}

const PairedFlagCounts* PairedFlags(const Clause& clause, const SliceStats& stats) {
  const std::string_view id = clause.metric.quantity->id;
  if (id == "refusal_rate_gap") return &stats.population.refused;
  if (id == "parse_rate_gap") return &stats.population.parsed;
  return nullptr;
}

}  // namespace kcc
