#include "kcc/judge/health.h"

#include <algorithm>
#include <cmath>

namespace kcc {

double Deviation(double excess, double limit) {
  const double magnitude = std::fabs(limit);
  if (magnitude == 0 || std::isnan(excess)) return 2;
  return 1 + std::clamp(excess / magnitude, 0.0, 1.0);
}

void Conclude(const Escalation& escalation, Judgement* judgement) {
  double l2_pairs = 0;
  for (const ClauseVerdict& clause : judgement->clauses) {
    if (clause.level == ViolationLevel::kL2) l2_pairs += static_cast<double>(clause.slices.size());
  }
  const double l3_weight = 1 + 2 * l2_pairs;
  judgement->eta1 = 1;
  judgement->eta2 = l3_weight;
  judgement->health = 0;
  judgement->verdict = Verdict::kSatisfied;
  judgement->action.reset();
  const auto order = [&](Action action) {
    judgement->action = std::max(judgement->action.value_or(action), action);
  };

  for (ClauseVerdict& clause : judgement->clauses) {
    clause.verdict = Verdict::kSatisfied;
    for (SliceVerdict& slice : clause.slices) {
      slice.weight = clause.level == ViolationLevel::kL1   ? 0
                     : clause.level == ViolationLevel::kL2 ? 1
                                                           : l3_weight;
      clause.verdict = std::max(clause.verdict, slice.verdict());
      switch (slice.verdict()) {
        case Verdict::kViolated:
          judgement->health += slice.weight * slice.deviation;
          order(clause.action);
          break;
        case Verdict::kInconclusive:
          order(escalation.on_inconclusive);
          break;
        case Verdict::kError:
          order(escalation.on_error);
          break;
        case Verdict::kSatisfied:
          break;
      }
    }
    judgement->verdict = std::max(judgement->verdict, clause.verdict);
  }
  if (judgement->clauses.empty()) {  // nothing to judge at this stage shows nothing
    judgement->verdict = Verdict::kInconclusive;
    order(escalation.on_inconclusive);
  }
  judgement->convergent = judgement->verdict == Verdict::kSatisfied;
}

}  // namespace kcc
