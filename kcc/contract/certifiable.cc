#include "kcc/contract/certifiable.h"

#include <cmath>

namespace kcc {
namespace {

// The end of the metric's range in the direction of harm, as the assumptions bound it.
bool BoundedTowardsHarm(const Clause& clause, const Assumptions& assumptions) {
  switch (clause.metric.quantity->bounded_by) {
    case BoundedBy::kOwnRange:
      break;
    case BoundedBy::kRewardMax:
      if (assumptions.reward_max) return true;
      break;
    case BoundedBy::kTokensMax:
      if (assumptions.tokens_max) return true;
      break;
  }
  // From above both ends are needed: what is bounded at one end only has no scale to bet on.
  if (!std::isfinite(MetricMin(clause.metric))) return false;
  return clause.bound == BoundKind::kAtLeast || std::isfinite(MetricMax(clause.metric));
}

}  // namespace

Certifiable CertifiableForTraffic(const Clause& clause, const Assumptions& assumptions) {
  if (!clause.hard()) return Certifiable::kYes;
  const Aggregate aggregate = clause.metric.aggregate;
  const bool most = clause.bound == BoundKind::kAtMost;
  const bool extreme = (aggregate == Aggregate::kMax && most) ||
                       (aggregate == Aggregate::kMin && !most) ||
                       clause.metric.quantity->form == TestForm::kLargest;
  if (extreme) return Certifiable::kNotExtreme;
  const bool mean =
      aggregate == Aggregate::kMean || clause.metric.quantity->form == TestForm::kMeanGap;
  if (mean && !BoundedTowardsHarm(clause, assumptions)) return Certifiable::kNotUnboundedMean;
  return Certifiable::kYes;
}

}  // namespace kcc
