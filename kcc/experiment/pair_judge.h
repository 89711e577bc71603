// PairJudge: the verdicts of a contract on two kernels' scored logits, for the template's pass
// rates (experiment_report.h). Through the same measurement and the same judge as kcc run.
//
// The lab scores given tokens in memory and writes no trace. A clause about what only a trace or a
// continuation holds is left out with the reason: absent fields would count as a violation of
// trace_field_coverage, and nobody asked for them here.
#pragma once

#include <span>
#include <vector>

#include "kcc/contract/contract.h"
#include "kcc/experiment/experiment_report.h"
#include "kcc/summary/plan.h"

namespace kcc {

class PairJudge {
 public:
  explicit PairJudge(const Contract& contract);

  // Judges one regime of an arm and counts its verdicts. Does nothing where there is no clause.
  Result<> Judge(const ScoredLogits& train, const ScoredLogits& infer,
                 std::span<const KernelRequest> requests, ArmPass* arm) const;

  // The part of the template: the arms, or why there is none.
  Part<PassRates> Rates(std::vector<ArmPass> arms) const;

 private:
  Contract contract_;  // the clauses that are judged
  Plan plan_;
  std::vector<ClauseNotJudged> not_judged_;
};

}  // namespace kcc
