// What one evaluation says under a policy: which violations end, freeze or guard the promotion, and
// what is still missing before its stage may be left. Internal to promotion/.
#pragma once

#include <string>
#include <vector>

#include "kcc/promotion/promotion.h"

namespace kcc {

// All in words, "N-1 (L3) is violated: …".
struct Assessment {
  std::vector<std::string> ends;     // reject before live traffic, roll back in it
  std::vector<std::string> freezes;  // by the action that the contract orders
  std::vector<std::string> guards;
  std::vector<std::string> errors;
  std::vector<std::string> missing;   // empty: satisfied, as far as verdicts go
  std::vector<std::string> spoiled;   // of `missing`: shown to be bad, whatever test showed it
  std::vector<std::string> loosened;  // ids of the old contract's clauses that are not satisfied
  std::vector<std::string> watched;   // ids that are violated and have no power
  std::vector<std::string> exceeded;  // ids of hard clauses of which an exceedance was seen
  std::vector<HeldClause> held;

  bool satisfied() const {
    return ends.empty() && freezes.empty() && guards.empty() && errors.empty() && missing.empty();
  }
};

// `exceeded` of the state are taken into account; `live`: whether the candidate answers requests.
// The verdicts alone: whether the evidence may count at all is WhyNotCounted's question.
Assessment Assess(const PromotionPolicy& policy, const PromotionState& state,
                  const Evaluation& evaluation, bool live);

// Why good news of this evaluation does not count in the present step, in words; empty: it does.
// `*looks` becomes how many looks are then used up. Evidence of a stage that plans its looks may
// grow in between, which is no look at it (OnlyGrows).
std::string WhyNotCounted(const PromotionPolicy& policy, const PromotionState& state,
                          const Evaluation& evaluation, int64_t* looks);

// The stage of a phase; none where it is none.
std::optional<Stage> StageOf(Phase phase);

// Whether it is between the planned looks of its stage: the evidence grows, and what a test for any
// time says of it is not believed, since together with the looks it would err more often than the
// policy allows.
bool OnlyGrows(const PromotionPolicy& policy, const Evaluation& evaluation);

}  // namespace kcc
