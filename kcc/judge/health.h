// Health and action: what the verdicts of all clauses amount to (docs/design.md section 8).
//
// H = sum of lambda * phi. Weights are chosen so that H < eta1 iff no L2 or L3 clause is violated,
// eta1 <= H < eta2 iff an L2 but no L3 is, H >= eta2 iff an L3 is. Health is for people and plots;
// the action is always that of the most severe violated clause.
#pragma once

#include "kcc/contract/contract.h"
#include "kcc/judge/verdict.h"

namespace kcc {

// phi for a violated clause: 1 + relative excess over the limit, at most 2; a limit of 0 gives 2.
// `excess` is how far beyond the limit the value is; within it (a percentile known only by its
// bucket, a rate below the budget that a test refuted) gives 1.
double Deviation(double excess, double limit);

// Fills in weights, health, thresholds, overall verdict, convergence and action from the slices'
// verdicts and deviations.
void Conclude(const Escalation& escalation, Judgement* judgement);

}  // namespace kcc
