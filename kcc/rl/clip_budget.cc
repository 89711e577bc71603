#include "kcc/rl/clip_budget.h"

#include <cmath>
#include <limits>
#include <span>

#include "kcc/base/strings.h"

namespace kcc {
namespace {

struct Spent {
  double sum = 0;
  int64_t summed = 0;
  RlClipSpending spending;

  void Add(std::span<const double> numerator, std::span<const double> denominator, double epsilon) {
    for (size_t i = 0; i < numerator.size(); ++i) {
      const double distance = std::fabs(std::expm1(numerator[i] - denominator[i]));
      ++spending.tokens;
      if (!(distance <= epsilon)) ++spending.tokens_outside;
      if (!std::isfinite(distance)) continue;
      sum += distance;
      ++summed;
    }
  }
  RlClipSpending Finish(double epsilon) const {
    RlClipSpending out = spending;
    out.mean_distance =
        summed == 0 ? std::numeric_limits<double>::quiet_NaN() : sum / static_cast<double>(summed);
    out.share = out.mean_distance / epsilon;
    return out;
  }
};

}  // namespace

Result<RlClipBudget> ClipBudget(const RlBatch& batch, double epsilon) {
  if (!(epsilon > 0)) {
    return InvalidError("epsilon must be above 0, it is " + ShortestNumber(epsilon));
  }
  Spent together, kernels, staleness;
  RlRow row;
  for (int64_t r = 0; r < batch.rows; ++r) {
    KCC_TRY_VOID(row.Load(batch, r));
    const auto count = static_cast<size_t>(row.tokens);  // the arrays have room for more
    const auto train = std::span<const double>(row.train).first(count);
    const auto rollout = std::span<const double>(row.rollout).first(count);
    together.Add(train, rollout, epsilon);
    if (!batch.old) continue;
    const auto old = std::span<const double>(row.old).first(count);
    kernels.Add(old, rollout, epsilon);
    staleness.Add(train, old, epsilon);
  }
  RlClipBudget budget;
  budget.epsilon = epsilon;
  budget.together = together.Finish(epsilon);
  if (batch.old) {
    budget.kernels = kernels.Finish(epsilon);
    budget.staleness = staleness.Finish(epsilon);
  }
  return budget;
}

}  // namespace kcc
