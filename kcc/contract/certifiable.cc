#include "kcc/contract/certifiable.h"

#include <cmath>

namespace kcc {
namespace {

// The end of the metric's range in the direction of harm, as the assumptions bound it.
bool BoundedTowardsHarm(const Clause& clause, const Assumptions& assumptions) {
  const std::string_view id = clause.metric.quantity->id;
  if ((id == "reward" || id == "reward_drift") && assumptions.reward_max) return true;
  if (id == "output_tokens" && assumptions.tokens_max) return true;
  return std::isfinite(clause.bound == BoundKind::kAtMost ? MetricMax(clause.metric)
                                                          : MetricMin(clause.metric));
}

}  // namespace

Certifiable CertifiableForTraffic(const Clause& clause, const Assumptions& assumptions) {
  if (!clause.hard()) return Certifiable::kYes;
  const Aggregate aggregate = clause.metric.aggregate;
  const bool most = clause.bound == BoundKind::kAtMost;
  const bool extreme = (aggregate == Aggregate::kMax && most) ||
                       (aggregate == Aggregate::kMin && !most) ||
                       clause.metric.quantity->unit == "MB";
  if (extreme) return Certifiable::kNotExtreme;
  const bool mean = aggregate == Aggregate::kMean || clause.metric.quantity->id == "reward_drift";
  if (mean && !BoundedTowardsHarm(clause, assumptions)) return Certifiable::kNotUnboundedMean;
  return Certifiable::kYes;
}

}  // namespace kcc
