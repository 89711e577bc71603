#include "kcc/replay/choose_requests.h"

#include <cmath>

#include "kcc/summary/population.h"

namespace kcc {
namespace {

bool PointsAtRequests(const SliceVerdict& slice) {
  return slice.verdict() == Verdict::kViolated ||
         (slice.exceedance && slice.exceedance->exceeding > 0);
}

bool BeyondThreshold(const Clause& clause, const Quantity& quantity, double value) {
  if (quantity.direction == Direction::kSigned) return std::fabs(value) > clause.threshold;
  return clause.at_most() ? value > clause.threshold : value < clause.threshold;
}

}  // namespace

std::map<std::string, std::vector<RequestFlag>> FlaggedRequests(const Contract& contract,
                                                                const Judgement& judgement,
                                                                const Summary& summary) {
  std::map<std::string, std::vector<RequestFlag>> flagged;
  for (const ClauseVerdict& verdict : judgement.clauses) {
    const Clause* clause = contract.FindClause(verdict.id);
    if (clause == nullptr || clause->metric.quantity->level == QuantityLevel::kPopulation) continue;
    const Metric& metric = clause->metric;
    const auto series = summary.plan.FindSeries(*metric.quantity, metric.side);
    if (!series || !summary.plan.Keeps(*series)) continue;
    for (const SliceVerdict& slice : verdict.slices) {
      const int index = summary.plan.FindSlice(slice.slice);
      if (index < 0 || !PointsAtRequests(slice)) continue;
      const SeriesView view(summary, static_cast<size_t>(index), *series);
      for (const WorstValue& worst : view.worst()) {
        if (!BeyondThreshold(*clause, *metric.quantity, worst.value)) continue;
        std::vector<RequestFlag>& flags = flagged[worst.request];
        // The list begins with the worst, which stands for the others.
        if (!flags.empty() && flags.back().clause == clause->id &&
            flags.back().slice == slice.slice) {
          continue;
        }
        flags.push_back({clause->id, slice.slice, summary.plan.name(*series), worst.value,
                         clause->threshold, worst.position, worst.token});
      }
    }
  }
  return flagged;
}

bool InSample(std::string_view id, double share) {
  if (share <= 0) return false;
  if (share >= 1) return true;
  // The first 53 bits as a fraction: they are exact in a double.
  return static_cast<double>(HashText("kcc sample 1\n" + std::string(id)) >> 11) < share * 0x1p53;
}

}  // namespace kcc
